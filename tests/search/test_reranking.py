from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from genius.search.asked import Asked, halves
from hypothesis import given, settings
from hypothesis import strategies as st

from genius.errors import InputError, MismatchError
from genius.search import rerank as reranking
from genius.search.beam import walk, whole
from genius.search.codes import PackedCodes
from genius.search.rerank import numbers, offsets, rank
from genius.search.segment_view import Part
from tests.oracles.blend import blended_items, blended_queries
from tests.search.pools import Pool, items_below, pools

few = settings(deadline=None)
WIDTH = 6


def embedded(
    pool: Pool, seed: int, coarse: bool, exact: bool
) -> tuple[list[Part], list[np.ndarray], np.ndarray]:
    """The pool's parts with whole numbers as embeddings, so that bytes are exact; many are equal."""
    vectors = np.random.default_rng(seed).integers(-2, 3, (len(pool.codes), WIDTH))
    parts, items = pool.parts()
    parts = [
        replace(
            part,
            coarse=(vectors[mine] * 2).astype(np.int8) if coarse else None,
            exact=vectors[mine].astype(np.float16) if exact else None,
            scale=0.5,
            numbers=mine,
        )
        for part, mine in zip(parts, items, strict=True)
    ]
    return parts, items, vectors


@few
@given(
    pools(),
    st.integers(0, 99),
    st.sampled_from([(True, True), (True, False), (False, True)]),
    st.integers(1, 50),
    st.integers(1, 6),
)
def test_equals_ordering_all_items_below(
    pool: Pool, seed: int, kept: tuple[bool, bool], k: int, beams: int
) -> None:
    parts, items, vectors = embedded(pool, seed, *kept)
    queries = np.random.default_rng(seed + 1).integers(-127, 128, (pool.queries, WIDTH)).astype(np.float32)
    queries[:, 0] = 127  # in bytes it is exactly itself
    found = walk(pool.table, parts, pool.vectors, beams, first=pool.first, limit=5)
    ranked = rank(parts, found.bounds, found.starts, found.ends, Asked(queries), k)
    names = numbers(parts, ranked.rows)
    for query in range(pool.queries):
        likeness = {
            item: float(vectors[item] @ queries[query])
            for some in items_below(pool, found, items, query)
            for item in some
        }
        expected = sorted(likeness, key=lambda item: (-likeness[item], item))[:k]
        got = ranked.rows[query] >= 0
        if (
            kept[0] and not kept[1] and len(likeness) > k
        ):  # what is equal at the end is cut by row, not by name
            last = likeness[expected[-1]]
            assert sorted(ranked.scores[query, got]) == sorted(likeness[item] for item in expected)
            better = [item for item in expected if likeness[item] > last]
            assert names[query, : len(better)].tolist() == better
        else:
            assert names[query, got].tolist() == expected
            assert ranked.scores[query, got].tolist() == [likeness[item] for item in expected]
        assert (ranked.scores[query, ~got] == -np.inf).all() and (ranked.runs[query, ~got] == -1).all()
        for row, run in zip(ranked.rows[query, got], ranked.runs[query, got], strict=True):
            assert found.bounds[query] <= run < found.bounds[query + 1]
            part = int(np.searchsorted(offsets(parts), row, side="right")) - 1
            place = row - offsets(parts)[part]
            assert found.starts[part, run] <= place < found.ends[part, run]


@few
@given(
    pools(),
    st.integers(0, 99),
    st.integers(1, 50),
    st.sampled_from([None, 0.0, 0.25, 0.5, 1.0]),
    st.booleans(),
)
def test_blends_equal_the_readable_ones(
    pool: Pool, seed: int, k: int, weight: float | None, coarse: bool
) -> None:
    """In whole numbers and halves, so that all sums are exact."""
    rng = np.random.default_rng(seed)
    codebooks = [2.0 * rng.integers(-2, 3, (size, WIDTH)).astype(np.float32) for size in pool.table.sizes]
    queries = rng.integers(-3, 4, (pool.queries, WIDTH)).astype(np.float32)
    embeddings = 127.0 * rng.integers(-1, 2, (pool.queries, WIDTH)).astype(np.float32)
    quantized = sum(book[pool.codes[:, level]] for level, book in enumerate(codebooks))
    parts, items, vectors = embedded(pool, seed, coarse, True)
    parts = [replace(part, halves=halves(part.packed, codebooks)) for part in parts]
    found = whole(parts, pool.queries, pool.first)
    share = weight or 0.0
    asked = Asked.blend(None if weight is None else embeddings, queries, codebooks, share)
    ranked = rank(parts, found.bounds, found.starts, found.ends, asked, k)
    expected = blended_queries(embeddings, queries, share) @ blended_items(vectors, quantized).T
    for query in range(pool.queries):
        below = [item for some in items_below(pool, found, items, query) for item in some]
        best = sorted(expected[query, below].tolist(), reverse=True)[:k]
        assert ranked.scores[query, : len(best)].tolist() == best
        assert (ranked.rows[query, len(best) :] == -1).all()
        names = numbers(parts, ranked.rows[query, : len(best)])
        assert expected[query, names].tolist() == best


def test_bytes_find_what_exact_embeddings_find() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(3000, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scale = float(np.abs(vectors).max() / 127)
    packed, order = PackedCodes.build(rng.integers(0, [3, 50, 50], (3000, 3)), [3, 50, 50], 1)
    vectors = vectors[order]
    part = Part(packed, None, np.rint(vectors / scale).astype(np.int8), vectors.astype(np.float16), scale)
    queries = vectors[::300] + 0.05
    found = whole([part], len(queries))
    ranked = rank([part], found.bounds, found.starts, found.ends, Asked(queries), 10)
    exact = queries @ vectors.astype(np.float16).astype(np.float32).T
    np.testing.assert_array_equal(ranked.rows, np.argsort(-exact, axis=1)[:, :10])
    np.testing.assert_allclose(ranked.scores, -np.sort(-exact, axis=1)[:, :10], rtol=1e-5)
    coarse = rank([replace(part, exact=None)], found.bounds, found.starts, found.ends, Asked(queries), 10)
    np.testing.assert_allclose(coarse.scores, ranked.scores, atol=0.02)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reranking, "BLOCK", 70)
        slow = rank([replace(part, coarse=None)], found.bounds, found.starts, found.ends, Asked(queries), 10)
    np.testing.assert_array_equal(slow.rows, ranked.rows)
    np.testing.assert_array_equal(slow.scores, ranked.scores)


def test_bad_input() -> None:
    packed, _ = PackedCodes.build(np.zeros((2, 2), int), [2, 2], 1)
    part = Part(packed, exact=np.zeros((2, 3), np.float16))
    found = whole([part], 1)
    runs = found.bounds, found.starts, found.ends
    with pytest.raises(InputError, match="k must be at least 1, not 0"):
        rank([part], *runs, Asked(np.zeros((1, 3))), 0)
    with pytest.raises(InputError, match="not of the shape"):
        rank([part], *runs, Asked(np.zeros(3)), 1)
    with pytest.raises(InputError, match="some hold NaN"):
        rank([part], *runs, Asked(np.full((1, 3), np.nan)), 1)
    with pytest.raises(InputError, match="no embeddings"):
        rank([Part(packed)], *runs, Asked(np.zeros((1, 3))), 1)
    with pytest.raises(InputError, match="items need `halves`"):
        rank([part], *runs, Asked.blend(None, np.zeros((1, 3)), [np.zeros((2, 3))] * 2, 1.0), 1)
    with pytest.raises(MismatchError, match="of width 3, and queries of 4"):
        rank([part], *runs, Asked(np.zeros((1, 4))), 1)
