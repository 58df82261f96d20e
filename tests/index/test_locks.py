from __future__ import annotations

from pathlib import Path

import pytest

from genius.errors import DamagedError, GeniusError
from genius.index.catalogue import Catalogue
from genius.index.locks import only_writer, opening_segments, remove_orphaned_segments
from tests.index.made_up import made_up_items
from tests.index.made_up_index import open_made_up


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with (
        only_writer(tmp_path),
        pytest.raises(GeniusError, match="being written to by another process"),
        only_writer(tmp_path),
    ):
        pass
    with only_writer(tmp_path):
        pass


def test_orphaned_segments_stay_while_a_reader_may_open_them(tmp_path: Path) -> None:
    with open_made_up(tmp_path / "index") as index:
        index.add(made_up_items(3))
    catalogue, orphan = Catalogue(tmp_path / "index"), tmp_path / "index/segments/00000009"
    orphan.mkdir()
    with opening_segments(tmp_path / "index"):
        assert not remove_orphaned_segments(tmp_path / "index", catalogue)
        assert orphan.exists()
    assert remove_orphaned_segments(tmp_path / "index", catalogue)
    assert [path.name for path in (tmp_path / "index/segments").iterdir()] == ["00000001"]
    catalogue.close()


def test_an_index_without_its_segments_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="segments is gone: bring it back"), opening_segments(tmp_path):
        pass
