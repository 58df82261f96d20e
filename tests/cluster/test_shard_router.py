"""An index that has its shards search, against the same sharded index: the same answers, or as good ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genius.data.records import Query, QueryPart
from genius.errors import InputError, ShardError
from genius.index.hits import Hits
from tests.cluster.local_shards import open_routed_here
from tests.cluster.merged_answers import FILTERS, MODES, check
from tests.index.made_up import made_up_items
from tests.index.made_up_index import MadeUpIndex, made, open_made_up

ITEMS = made_up_items(150)
QUERIES = [
    Query("a dog"),
    Query("the sea", instruction="Find an image."),
    Query("red", parts=(QueryPart("sea", None, 1.0), QueryPart("dog", None, -0.5))),
    Query("soup"),
]


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("sharded") / "index", ITEMS, shards=3)


@pytest.fixture(scope="module")
def together(sharded: Path) -> Iterator[MadeUpIndex]:
    with open_made_up(sharded) as index:
        yield index


@pytest.fixture
def routed(sharded: Path) -> Iterator[Any]:
    index, _ = open_routed_here(sharded)
    with index:
        yield index


VARIANTS: list[dict[str, Any]] = [
    {},
    {"want": "image", "offset": 3},
    {"want": ["image", "text"], "beam": 4},
    {"rerank": False},
    {"sort": ["even", "-number"], "mode": "scan"},
    {"exclude": ["item-4", "item-9"]},
    {"filter": {"nothing": 1}},
    {"offset": 900},
    *({"filter": filter} for filter in FILTERS if filter),
]


@pytest.mark.parametrize("mode", MODES)
def test_answers_are_those_of_the_whole_or_as_good(together: MadeUpIndex, routed: Any, mode: Any) -> None:
    for more in VARIANTS:
        options = {"k": 7, "mode": mode, **more}
        for hits, expected in zip(
            routed.search_many(QUERIES, **options), together.search_many(QUERIES, **options), strict=True
        ):
            if mode != "paper" or more == {"rerank": False}:
                check(hits, expected, str(options["mode"]))
            assert hits.notes == expected.notes
            assert not hits.partial and hits.searched == expected.searched
            if options["mode"] == "scan":
                assert equal_hits(hits, expected)
                assert equal_hits(hits.plain, expected.plain)


def equal_hits(hits: Any, expected: Any) -> bool:
    """With all that a hit has; of equal scores, up to their last bit, any may be there."""
    assert [hit.rank for hit in hits] == [hit.rank for hit in expected]
    assert sorted(hit.score for hit in hits) == pytest.approx(sorted(hit.score for hit in expected), abs=1e-5)
    by_id = {hit.item.id: hit for hit in expected}
    for hit in hits:
        other = by_id.get(hit.item.id)
        if other is None:
            continue
        assert (hit.item, hit.code, hit.prefix_counts) == (other.item, other.code, other.prefix_counts)
        for name in ("score", "cosine", "confidence"):
            assert getattr(hit, name) == pytest.approx(getattr(other, name), abs=1e-5)
        np.testing.assert_allclose(hit.log_probabilities, other.log_probabilities, atol=2e-3)
    return True


@pytest.mark.parametrize("least", [0.05, 0.5, 0.999])
def test_only_what_is_sure_enough(together: MadeUpIndex, routed: Any, least: float) -> None:
    for text in ("a dog", "red"):
        options: dict[str, Any] = {"k": 9, "mode": "scan", "at_least": least}
        hits, expected = routed.search(text, **options), together.search(text, **options)
        assert equal_hits(hits, expected) and hits.notes == expected.notes
        assert (hits.nearest is None) == (expected.nearest is None)
        if hits.nearest is not None:
            assert equal_hits([hits.nearest], [expected.nearest])


def test_more_like_an_item(together: MadeUpIndex, routed: Any) -> None:
    options: dict[str, Any] = {"k": 9, "mode": "scan", "exclude": ["item-5"]}
    assert equal_hits(routed.search(near="item-4", **options), together.search(near="item-4", **options))
    with pytest.raises(InputError, match="nothing can be near it"):
        routed.search(near="nothing")


def test_what_no_search_needs_shards_for(together: MadeUpIndex, routed: Any) -> None:
    options: dict[str, Any] = {"filter": {"even": True}, "sort": "-number", "k": 5}
    assert [hit.item.id for hit in routed.browse(**options)] == [
        hit.item.id for hit in together.browse(**options)
    ]
    assert routed.facets() == together.facets() and routed.cell((0,)) == together.cell((0,))
    assert len(routed) == len(together) and routed.get("item-4") == together.get("item-4")
    with pytest.raises(InputError, match="unknown operator"):
        routed.prepare({"even": {"$odd": 1}})


def test_a_shard_that_is_gone_is_named(sharded: Path, together: MadeUpIndex) -> None:
    index, shards = open_routed_here(sharded)
    with index:
        shards.gone = {"shard-01"}
        hits: Hits = index.search("red", k=200, mode="scan")
        assert hits.partial and hits.missing_shards == ("shard-01",)
        assert "1 of 3 shards did not answer (shard-01): their items are missing" in hits.notes
        present = [*shards._shards[0].items(), *shards._shards[2].items()]
        assert {hit.item.id for hit in hits} == {item.id for item in present}
        scores = {hit.item.id: hit.score for hit in together.search("red", k=200, mode="scan")}
        assert all(hit.score == pytest.approx(scores[hit.item.id], abs=2e-6) for hit in hits)
        shards.gone = set(shards.names)
        with pytest.raises(ShardError, match="3 of 3 shards did not answer"):
            index.search("red")
    strict, shards = open_routed_here(sharded, partial=False)
    with strict:
        shards.gone = {"shard-01"}
        with pytest.raises(ShardError, match="1 of 3 shards did not answer"):
            strict.search("red")
        # A search may choose for itself, also for what is found out about its hits later.
        hit = strict.search("red", on_missing_shard="partial")[0]
        assert len(hit.prefix_counts) == len(hit.code)
