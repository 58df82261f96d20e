"""Queries of several parts: what they are combined to, and what is refused."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import genius
from genius import ImageBytes, InputError, Query
from genius.data.records import MAX_PARTS, Modality, QueryPart
from genius.index.composition import combined
from genius.index.query import SearchOptions, combined_query, make_query
from genius.index.query_batch import TargetedQuery, embed_queries, targeted
from genius.model import Model
from tests.index.made_up_index import MadeUpModel

MODEL = cast(Model, MadeUpModel())
WEIGHTS = st.floats(0.01, 50)


def unit(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


def embedding_of(query: Query, **options: Any) -> np.ndarray:
    aimed = targeted(query, SearchOptions.of(**options), {})
    return embed_queries(MODEL, [aimed]).embeddings


def test_the_sum_of_directions_at_the_usual_length() -> None:
    rows = np.random.default_rng(0).normal(size=(3, 8))
    weights = np.array([1.0, 2.0, -0.5])
    result = combined(rows, weights)
    expected = unit(weights @ unit(rows))
    lengths = np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose(result, expected * (np.abs(weights) @ lengths) / 3.5, rtol=1e-5)


def test_what_is_wanted_is_not_taken_away() -> None:
    rows = np.array([[1.0, 0.0, 0.3], [0.0, 1.0, 0.3]])
    result = combined(rows, np.array([1.0, -1.0]), content=2)
    assert result[2] == pytest.approx(0.3)
    np.testing.assert_allclose(result[:2], np.array([1, -1]) / math.sqrt(2), rtol=1e-6)


@given(WEIGHTS, WEIGHTS, st.floats(0.1, 10))
def test_only_the_ratio_of_weights_counts(first: float, second: float, scale: float) -> None:
    rows = np.random.default_rng(1).normal(size=(2, 6))
    weights = np.array([first, -second])
    np.testing.assert_allclose(combined(rows, weights * scale), combined(rows, weights), rtol=1e-4, atol=1e-5)


@given(st.permutations(range(4)))
def test_the_order_of_parts_does_not_count(order: list[int]) -> None:
    rows, weights = np.random.default_rng(2).normal(size=(4, 6)), np.array([1, -0.5, 2, 0.3])
    np.testing.assert_allclose(combined(rows[order], weights[order]), combined(rows, weights), rtol=1e-5)


def test_parts_that_cancel_each_other_out() -> None:
    with pytest.raises(InputError, match="cancel each other out: change their weights"):
        combined(np.ones((2, 4)), np.array([1.0, -1.0]))
    with pytest.raises(InputError, match="cancel each other out"):
        embedding_of(Query("red").minus("red"))


def test_a_combined_query_is_the_sum_of_its_parts() -> None:
    alone = {text: embedding_of(Query(text))[0] for text in ("red", "shoe", "cheap")}
    query = Query("red", weight=2).plus("shoe").minus("cheap", 0.5)
    batch = embed_queries(MODEL, [TargetedQuery(Query("red")), targeted(query, SearchOptions(), {})])
    np.testing.assert_allclose(batch.embeddings[0], alone["red"], rtol=1e-6)
    expected = 2 * unit(alone["red"]) + unit(alone["shoe"]) - 0.5 * unit(alone["cheap"])
    np.testing.assert_allclose(unit(batch.embeddings[1]), unit(expected), rtol=1e-5)
    # vectors are combined as embeddings are; the made-up model reverses them
    np.testing.assert_allclose(batch.vectors[1], batch.embeddings[1][::-1], rtol=1e-5)
    assert len(batch) == 2 and len(batch.kinds) == 2


def test_what_a_query_asks_for_leaves_out_what_it_takes_away() -> None:
    less = Query("red", weight=2).plus("shoe").minus("cheap", 0.5)
    more, alone = Query("red", weight=2).plus("shoe"), Query("red").minus("cheap")
    batch = embed_queries(MODEL, [targeted(query, SearchOptions(), {}) for query in (less, more, alone)])
    np.testing.assert_allclose(batch.asks_for.embeddings[0], batch.embeddings[1], rtol=1e-6)
    np.testing.assert_allclose(batch.asks_for.vectors[0], batch.vectors[1], rtol=1e-6)
    np.testing.assert_allclose(batch.asks_for.embeddings[2], embedding_of(Query("red"))[0], rtol=1e-6)
    assert not np.allclose(batch.embeddings[0], batch.embeddings[1])
    np.testing.assert_array_equal(batch[np.array([2])].asks_for.embeddings, batch.asks_for.embeddings[2:])
    assert batch[slice(1, 2)].asks_for.embeddings.shape == (1, batch.embeddings.shape[1])
    assert embed_queries(MODEL, [targeted(more, SearchOptions(), {})]).positive is None


def test_there_is_a_row_for_each_wanted_modality() -> None:
    query = Query("red").plus("shoe")
    aimed = targeted(query, SearchOptions.of(want="image"), {})
    assert aimed.modalities == (Modality.IMAGE, Modality.PAIR)
    assert [part.instruction for part in aimed.contents] == ["Find a picture that matches this text."] * 2
    assert len(embed_queries(MODEL, [aimed])) == 2


def test_parts_get_an_instruction_of_their_own_modality() -> None:
    query = Query("red").plus(image=b"no image")
    aimed = targeted(query, SearchOptions.of(want="text"), {})
    assert [part.instruction for part in aimed.contents] == [
        "Find a text that matches this text.",
        "Find a text that matches this picture.",
    ]
    bare = targeted(Query("red", instruction="").plus("shoe"), SearchOptions.of(want="text"), {})
    assert [part.instruction for part in bare.contents] == ["", ""]


def test_plus_and_minus() -> None:
    query = genius.Query("sunset").plus(image=b"image", weight=2).minus("people", 0.5)
    assert query.parts == (QueryPart(None, ImageBytes(b"image"), 2.0), QueryPart("people", None, -0.5))
    assert query.text == "sunset" and query.weight == 1
    assert Query("a").parts == ()


@pytest.mark.parametrize("weight", [0, -1, math.nan, math.inf, 101, "2", True, None])
def test_a_weight_is_a_number_above_zero(weight: Any) -> None:
    for change in (
        lambda: Query("a").plus("b", weight),
        lambda: Query("a").minus("b", weight),
        lambda: Query("a", weight=weight),
    ):
        with pytest.raises(InputError, match="a weight is a number above 0 and up to 100, not"):
            change()


def test_parts_that_are_none() -> None:
    with pytest.raises(InputError, match="a part of a query is a text, an image or both"):
        Query("a").plus()
    with pytest.raises(InputError, match="minus takes something away from a query: say what to search for"):
        Query(parts=(QueryPart("people", weight=-1),))
    with pytest.raises(InputError, match=f"17 parts, and up to {MAX_PARTS} can be combined"):
        Query("a", parts=(QueryPart("b"),) * 17)
    with pytest.raises(InputError, match="a vector can't be combined"):
        Query(vector=[1.0, 2.0], parts=(QueryPart("b"),))
    with pytest.raises(InputError, match="an empty query"):
        make_query(Query("a").plus(" "), None, None, None)
    with pytest.raises(InputError, match="up to 20,000 are read"):
        make_query(Query("a").minus("b" * 20_001), None, None, None)


def test_without_a_text_the_first_part_is_the_query() -> None:
    parts = [QueryPart("people", weight=-1), QueryPart("beach", weight=3), QueryPart("dog")]
    query = combined_query(None, None, 1.0, parts)
    assert (query.text, query.weight, query.parts) == ("beach", 3, (parts[0], parts[2]))
    with pytest.raises(InputError, match="minus takes something away"):
        combined_query(None, None, 1.0, parts[:1])
