from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from genius.errors import DiskError, translate_disk_errors
from tests.index.made_up import made_up_items
from tests.index.made_up_index import MadeUpIndex, open_made_up


@pytest.fixture
def index(tmp_path: Path) -> Iterator[MadeUpIndex]:
    with open_made_up(tmp_path / "index") as index:
        index.add(made_up_items(9))
        yield index


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EPERM, errno.ENOSPC, errno.EINTR])
def test_an_index_that_can_not_be_written_to(
    index: MadeUpIndex, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    open_file = Path.open

    def refusing(path: Path, *given: Any, **more: Any) -> Any:
        if path.name == "writer.lock":
            raise OSError(number, os.strerror(number), str(path))
        return open_file(path, *given, **more)

    monkeypatch.setattr(Path, "open", refusing)
    for change in (lambda: index.add(made_up_items(1)), lambda: index.remove("item-1"), index.compact):
        with pytest.raises(
            DiskError, match=r"writer\.lock could not be written to: .*: (give|make|do)"
        ) as error:
            change()
        assert error.value.reason == os.strerror(number)


def test_other_errors_of_the_system_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), translate_disk_errors(tmp_path):
        (tmp_path / "nothing").read_bytes()


def test_errors_of_the_disk_below_the_catalogue(index: MadeUpIndex) -> None:
    index._catalogue._query("PRAGMA query_only = 1")
    with pytest.raises(DiskError, match="readonly database: give the user"):
        index.remove("item-1")
    index._catalogue._query("PRAGMA query_only = 0")
    assert index.remove("item-1") == 1
