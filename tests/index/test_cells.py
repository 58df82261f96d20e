"""What lies under a prefix, against going through all items."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

from genius import Index, Item, Model
from genius.data.mbeir import Tree
from genius.errors import InputError


@pytest.fixture(scope="module")
def index(
    coded_model: Path, miniature: Path, coded_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Index:
    """In three segments, with an item that took the place of another."""
    index = Index.create(tmp_path_factory.mktemp("browse") / "index", Model.open(coded_model))
    index.add(Tree(miniature), cache=coded_home / "cache")
    index.add([Item("new", "A teal square."), Item("old", "A red circle.")], cache=coded_home / "cache")
    index.add([Item("old", "A blue circle.")], cache=coded_home / "cache")
    return index


@pytest.fixture(scope="module")
def codes(index: Index) -> dict[str, tuple[int, ...]]:
    """By search, which knows the codes of all that it finds."""
    return {hit.item.id: hit.code for hit in index.search("red", k=len(index), beam=1000)}


def test_items_and_their_codes(index: Index, codes: dict[str, tuple[int, ...]]) -> None:
    assert len(codes) == len(index) == 101
    for item in index:
        assert index.get(item.id) == item
        assert index.code(item.id) == codes[item.id]
    assert index.get("nothing") is None
    assert index.code("nothing") is None


def test_cells_count_what_is_under_a_prefix(index: Index, codes: dict[str, tuple[int, ...]]) -> None:
    prefixes = {code[:depth] for code in codes.values() for depth in range(5)}
    for prefix in [*prefixes, (0, 15, 15, 15)]:
        under = {id: code for id, code in codes.items() if code[: len(prefix)] == prefix}
        cell = index.cell(prefix, items=1000)
        assert cell.count == len(under)
        assert {item.id for item in cell.items} == set(under)
        following = Counter(code[len(prefix)] for code in under.values() if len(prefix) < 4)
        assert dict(cell.children) == following
        assert [count for _, count in cell.children] == sorted(following.values(), reverse=True)
        assert len(index.cell(prefix, items=3).items) == min(3, len(under))


def test_any_modality(index: Index, codes: dict[str, tuple[int, ...]]) -> None:
    for first in {code[1] for code in codes.values()}:
        cell = index.cell((None, first), items=1000)
        assert {item.id for item in cell.items} == {id for id, code in codes.items() if code[1] == first}
    assert index.cell((None,)).count == len(index)


def test_an_empty_index_has_empty_cells(coded_model: Path, tmp_path: Path) -> None:
    with Index.create(tmp_path / "index", coded_model) as empty:
        assert (empty.cell().count, empty.cell().children, empty.cell(items=3).items) == (0, (), ())


def test_the_version_goes_up(index: Index, coded_home: Path) -> None:
    before = index.version
    index.add([Item("old", "A green circle.")], cache=coded_home / "cache")
    assert index.version > before


def test_prefixes_that_cannot_be(index: Index) -> None:
    for prefix in ((0, 1, 2, 3, 4), (3,), (-1,), (0, 16), (0, None)):
        with pytest.raises(InputError):
            index.cell(prefix)
