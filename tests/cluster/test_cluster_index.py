"""Shards that are searched each by itself: their merged answers are never worse than those of one index."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from genius.data.records import Query
from genius.errors import InputError
from genius.index.hits import Hits
from genius.index.query import SearchOptions
from genius.index.shard_answers import merge_answers, shard_options
from tests.cluster.merged_answers import FILTERS, MODES, check
from tests.index.made_up import made_up_items
from tests.index.made_up_index import MadeUpIndex, made, open_made_up

ITEMS = made_up_items(150)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeUpIndex]:
    with open_made_up(made(tmp_path_factory.mktemp("whole") / "index", ITEMS)) as index:
        yield index


@pytest.fixture(scope="module", params=[2, 3, 7])
def shards(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[MadeUpIndex]]:
    path = made(tmp_path_factory.mktemp("sharded") / "index", ITEMS, shards=request.param)
    with ExitStack() as opened:
        yield [opened.enter_context(open_made_up(folder)) for folder in sorted(path.glob("shard-*"))]


def ask(shards: list[MadeUpIndex], queries: list[Query], options: SearchOptions) -> list[Hits]:
    """Encoded once, by any of them, sent to all, and merged."""
    encoded = pickle.loads(pickle.dumps(shards[0]._search(options).encode(queries)))
    return merge_answers(
        [shard._search(shard_options(options)).answer_encoded(encoded) for shard in shards], options
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("filter", FILTERS)
def test_merged_answers_are_never_worse(
    whole: MadeUpIndex, shards: list[MadeUpIndex], mode: Any, filter: dict[str, Any] | None
) -> None:
    queries = [Query(text) for text in ("a dog", "the sea", "red", "a lighthouse", "soup")]
    for more in ({}, {"want": "image"}, {"offset": 3, "beam": 4}, {"rerank": False}):
        if mode == "paper" and more != {"rerank": False}:
            continue
        options = SearchOptions.of(k=7, mode=mode, filter=filter, **more)
        for hits, expected in zip(
            ask(shards, queries, options), whole._search(options).answer(queries), strict=True
        ):
            check(hits, expected, mode)
            assert [hit.rank for hit in hits] == [hit.rank for hit in expected]


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_a_thousand_queries(whole: MadeUpIndex, shards: list[MadeUpIndex], mode: Any) -> None:
    """Of shards that answer apart, and of the index that they are together."""
    queries = [Query(f"query {number}") for number in range(1000)]
    variants: list[dict[str, Any]] = [{"rerank": False}] if mode == "paper" else [{}, {"want": "image"}]
    with open_made_up(shards[0].path.parent) as together:
        for filter in FILTERS:
            for more in variants:
                options = SearchOptions.of(k=10, mode=mode, filter=filter, **more)
                answers = whole._search(options).answer(queries)
                for hits, expected in zip(ask(shards, queries, options), answers, strict=True):
                    check(hits, expected, mode)
                for hits, expected in zip(together._search(options).answer(queries), answers, strict=True):
                    check(hits, expected, mode)


def test_more_like_an_item_of_one_shard(whole: MadeUpIndex, shards: list[MadeUpIndex]) -> None:
    options = SearchOptions.of(k=9, mode="scan", exclude=["item-4"])
    holder = next(shard for shard in shards if "item-4" in shard)
    encoded = [holder._search(options).encode_item("item-4")]
    hits = merge_answers([shard._search(options).answer_encoded(encoded) for shard in shards], options)[0]
    assert "item-4" not in {hit.item.id for hit in hits}
    check(hits, whole.search(near="item-4", k=9, mode="scan"), "scan")
    with pytest.raises(InputError, match="nothing can be near it"):
        holder._search(options).encode_item("nothing")


def test_hits_are_sorted_after_they_are_merged(whole: MadeUpIndex, shards: list[MadeUpIndex]) -> None:
    options = SearchOptions.of(k=12, mode="scan", sort=["even", "-number"])
    expected = whole._search(options).answer([Query("red")])[0]
    assert [hit.item.metadata for hit in ask(shards, [Query("red")], options)[0]] == [
        hit.item.metadata for hit in expected
    ]


def test_nothing_at_all_says_why(shards: list[MadeUpIndex]) -> None:
    hits = ask(shards, [Query("red")], SearchOptions.of(filter={"nothing": 1}))[0]
    assert not hits
    assert any("nothing in the index fulfils this filter" in note for note in hits.notes)


def test_answers_that_do_not_belong_together() -> None:
    options, empty = SearchOptions(), Hits([], [], rerank=True, notes=[])
    for answers in ([], [[empty], [empty, empty]]):
        with pytest.raises(InputError, match="for the same queries"):
            merge_answers(answers, options)
