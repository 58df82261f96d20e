from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.errors import InputError
from genius.search import engine as engine_module
from genius.search.engine import MODES, Engine, Mode
from tests.oracles.beam import beam_search, ranked_items
from tests.oracles.rerank import rerank
from tests.oracles.trie import Trie
from tests.search.geometric_pool import ITEMS, geometric_pool
from tests.search.pools import SegmentedPool, pools
from tests.search.whole_numbers import FAST, SCAN, engine_of, keys_of


@given(pools(), st.integers(1, 12), st.integers(1, 12))
def test_the_paper_mode_equals_the_readable_search(pool: SegmentedPool, beams: int, k: int) -> None:
    engine, embeddings, query_embeddings = engine_of(pool)
    wanted = pool.modality_code
    plain = engine.search(pool.vectors, modality_code=wanted, k=k, beams=beams, mode="paper")
    reranked = engine.search(
        pool.vectors, query_embeddings, modality_code=wanted, k=k, beams=beams, mode="paper", plain=False
    )
    if not len(pool.shown):
        assert (plain.rows == -1).all() and (reranked.rows == -1).all()
        return
    trie = Trie.build(pool.codes[pool.shown])
    found_beams = beam_search(pool.decoder, trie, pool.vectors, beams, modality_code=wanted)
    log_probs, items = ranked_items(trie, found_beams, k)
    scores, best = rerank(trie, found_beams, query_embeddings, embeddings[pool.shown], k)
    for query in range(pool.queries):
        nodes = found_beams.nodes[query]
        if trie.items(trie.levels, nodes[nodes >= 0])[1].size < min(k, len(pool.items_of(query))):
            continue  # the engine doubles its beam
        filled = items[query] >= 0
        assert plain.log_probs[query, : filled.sum()].tolist() == log_probs[query, filled].tolist()
        if len(engine.segments) == 1:  # otherwise rows of one bucket are in the order of their segments
            assert keys_of(plain, query) == pool.shown[items[query, filled]].tolist()
        filled = best[query] >= 0
        assert keys_of(reranked, query) == pool.shown[best[query, filled]].tolist()
        assert reranked.scores[query, : filled.sum()].tolist() == scores[query, filled].tolist()


@given(pools(), st.integers(1, 6), st.integers(1, 50), st.sampled_from(MODES), st.booleans(), st.booleans())
def test_there_are_k_results_whenever_k_exist(
    pool: SegmentedPool, beams: int, k: int, mode: Mode, plain: bool, scan: bool
) -> None:
    engine, embeddings, query_embeddings = engine_of(pool, SCAN if scan else FAST)
    result = engine.search(
        pool.vectors,
        query_embeddings,
        modality_code=pool.modality_code,
        k=k,
        beams=beams,
        mode=mode,
        plain=plain,
    )
    assert len(engine) == len(pool.shown)
    for query in range(pool.queries):
        existing, keys = pool.items_of(query), keys_of(result, query)
        assert len(keys) == len(set(keys)) == min(k, len(existing)) and set(keys) <= set(existing)
        scores = (embeddings[keys] @ query_embeddings[query]).tolist()
        assert result.scores[query, : len(keys)].tolist() == scores
        log_probs = result.log_probs[query, : len(keys)]
        if plain:
            assert log_probs.tolist() == sorted(log_probs, reverse=True)
        else:
            order = [(-score, key) for score, key in zip(scores, keys, strict=True)]
            assert order == sorted(order)
        np.testing.assert_array_equal(engine.codes(result.rows[query, : len(keys)]), pool.codes[keys])
        depth = result.depths[query]
        by_level = result.level_log_probs[query, : len(keys)]
        assert np.isnan(by_level[:, depth:]).all() and np.isfinite(by_level[:, :depth]).all()
        np.testing.assert_allclose(by_level[:, :depth].sum(axis=1), log_probs, rtol=1e-6)
        if result.modes[query] == "scan":
            assert result.num_candidates[query] == len(existing)
        else:
            assert result.modes[query] == ("fast" if mode == "auto" else mode)
            assert result.num_candidates[query] >= len(keys)


@given(pools(), st.integers(1, 6), st.integers(1, 20), st.sampled_from(MODES))
def test_results_do_not_depend_on_other_queries(pool: SegmentedPool, beams: int, k: int, mode: Mode) -> None:
    engine, _, query_embeddings = engine_of(pool, FAST)
    together = engine.search(
        pool.vectors, query_embeddings, modality_code=pool.modality_code, k=k, beams=beams, mode=mode
    )
    for query in range(pool.queries):
        just = slice(query, query + 1)
        wanted = None if pool.modality_code is None else pool.modality_code[just]
        alone = engine.search(
            pool.vectors[just], query_embeddings[just], modality_code=wanted, k=k, beams=beams, mode=mode
        )
        for name in ("rows", "scores", "log_probs", "level_log_probs", "depths", "num_candidates"):
            np.testing.assert_array_equal(getattr(alone, name), getattr(together, name)[just])
        assert alone.modes == together.modes[just]


@given(pools(), st.integers(1, 6), st.integers(1, 20), st.sampled_from(MODES), st.integers(0, 99))
def test_a_filter_searches_a_smaller_pool(
    pool: SegmentedPool, beams: int, k: int, mode: Mode, seed: int
) -> None:
    engine, _, query_embeddings = engine_of(pool, FAST)
    allowed = np.random.default_rng(seed).random(len(pool.codes)) < 0.5
    smaller, _, _ = engine_of(replace(pool, hidden=pool.hidden | ~allowed), FAST)
    filtered = engine.restricted([allowed[segment.item_keys] for segment in engine.segments])
    result, expected = (
        searched.search(
            pool.vectors, query_embeddings, modality_code=pool.modality_code, k=k, beams=beams, mode=mode
        )
        for searched in (filtered, smaller)
    )
    np.testing.assert_array_equal(result.item_keys, expected.item_keys)
    np.testing.assert_array_equal(result.log_probs, expected.log_probs)


def test_modes_contain_each_other_and_find_the_nearest() -> None:
    engine, vectors, quantized = geometric_pool()
    wanted = np.arange(9) % 4 - 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(engine_module.LIMITS, "safe", 34)
        patch.setitem(engine_module.LIMITS, "fast", 1100)
        modes: tuple[Mode, ...] = ("paper", "exact", "safe", "fast", "scan")
        results = {
            mode: engine.search(vectors, vectors, modality_code=wanted, k=5, beams=20, mode=mode)
            for mode in modes
        }
        beams = {
            mode: engine.find(vectors, modality_code=wanted, beams=20, mode=mode).beams for mode in modes
        }
    rows = {
        mode: [
            {
                row
                for run in np.flatnonzero(own.query_ids == query)
                for row in range(own.starts[0, run], own.ends[0, run])
            }
            for query in range(9)
        ]
        for mode, own in beams.items()
    }
    for query in range(9):
        paper, exact, safe, fast, scan = (rows[mode][query] for mode in rows)
        assert paper == exact <= safe <= fast <= scan
    assert results["paper"].depths.tolist() == [4] * 9 and (results["fast"].depths == 2).all()
    assert len({len(below) for below in rows["safe"]}) > 1
    similarity = np.where(
        (wanted[:, None] < 0) | (engine.codes(np.arange(ITEMS))[:, 0] == wanted[:, None]),
        vectors @ quantized.T,
        -np.inf,
    )
    np.testing.assert_allclose(results["scan"].scores[:, 0], similarity.max(axis=1), atol=1e-5)
    by_codes = engine.search(vectors, modality_code=wanted, k=5, mode="scan")
    code_scores = (
        -0.5 * ((vectors[:, None] - quantized) ** 2).sum(axis=2) + 0.5 * (vectors**2).sum(axis=1)[:, None]
    )
    code_scores[similarity == -np.inf] = -np.inf
    # Products with code vectors are in whole numbers of 16 bits.
    np.testing.assert_allclose(by_codes.scores, -np.sort(-code_scores, axis=1)[:, :5], atol=1e-3)
    blended = Engine(engine.segments, engine.decoder, engine.codebooks, weight=0.5)
    both = blended.search(vectors, vectors, modality_code=wanted, k=5, mode="scan")
    expected = -np.sort(-(similarity + code_scores) / 2, axis=1)[:, :5]
    np.testing.assert_allclose(both.scores, expected, atol=1e-3)


@pytest.mark.parametrize("beams", [3 * engine_module.MAX_BEAMS, 2_000_000_000])
def test_more_beams_than_doubling_reaches(beams: int) -> None:
    engine, vectors, _ = geometric_pool()
    result = engine.search(vectors, vectors, k=3, beams=beams, mode="paper")
    assert set(result.modes) == {"paper"} and result.num_candidates.tolist() == [ITEMS] * 9


def test_bad_input() -> None:
    engine, vectors, _ = geometric_pool()
    with pytest.raises(InputError, match="at least one segment"):
        Engine([], engine.decoder)
    with pytest.raises(InputError, match="unknown mode 'quick': expected one of paper, exact"):
        engine.search(vectors, vectors, mode="quick")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="k must be at least 1, not 0"):
        engine.search(vectors, vectors, k=0)
    with pytest.raises(InputError, match="9 queries need an embedding each, and there are 2"):
        engine.search(vectors, vectors[:2])
    with pytest.raises(InputError, match="the engine needs the codebooks"):
        Engine(engine.segments, engine.decoder).search(vectors, mode="scan")
    for mode in MODES:
        with pytest.raises(InputError, match="at least one beam, not 0"):
            engine.search(vectors, vectors, beams=0, mode=mode)
    with pytest.raises(InputError, match="from 0 to 1, not 2"):
        Engine(engine.segments, engine.decoder, weight=2)


def test_nothing_allowed_is_nothing_found() -> None:
    engine, vectors, _ = geometric_pool()
    nothing = engine.restricted([np.zeros(ITEMS, bool)])
    result = nothing.search(vectors, vectors, k=3, mode="fast")
    assert (result.rows == -1).all() and result.rows.shape == (9, 3) and len(nothing) == 0
