from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from genius.search.engine import MODES, Mode
from genius.search.explain import level_log_probs, prefix_counts
from tests.search.pools import SegmentedPool, pools
from tests.search.whole_numbers import FAST, engine_of, keys_of


@given(pools())
def test_how_many_share_a_prefix_equals_brute_force(pool: SegmentedPool) -> None:
    segments, _ = pool.segments()
    shown = pool.codes[pool.shown]
    codes = np.concatenate([pool.codes, (pool.codes + 1) % pool.decoder.sizes])  # some that no item has, too
    for row, counts in zip(codes, prefix_counts(segments, codes), strict=True):
        expected = [(shown[:, :depth] == row[:depth]).all(axis=1).sum() for depth in range(1, len(row) + 1)]
        assert counts.tolist() == expected


@given(pools(), st.integers(1, 6), st.sampled_from(MODES))
def test_log_probabilities_go_on_where_the_search_stopped(pool: SegmentedPool, k: int, mode: Mode) -> None:
    engine, _, query_embeddings = engine_of(pool, FAST)
    result = engine.search(
        pool.vectors, query_embeddings, modality_code=pool.modality_code, k=k, beams=3, mode=mode
    )
    query_ids, places = np.nonzero(result.rows >= 0)
    log_probs = np.full_like(result.level_log_probs, np.nan)
    codes = engine.codes(result.rows[query_ids, places])
    log_probs[query_ids, places] = level_log_probs(
        engine.decoder, pool.vectors, query_ids, codes, pool.modality_code
    )
    searched = ~np.isnan(result.level_log_probs)
    np.testing.assert_array_equal(log_probs[searched], result.level_log_probs[searched])
    for query in range(pool.queries):
        for place, item in enumerate(keys_of(result, query)):
            code = tuple(pool.codes[item].tolist())
            expected = pool.decoder.path_scores(query, code, pool.wanted(query))
            assert log_probs[query, place].tolist() == expected
