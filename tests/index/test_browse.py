"""Paging, sorting and browsing, against sorting all items in Python; and what is said of empty results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genius.data.records import Item
from genius.errors import FilterTimeoutError, InputError
from genius.index.near_misses import ALL_EXCLUDED, EMPTY, NO_MATCH
from genius.index.query import MAX_K
from genius.search.engine import Mode
from tests.index.made_up import made_up_items
from tests.index.made_up_index import MadeUpIndex, open_made_up

VALUES: list[Any] = [3, -1.5, 10, "b", "a", "B", "A", "Ärger", "10", True, None]


def items() -> list[Item]:
    """Texts, images and pairs, whose metadata are of all kinds, and of which some lack a key."""
    made = []
    for number, item in enumerate(made_up_items(60)):
        brand = ["acme", "Zeta"][number % 2]
        metadata: dict[str, Any] = {"number": number, "group": number % 4, "brand": brand}
        if number % 10:
            metadata["mixed"] = VALUES[number % len(VALUES)]
        made.append(Item(item.id, item.text, item.image, metadata))
    return made


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeUpIndex]:
    with open_made_up(tmp_path_factory.mktemp("browse") / "index") as index:
        index.add(items())
        yield index


def ids(hits: list[Any]) -> list[str]:
    return [hit.item.id for hit in hits]


def folded(value: Any) -> Any:
    """A text without upper case, as far as ASCII goes."""
    return value.encode().lower().decode() if isinstance(value, str) else value


def sorted_by(unsorted: list[Item], *keys: str) -> list[str]:
    """Numbers before texts, nothing last, ties as they were: a stable sort for each key, the last first."""
    items = unsorted
    for key in reversed(keys):
        name = key.removeprefix("-")

        def value(item: Item, name: str = name) -> tuple[bool, Any]:
            return isinstance(item.metadata[name], str), folded(item.metadata[name])

        having = [item for item in items if item.metadata.get(name) is not None]
        lacking = [item for item in items if item.metadata.get(name) is None]
        having.sort(key=value, reverse=key.startswith("-"))
        if key.startswith("-"):  # equal ones keep their order also from the largest on
            groups: dict[Any, list[Item]] = {}
            for item in items:
                groups.setdefault(folded(item.metadata.get(name)), []).append(item)
            order = list(dict.fromkeys(folded(item.metadata[name]) for item in having))
            having = [item for found in order for item in groups[found]]
        items = having + lacking
    return [item.id for item in items]


KEYS = st.lists(
    st.sampled_from(["mixed", "-mixed", "group", "-group", "number", "-number", "brand", "gone"]), max_size=3
)


@settings(max_examples=60, deadline=None)
@given(KEYS, st.integers(1, 70), st.integers(0, 70), st.sampled_from([None, 1, 3]))
def test_browsing_is_sorting_and_slicing(
    index: MadeUpIndex, keys: list[str], k: int, offset: int, group: int | None
) -> None:
    left = [item for item in items() if group is None or item.metadata["group"] == group]
    hits = index.browse(
        filter=None if group is None else {"group": group}, sort=keys, k=k, offset=offset, exclude="item-7"
    )
    left = [item for item in left if item.id != "item-7"]
    assert ids(hits) == sorted_by(left, *keys)[offset : offset + k]
    assert hits.total == len(left)
    assert [hit.rank for hit in hits] == list(range(offset + 1, offset + 1 + len(hits)))
    for hit in hits:
        assert hit.code == index.code(hit.item.id)
        assert math.isnan(hit.score) and math.isnan(hit.cosine)
        assert hit.log_probabilities == hit.prefix_counts == ()


def test_browsing_by_modality(index: MadeUpIndex) -> None:
    assert index.browse(want="image", k=60).total == 40
    assert index.browse(only="image", k=60).total == 20
    assert {hit.item.modality.value for hit in index.browse(only=["image", "text"], k=60)} == {
        "image",
        "text",
    }
    assert ids(index.browse(k=3)) == ["item-0", "item-1", "item-2"]
    with pytest.raises(InputError, match="without a query, mode means nothing"):
        index.browse(mode="fast")  # type: ignore[call-arg]


@pytest.mark.parametrize("options", [{}, {"rerank": False}, {"want": "image"}, {"filter": {"group": 1}}])
@pytest.mark.parametrize("mode", ["scan", "paper", "auto"])
def test_pages_of_hits_are_parts_of_all(index: MadeUpIndex, options: dict[str, Any], mode: Mode) -> None:
    whole = index.search("a dog", k=60, mode=mode, beam=60, exclude=["item-1"], **options)
    for offset in (0, 1, 7, 30, 59, 200):
        page = index.search("a dog", k=7, offset=offset, mode=mode, beam=60, exclude=["item-1"], **options)
        expected = whole[offset : offset + 7]
        assert [hit.score for hit in page] == [hit.score for hit in expected]
        if "rerank" not in options:  # the made-up codes of different items have equal scores
            assert ids(page) == ids(expected)
        assert [hit.rank for hit in page] == list(range(offset + 1, offset + 1 + len(page)))


def test_hits_are_sorted_among_themselves(index: MadeUpIndex) -> None:
    """The k best, and not others that would come first by the key."""
    best = index.search("a dog", k=8, offset=4)
    hits = index.search("a dog", k=8, offset=4, sort=["brand", "-number"])
    assert ids(hits) == sorted_by([hit.item for hit in best], "brand", "-number")
    assert [hit.rank for hit in hits] == list(range(5, 13))
    assert {hit.item.id: hit.score for hit in hits} == {hit.item.id: hit.score for hit in best}
    near = index.search(near="item-3", k=8, sort="number")
    assert ids(near) == sorted(ids(near), key=lambda id: int(id.removeprefix("item-")))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"offset": -1}, "offset must be a number from 0 to"),
        ({"offset": True}, "offset must be a number"),
        ({"k": MAX_K, "offset": 1}, "ranked up to the 10,000th"),
        ({"sort": ""}, "a metadata key has"),
        ({"sort": "-"}, "a metadata key has"),
        ({"sort": [3]}, "by the name of a metadata key"),
        ({"sort": ["a"] * 9}, "up to 8 keys, not by 9"),
        ({"want": "image", "only": "text"}, "give one of the two"),
        ({"only": "video"}, "unknown modality 'video'"),
    ],
)
def test_what_can_not_be_paged_or_sorted(index: MadeUpIndex, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        index.search("a dog", **options)


@pytest.mark.parametrize(
    ("filter", "notes"),
    [
        ({"brnad": "acme"}, ["no item has the metadata 'brnad': did you mean 'brand'?"]),
        ({"Brand": "acme"}, ["no item has the metadata 'Brand': did you mean 'brand'?"]),
        ({"brand": "ACME"}, ["no item has brand = 'ACME': did you mean 'acme'?"]),
        (
            {"brand": {"$in": ["zeta", "Acme"]}},
            [
                "no item has brand = 'zeta': did you mean 'Zeta'?",
                "no item has brand = 'Acme': did you mean 'acme'?",
            ],
        ),
        ({"brand": "ceta"}, ["no item has brand = 'ceta': did you mean 'Zeta'?"]),
        ({"brand": "nothing like it"}, []),
        ({"xyz": 1}, ["no item has the metadata 'xyz': there are brand, group, mixed, number"]),
        ({"numbers.width": 1}, ["no item has the metadata 'numbers.width': did you mean 'number'?"]),
        ({"brand.width": 1}, []),
        (
            {"$and": [{"$or": [{"nubmer": 1}]}, {"$not": {"gruop": 1}}]},
            [
                "no item has the metadata 'nubmer': did you mean 'number'?",
                "no item has the metadata 'gruop': did you mean 'group'?",
            ],
        ),
        ({"number": {"$gt": 100}}, []),
    ],
)
def test_a_filter_that_nothing_fulfils_gets_a_suggestion(
    index: MadeUpIndex, filter: dict[str, Any], notes: list[str]
) -> None:
    for hits in (index.search("a dog", filter=filter), index.browse(filter=filter)):
        assert list(hits) == []
        assert list(hits.notes) == [NO_MATCH, *notes]


def test_a_sort_key_that_no_item_has_gets_a_suggestion(index: MadeUpIndex) -> None:
    expected = ("no item has the metadata 'nummer': did you mean 'number'?",)
    assert index.browse(sort="-nummer").notes == expected
    assert index.search("a dog", sort=["brand", "nummer"]).notes == expected
    assert index.browse(sort="mixed", filter={"number": 0}).notes == ()  # others have it


def test_nothing_is_said_of_a_good_search_and_nothing_is_read_for_it(
    index: MadeUpIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    for name in ("metadata_keys", "metadata_texts", "modalities"):
        monkeypatch.setattr(index._catalogue, name, lambda *arguments: read.append(arguments))
    for hits in (
        index.search("a dog", want="image", sort="brand"),
        index.search("a dog", filter={"group": 1}),
        index.browse(filter={"group": 1}, sort="number"),
    ):
        assert len(hits) == 10 and hits.notes == ()
    assert read == []


def test_an_empty_index_and_exclusions(index: MadeUpIndex, tmp_path: Path) -> None:
    with open_made_up(tmp_path / "index") as empty:
        for hits in (empty.browse(), empty.search("a dog"), empty.browse(filter={}, want="image")):
            assert (list(hits), hits.notes) == ([], (EMPTY,))
        assert empty.browse(filter={"a": 1}).notes == (NO_MATCH, _no_metadata("a"))
    everything = [item.id for item in items()]
    assert index.browse(exclude=everything).notes == (ALL_EXCLUDED,)


def _no_metadata(key: str) -> str:
    return f"no item has the metadata {key!r}: the items have no metadata at all"


def test_browsing_has_the_time_of_a_filter(index: MadeUpIndex) -> None:
    index.filter_seconds = -1
    try:
        with pytest.raises(FilterTimeoutError, match="takes more than -1 seconds"):
            index.browse(sort="number", filter={"number": {"$gt": 3}})
    finally:
        index.filter_seconds = 60
