"""Queries that are embedded once, against embedding them each time."""

from __future__ import annotations

import threading
from dataclasses import fields
from typing import cast

import numpy as np
import pytest

from genius.data.records import ImageBytes, Modality, Query
from genius.index import query_cache
from genius.index.query import SearchOptions
from genius.index.query_batch import QueryBatch, TargetedQuery, embed_queries, query_notes, targeted
from genius.index.query_cache import QueryCache
from genius.model import Model
from tests.index.made_up_index import MadeUpModel
from tests.pictures import square

MODEL = cast(Model, MadeUpModel())


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[TargetedQuery]:
    """The queries that were really embedded."""
    seen: list[TargetedQuery] = []

    def embed(model: object, queries: list[TargetedQuery]) -> QueryBatch:
        seen.extend(queries)
        return embed_queries(MODEL, queries)

    monkeypatch.setattr(query_cache, "embed_queries", embed)
    return seen


def assert_equal(first: QueryBatch, other: QueryBatch) -> None:
    for field in fields(QueryBatch):
        np.testing.assert_array_equal(getattr(first, field.name), getattr(other, field.name))


def aimed() -> list[TargetedQuery]:
    """Queries of texts with an instruction, several modalities and parts, some of them alike."""
    both = (Modality.IMAGE, Modality.TEXT)
    return [
        TargetedQuery(Query("red")),
        TargetedQuery(Query("red", instruction="find a picture")),
        TargetedQuery(Query("red"), both),
        targeted(Query("red").minus("blue", 0.5), SearchOptions(), {}),
        targeted(Query("red").minus("blue", 0.7), SearchOptions(), {}),
        TargetedQuery(Query("red")),
    ]


def test_repeated_texts_are_embedded_once_and_give_the_same(embedded: list[TargetedQuery]) -> None:
    cache, queries = QueryCache(MODEL), aimed()
    for _ in range(2):
        batch, notes = cache.embed(queries)
        assert_equal(batch, embed_queries(MODEL, queries))
        assert notes == query_notes(MODEL, queries)
    # Two that are alike in one call are both embedded, as calls are batches.
    assert len(embedded) == len(queries) and len(cache) == len(queries) - 1
    for query in queries:
        assert_equal(cache.embed([query])[0], embed_queries(MODEL, [query]))
    assert len(embedded) == len(queries)


def test_images_are_embedded_each_time(embedded: list[TargetedQuery]) -> None:
    cache, query = QueryCache(MODEL), TargetedQuery(Query(image=ImageBytes(square(), "x")))
    for _ in range(2):
        cache.embed([query])
    assert len(embedded) == 2 and not len(cache)


def test_the_oldest_are_forgotten(embedded: list[TargetedQuery]) -> None:
    cache = QueryCache(MODEL, most=2)
    for text in ("red", "blue", "red", "green", "red", "blue"):
        cache.embed([TargetedQuery(Query(text))])
    assert [query.query.text for query in embedded] == ["red", "blue", "green", "blue"]
    cache.clear()
    assert not len(cache)


def test_notes_can_be_changed_by_who_gets_them() -> None:
    cache, query = QueryCache(MODEL), TargetedQuery(Query("red"))
    cache.embed([query])[1][0].append("mine")
    assert cache.embed([query])[1] == query_notes(MODEL, [query])


def test_threads_share_it() -> None:
    cache, wrong = QueryCache(MODEL, most=3), []
    expected = {text: embed_queries(MODEL, [TargetedQuery(Query(text))]) for text in ("a", "b", "c", "d")}

    def work() -> None:
        for text in list(expected) * 5:
            batch, _ = cache.embed([TargetedQuery(Query(text))])
            if not np.array_equal(batch.embeddings, expected[text].embeddings):
                wrong.append(text)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(cache) <= 3
