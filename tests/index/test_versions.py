"""Answers of one version, whatever is written meanwhile; and exclusions that need no look at every row."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from genius.data.records import Item
from genius.errors import GeniusError
from genius.index import snapshot as selecting
from genius.index.index import NO_MATCH
from genius.index.searcher import Searcher
from tests.index.made_up import made_up_items
from tests.index.made_up_index import MadeUpIndex, open_made_up


@pytest.fixture
def index(tmp_path: Path) -> Iterator[MadeUpIndex]:
    with open_made_up(tmp_path / "index") as made:
        yield made


def test_a_walk_is_of_one_version(index: MadeUpIndex) -> None:
    items = [Item(str(n), f"text {n}") for n in range(2500)]
    index.add(items)
    walk = iter(index)
    first = next(walk)
    index.add([Item(str(n), "another") for n in range(0, 2500, 3)])
    index.remove(str(n) for n in range(1, 2500, 3))
    index.compact()
    assert [(item.id, item.text) for item in [first, *walk]] == [(item.id, item.text) for item in items]
    assert len(list(index)) == len(index) == 1667


def test_pages_are_all_there_is(index: MadeUpIndex) -> None:
    index.add(made_up_items(25))
    last, seen = 0, []
    while found := index.page(last, 7):
        last = found[-1][0]
        seen += [item.id for _, item in found]
    assert seen == [item.id for item in index]


def test_all_that_is_asked_while_reading_is_of_one_version(index: MadeUpIndex) -> None:
    index.add([Item("a", "old"), Item("b", "other")])
    code, writer = index.code("a"), open_made_up(index.path)
    with index.reading():
        before = index.version
        writer.add([Item("a", "new"), Item("c", "more")])
        writer.remove("b")
        writer.compact()
        with MadeUpIndex.reading(index):  # again within
            assert (index.version, len(index), "c" in index) == (before, 2, False)
        found = index.get("a")
        assert found is not None
        assert (found.text, index.code("a")) == ("old", code)
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
    monkeypatch.setattr(Searcher, "restricted", lambda one, masks: masked.append(1) or restricted(one, masks))
    ids = [f"item-{n}" for n in range(60)]
    for count, k, mode, filter in itertools.product(
        (1, 20, 57, 60), (1, 3, 60), ("auto", "scan", "paper"), (None, {"even": True})
    ):
        asked: dict[str, Any] = {"k": k, "mode": mode, "filter": filter, "exclude": [*ids[:count], "nobody"]}
        index.search("text", k=1, filter=filter)  # so that the filter is known
        masked.clear()
        found = index.search("text", **asked)
        assert bool(masked) == (count >= (60 if filter is None else 30))
        with monkeypatch.context() as patch:
            patch.setattr(selecting, "FEW", -1)
            expected = index.search("text", **asked)
        assert len(found) == min(k, sum(n >= count and (not filter or n % 2 == 0) for n in range(60)))
        assert [hit.rank for hit in found] == list(range(1, len(found) + 1))
        if mode == "scan":
            assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], abs=1e-5)
        assert found.notes == expected.notes == (() if len(found) else (NO_MATCH,))
    masked.clear()
    assert "item-7" not in {hit.item.id for hit in index.search(near="item-7", k=60)}
    assert not masked
