from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.errors import InputError, MismatchError
from genius.search import rerank
from genius.search.beam import all_items, beam_search
from genius.search.codes import PackedCodes
from genius.search.rerank import item_keys, rank, row_offsets
from genius.search.scoring import Scorer, half_sq_norms
from genius.search.segment_view import SegmentView
from tests.oracles.blend import blended_items, blended_queries
from tests.search.pools import SegmentedPool, items_below, pools

WIDTH = 6


def embedded(
    pool: SegmentedPool, seed: int, *, int8: bool, half: bool
) -> tuple[list[SegmentView], list[np.ndarray], np.ndarray]:
    """The pool's segments with whole numbers as embeddings, so that int8 is exact; many are equal."""
    vectors = np.random.default_rng(seed).integers(-2, 3, (len(pool.codes), WIDTH))
    segments, items = pool.segments()
    segments = [
        replace(
            segment,
            embeddings_int8=(vectors[own] * 2).astype(np.int8) if int8 else None,
            embeddings=vectors[own].astype(np.float16) if half else None,
            scale=0.5,
            item_keys=own,
        )
        for segment, own in zip(segments, items, strict=True)
    ]
    return segments, items, vectors


@given(
    pools(),
    st.integers(0, 99),
    st.sampled_from([(True, True), (True, False), (False, True)]),
    st.integers(1, 50),
    st.integers(1, 6),
)
def test_equals_ordering_all_items_below(
    pool: SegmentedPool, seed: int, kept: tuple[bool, bool], k: int, beams: int
) -> None:
    int8, half = kept
    segments, items, vectors = embedded(pool, seed, int8=int8, half=half)
    queries = np.random.default_rng(seed + 1).integers(-127, 128, (pool.queries, WIDTH)).astype(np.float32)
    queries[:, 0] = 127  # so in int8 they are exactly themselves
    beams_found = beam_search(
        pool.decoder, segments, pool.vectors, beams, modality_code=pool.modality_code, limit=5
    )
    ranked = rank(segments, beams_found.bounds, beams_found.starts, beams_found.ends, Scorer(queries), k)
    keys = item_keys(segments, ranked.rows)
    for query in range(pool.queries):
        scores = {
            item: float(vectors[item] @ queries[query])
            for below in items_below(pool, beams_found, items, query)
            for item in below
        }
        expected = sorted(scores, key=lambda item: (-scores[item], item))[:k]
        filled = ranked.rows[query] >= 0
        if int8 and not half and len(scores) > k:  # ties at the end are then cut by row, not by key
            last = scores[expected[-1]]
            assert sorted(ranked.scores[query, filled]) == sorted(scores[item] for item in expected)
            better = [item for item in expected if scores[item] > last]
            assert keys[query, : len(better)].tolist() == better
        else:
            assert keys[query, filled].tolist() == expected
            assert ranked.scores[query, filled].tolist() == [scores[item] for item in expected]
        assert (ranked.scores[query, ~filled] == -np.inf).all() and (ranked.runs[query, ~filled] == -1).all()
        for row, run in zip(ranked.rows[query, filled], ranked.runs[query, filled], strict=True):
            assert beams_found.bounds[query] <= run < beams_found.bounds[query + 1]
            segment = int(np.searchsorted(row_offsets(segments), row, side="right")) - 1
            place = row - row_offsets(segments)[segment]
            assert beams_found.starts[segment, run] <= place < beams_found.ends[segment, run]


@given(
    pools(),
    st.integers(0, 99),
    st.integers(1, 50),
    st.sampled_from([None, 0.0, 0.25, 0.5, 1.0]),
    st.booleans(),
)
def test_blended_scores_equal_the_readable_ones(
    pool: SegmentedPool, seed: int, k: int, weight: float | None, int8: bool
) -> None:
    """In whole numbers and halves, so that all sums are exact."""
    rng = np.random.default_rng(seed)
    codebooks = [2.0 * rng.integers(-2, 3, (size, WIDTH)).astype(np.float32) for size in pool.decoder.sizes]
    vectors = rng.integers(-3, 4, (pool.queries, WIDTH)).astype(np.float32)
    query_embeddings = 127.0 * rng.integers(-1, 2, (pool.queries, WIDTH)).astype(np.float32)
    quantized = sum(codebook[pool.codes[:, level]] for level, codebook in enumerate(codebooks))
    segments, items, embeddings = embedded(pool, seed, int8=int8, half=True)
    segments = [
        replace(segment, half_sq_norms=half_sq_norms(segment.packed, codebooks)) for segment in segments
    ]
    everything = all_items(segments, pool.queries, pool.modality_code)
    share = weight or 0.0
    scorer = Scorer.blend(None if weight is None else query_embeddings, vectors, codebooks, share)
    ranked = rank(segments, everything.bounds, everything.starts, everything.ends, scorer, k)
    expected = blended_queries(query_embeddings, vectors, share) @ blended_items(embeddings, quantized).T
    for query in range(pool.queries):
        below = [item for bucket in items_below(pool, everything, items, query) for item in bucket]
        best = sorted(expected[query, below].tolist(), reverse=True)[:k]
        assert ranked.scores[query, : len(best)].tolist() == best
        assert (ranked.rows[query, len(best) :] == -1).all()
        keys = item_keys(segments, ranked.rows[query, : len(best)])
        assert expected[query, keys].tolist() == best


def test_int8_embeddings_find_what_float_embeddings_find() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(3000, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scale = float(np.abs(vectors).max() / 127)
    packed, order = PackedCodes.build(rng.integers(0, [3, 50, 50], (3000, 3)), [3, 50, 50], 1)
    vectors = vectors[order]
    segment = SegmentView(
        packed, None, np.rint(vectors / scale).astype(np.int8), vectors.astype(np.float16), scale
    )
    queries = vectors[::300] + 0.05
    everything = all_items([segment], len(queries))
    runs = everything.bounds, everything.starts, everything.ends
    ranked = rank([segment], *runs, Scorer(queries), 10)
    products = queries @ vectors.astype(np.float16).astype(np.float32).T
    np.testing.assert_array_equal(ranked.rows, np.argsort(-products, axis=1)[:, :10])
    np.testing.assert_allclose(ranked.scores, -np.sort(-products, axis=1)[:, :10], rtol=1e-5)
    int8_only = rank([replace(segment, embeddings=None)], *runs, Scorer(queries), 10)
    np.testing.assert_allclose(int8_only.scores, ranked.scores, atol=0.02)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rerank, "BLOCK", 70)
        float_only = rank([replace(segment, embeddings_int8=None)], *runs, Scorer(queries), 10)
    np.testing.assert_array_equal(float_only.rows, ranked.rows)
    np.testing.assert_array_equal(float_only.scores, ranked.scores)


def test_bad_input() -> None:
    packed, _ = PackedCodes.build(np.zeros((2, 2), int), [2, 2], 1)
    segment = SegmentView(packed, embeddings=np.zeros((2, 3), np.float16))
    everything = all_items([segment], 1)
    runs = everything.bounds, everything.starts, everything.ends
    with pytest.raises(InputError, match="k must be at least 1, not 0"):
        rank([segment], *runs, Scorer(np.zeros((1, 3))), 0)
    with pytest.raises(InputError, match="not of the shape"):
        rank([segment], *runs, Scorer(np.zeros(3)), 1)
    with pytest.raises(InputError, match="some hold NaN"):
        rank([segment], *runs, Scorer(np.full((1, 3), np.nan)), 1)
    with pytest.raises(InputError, match="no embeddings"):
        rank([SegmentView(packed)], *runs, Scorer(np.zeros((1, 3))), 1)
    with pytest.raises(InputError, match="items need `half_sq_norms`"):
        rank([segment], *runs, Scorer.blend(None, np.zeros((1, 3)), [np.zeros((2, 3))] * 2, 1.0), 1)
    with pytest.raises(MismatchError, match="of width 3, and queries of 4"):
        rank([segment], *runs, Scorer(np.zeros((1, 4))), 1)
