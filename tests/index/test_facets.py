"""Facets against filters: what a facet says of a key or a value is how many items a filter by it leaves."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genius.data.records import Item
from genius.index import facets
from genius.index.facets import Facet, FacetCache, read_facets
from tests.index.made_up_index import open_made_up
from tests.index.made_up_metadata import METADATA
from tests.oracles.filters import ABSENT, fulfils, value_of


class Listed:
    """Metadata as a catalogue gives them."""

    def __init__(self, items: Sequence[dict[str, Any]], block: int = 3) -> None:
        self._items, self._block = items, block
        self.reads = 0

    def __len__(self) -> int:
        return len(self._items)

    def metadata(self, step: int) -> Iterator[list[str]]:
        self.reads += 1
        chosen = [orjson.dumps(item).decode() for item in self._items[::step]]
        yield from (chosen[start : start + self._block] for start in range(0, len(chosen), self._block))


def facets_of(items: Sequence[dict[str, Any]]) -> dict[str, Facet]:
    listed = read_facets(Listed(items))
    assert [facet.count for facet in listed] == sorted((facet.count for facet in listed), reverse=True)
    return {facet.key: facet for facet in listed}


@settings(max_examples=300)
@given(st.lists(METADATA, min_size=1, max_size=12))
def test_counts_are_what_filters_leave(items: list[dict[str, Any]]) -> None:
    def left(filter: dict[str, Any]) -> int:
        return sum(fulfils(item, filter) for item in items)

    for key, facet in facets_of(items).items():
        if facet.kind == "value":
            assert facet.minimum is facet.maximum is None
            for value, count in facet.values:
                assert left({key: value}) == count, (key, value)
            assert sum(count for _, count in facet.values) == facet.count
        else:
            assert facet.values == ()
            assert left({key: {"$gte": facet.minimum, "$lte": facet.maximum}}) == facet.count
            assert left({key: facet.minimum}) and left({key: facet.maximum})


@settings(max_examples=300)
@given(st.lists(METADATA, min_size=1, max_size=12))
def test_no_key_is_forgotten(items: list[dict[str, Any]]) -> None:
    listed = facets_of(items)
    for item in items:
        for key, value in item.items():
            is_object = isinstance(value, str) and value.startswith("{") and len(value) > 1
            if value is not None and not is_object:
                assert listed[key].count >= 1
    for key, facet in listed.items():
        values = [value_of(item, key) for item in items]
        assert facet.count <= sum(value is not ABSENT and value is not None for value in values)


def test_numbers_and_dates_have_a_range_and_other_keys_have_values() -> None:
    listed = facets_of(
        [
            {"price": 30, "taken": "2024-05-01T10:00:00", "brand": "acme", "sale": True, "size": 42},
            {"price": 9.5, "taken": "2023-12-24", "brand": "acme", "sale": False, "size": "XL"},
            {"price": None, "taken": "2025-01-01 09:30", "brand": "other", "sale": True},
        ]
    )
    assert listed["price"] == Facet("price", "number", 2, 9.5, 30)
    assert listed["taken"] == Facet("taken", "date", 3, "2023-12-24", "2025-01-01 09:30")
    assert listed["brand"] == Facet("brand", "value", 3, values=(("acme", 2), ("other", 1)))
    assert listed["sale"] == Facet("sale", "value", 3, values=((True, 2), (False, 1)))
    assert listed["size"] == Facet("size", "value", 2, values=((42, 1), ("XL", 1)))


@pytest.mark.parametrize("text", ["2024-05", "2024-05-01x", "24-05-01", "May 2024", "٢٠٢٤-٠٥-٠١"])
def test_what_is_no_iso_date_is_a_value(text: str) -> None:
    assert facets_of([{"taken": "2024-05-01"}, {"taken": text}])["taken"].kind == "value"


def test_true_is_not_one() -> None:
    assert set(facets_of([{"a": True}, {"a": 1}, {"a": 1.0}])["a"].values) == {(True, 1), (1, 2)}


def test_json_text_is_looked_into() -> None:
    listed = facets_of([{"size": '{"width": 3, "unit": "cm"}'}, {"size": '{"width": 5}'}, {"size": "{"}])
    assert listed["size.width"] == Facet("size.width", "number", 2, 3, 5)
    assert listed["size.unit"].values == (("cm", 1),)
    assert listed["size"].values == (("{", 1),)


def test_the_most_frequent_values_are_listed_even_among_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facets, "MAX_COUNTED", 600)
    items = [{"sku": f"{n}", "colour": f"colour {n % 70}", "prose": "x" * 101} for n in range(2000)]
    items += [{"sku": "common"}] * 10
    listed = {facet.key: facet for facet in read_facets(Listed(items, block=100))}
    assert listed["sku"].count == 2010
    assert listed["sku"].values[0] == ("common", 10)
    assert len(listed["colour"].values) == facets.MAX_VALUES
    assert listed["colour"].values[0] == ("colour 0", 29)
    assert listed["prose"].values == ()


def test_of_very_many_keys_the_most_frequent_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facets, "MAX_COUNTED", 300)
    items = [{f"key {n}": n, "common": 1} for n in range(2000)]
    listed = read_facets(Listed(items, block=100))
    assert (listed[0].key, listed[0].count) == ("common", 2000)
    assert len(listed) == facets.MAX_FACETS


def test_counts_of_a_very_large_index_are_estimated_from_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [{"colour": "red" if n % 10 < 3 else "blue", "price": n} for n in range(10_000)]
    monkeypatch.setattr(facets, "MAX_ITEMS", 1_000)
    source = Listed([*items, {"colour": "red", "price": 7}])
    colour, price = read_facets(source)
    assert price.count == pytest.approx(10_000, rel=0.02)
    assert dict(colour.values)["red"] == pytest.approx(3_000, rel=0.05)


def test_facets_are_read_once_for_a_version_and_anew_for_the_next(tmp_path: Path) -> None:
    with open_made_up(tmp_path / "index") as index:
        assert index.facets() == ()
        index.add([Item("1", "a", metadata={"price": 5}), Item("2", "b", metadata={"price": 7})])
        first = index.facets()
        assert first == (Facet("price", "number", 2, 5, 7),)
        assert index.facets() is first
        index.update([{"id": "2", "metadata": {"price": 9}}])
        assert index.facets() == (Facet("price", "number", 2, 5, 9),)
        index.remove("2")
        assert index.facets() == (Facet("price", "number", 1, 5, 5),)


def test_several_threads_read_facets_once() -> None:
    source, cache = Listed([{"a": n} for n in range(1000)]), FacetCache()
    threads = [threading.Thread(target=cache.get, args=(source,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert source.reads == 1
