"""One version at a time, whatever is written meanwhile; exclusions; and how an index's folder is made."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from genius.data.records import Item
from genius.errors import GeniusError, InputError
from genius.index import snapshot
from genius.index.inspect import describe
from genius.index.near_misses import ALL_EXCLUDED
from genius.index.searcher import Searcher
from genius.index.snapshot import create_index_folder, is_index
from tests.index.made_up import GIVEN, made_up_items
from tests.index.made_up_index import MadeUpIndex, open_made_up


@pytest.fixture
def index(tmp_path: Path) -> Iterator[MadeUpIndex]:
    with open_made_up(tmp_path / "index") as index:
        yield index


def test_an_iteration_is_of_one_version(index: MadeUpIndex) -> None:
    items = [Item(str(n), f"text {n}") for n in range(2500)]
    index.add(items)
    walk = iter(index)
    first = next(walk)
    index.add([Item(str(n), "another") for n in range(0, 2500, 3)])
    index.remove(str(n) for n in range(1, 2500, 3))
    index.compact()
    assert [(item.id, item.text) for item in [first, *walk]] == [(item.id, item.text) for item in items]
    assert len(list(index)) == len(index) == 1667


def test_pages_hold_all_items(index: MadeUpIndex) -> None:
    index.add(made_up_items(25))
    last, seen = 0, []
    while page := index.page(last, 7):
        last = page[-1][0]
        seen += [item.id for _, item in page]
    assert seen == [item.id for item in index]


def test_all_that_is_read_within_is_of_one_version(index: MadeUpIndex) -> None:
    index.add([Item("a", "old"), Item("b", "other")])
    code, writer = index.code("a"), open_made_up(index.path)
    with index.reading():
        before = index.version
        writer.add([Item("a", "new"), Item("c", "more")])
        writer.remove("b")
        writer.compact()
        with MadeUpIndex.reading(index):  # again within
            assert (index.version, len(index), "c" in index) == (before, 2, False)
        item = index.get("a")
        assert item is not None
        assert (item.text, index.code("a")) == ("old", code)
        assert [item.text for item in index] == ["old", "other"]
        assert {hit.item.text for hit in index.search("old")} == {"old", "other"}
        assert index.cell().count == 2
        with pytest.raises(GeniusError, match="change it after that"):
            index.add([Item("d", "d")])
    assert {item.text for item in index} == {"new", "more"}
    assert {hit.item.id for hit in index.search("old")} == {"a", "c"}
    writer.close()


def test_a_few_exclusions_need_no_masks_and_find_the_same(
    index: MadeUpIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add(made_up_items(60))
    masked: list[int] = []
    restricted = Searcher.restricted

    def counted(searcher: Searcher, masks: Any) -> Searcher:
        masked.append(1)
        return restricted(searcher, masks)

    monkeypatch.setattr(Searcher, "restricted", counted)
    ids = [f"item-{n}" for n in range(60)]
    for count, k, mode, filter in itertools.product(
        (1, 20, 57, 60), (1, 3, 60), ("auto", "scan", "paper"), (None, {"even": True})
    ):
        options: dict[str, Any] = {
            "k": k,
            "mode": mode,
            "filter": filter,
            "exclude": [*ids[:count], "nobody"],
        }
        index.search("text", k=1, filter=filter)  # so that the filter is known
        masked.clear()
        hits = index.search("text", **options)
        assert bool(masked) == (count >= (60 if filter is None else 30))
        with monkeypatch.context() as patch:
            patch.setattr(snapshot, "FEW_EXCLUDED", -1)
            expected = index.search("text", **options)
        assert len(hits) == min(k, sum(n >= count and (not filter or n % 2 == 0) for n in range(60)))
        assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
        if mode == "scan":
            assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in expected], abs=1e-5)
        assert hits.notes == expected.notes == (() if len(hits) else (ALL_EXCLUDED,))
    masked.clear()
    assert "item-7" not in {hit.item.id for hit in index.search(near="item-7", k=60)}
    assert not masked


def test_an_index_is_made_where_nothing_stands(index: MadeUpIndex, tmp_path: Path) -> None:
    assert is_index(index.path)
    assert not is_index(tmp_path)
    with pytest.raises(InputError, match="is an index already"):
        create_index_folder(index.path, {})
    (tmp_path / "full").mkdir()
    (tmp_path / "full/photo.jpg").touch()
    with pytest.raises(InputError, match="holds something else"):
        create_index_folder(tmp_path / "full", {})
    (tmp_path / "empty").mkdir()
    create_index_folder(tmp_path / "empty", {"codes": asdict(GIVEN)})
    assert describe(tmp_path / "empty", verify=True)["items"] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "full", "index"]
