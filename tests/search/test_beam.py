from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.errors import InputError, MismatchError
from genius.search import beam
from genius.search.beam import History, all_items, beam_search, prefix_survival
from genius.search.codes import PackedCodes
from genius.search.segment_view import SegmentView
from tests.oracles import beam as oracle
from tests.oracles.trie import Trie
from tests.search.pools import SegmentedPool, items_below, pools
from tests.search.table_decoder import Prefix, TableDecoder


@given(pools(), st.integers(1, 12))
def test_all_levels_equal_the_readable_beam_search(pool: SegmentedPool, beams: int) -> None:
    segments, items = pool.segments()
    result = beam_search(pool.decoder, segments, pool.vectors, beams, modality_code=pool.modality_code)
    assert len(result) == pool.queries
    if not len(pool.shown):
        assert not len(result.log_probs)
        return
    shown = pool.codes[pool.shown]
    expected = oracle.beam_search(
        pool.decoder, Trie.build(shown), pool.vectors, beams, modality_code=pool.modality_code
    )
    for query in range(pool.queries):
        filled = expected.nodes[query] >= 0
        own = slice(result.bounds[query], result.bounds[query + 1])
        assert result.log_probs[own].tolist() == expected.log_probs[query, filled].tolist()
        assert result.level_log_probs[own].tolist() == expected.level_log_probs[query, filled].tolist()
        below = items_below(pool, result, items, query)
        codes = [{tuple(pool.codes[item].tolist()) for item in bucket} for bucket in below]
        assert codes == [{tuple(row)} for row in expected.codes[query, filled].tolist()]
        buckets = [int((shown == row).all(axis=1).sum()) for row in expected.codes[query, filled]]
        assert list(map(len, below)) == result.items[own].tolist() == buckets
        assert result.num_candidates[query] == sum(buckets)
        assert result.depths[query] == (pool.codes.shape[1] if filled.any() else 0)


@given(pools(), st.integers(1, 12), st.integers(0, 15))
def test_searches_that_stop_earlier_have_more_items_below(
    pool: SegmentedPool, beams: int, limit: int
) -> None:
    segments, items = pool.segments()
    results = [
        beam_search(pool.decoder, segments, pool.vectors, beams, modality_code=pool.modality_code, limit=most)
        for most in (None, 0, limit, limit + 10)
    ]
    for query in range(pool.queries):
        below = [set().union(*items_below(pool, result, items, query)) for result in results]
        assert below[0] == below[1] <= below[2] <= below[3]
        depths = [result.depths[query] for result in results]
        assert depths == sorted(depths, reverse=True)
        if below[0]:
            assert depths[3] > pool.semantic, "a semantic code is always chosen"


@given(pools(), st.integers(1, 12), st.integers(0, 15))
def test_a_search_stops_as_early_as_it_may(pool: SegmentedPool, beams: int, limit: int) -> None:
    segments, items = pool.segments()
    result = beam_search(
        pool.decoder, segments, pool.vectors, beams, modality_code=pool.modality_code, limit=limit
    )
    for query in range(pool.queries):
        below = set().union(*items_below(pool, result, items, query))
        if not below:
            continue
        trie = Trie.build(pool.codes[pool.shown])
        wanted = None if pool.modality_code is None else pool.modality_code[query : query + 1]
        vectors = pool.vectors[query : query + 1]
        for depth in range(pool.semantic + 1, trie.levels):
            searched = oracle.beam_search(
                pool.decoder, trie, vectors, beams, depth=depth, modality_code=wanted
            )
            _, numbers = trie.items(depth, searched.nodes[searched.nodes >= 0])
            codes = {tuple(row) for row in pool.codes[pool.shown][numbers].tolist()}
            if len(numbers) <= limit or len(codes) <= beams:
                assert result.depths[query] == depth
                assert below == set(pool.shown[numbers].tolist())
                break
        else:
            assert result.depths[query] == trie.levels


@given(pools(), st.integers(1, 6), st.sampled_from([None, 0, 5]))
def test_results_do_not_depend_on_blocks_or_other_queries(
    pool: SegmentedPool, beams: int, limit: int | None
) -> None:
    segments, _ = pool.segments()
    together = beam_search(
        pool.decoder, segments, pool.vectors, beams, modality_code=pool.modality_code, limit=limit
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beam, "FLOATS", 2 * beams * max(pool.decoder.sizes))  # two queries at a time
        blocks = beam_search(
            pool.decoder, segments, pool.vectors, beams, modality_code=pool.modality_code, limit=limit
        )
    for name in ("bounds", "log_probs", "level_log_probs", "starts", "ends", "depths"):
        np.testing.assert_array_equal(getattr(blocks, name), getattr(together, name))
    for query in range(pool.queries):
        just = slice(query, query + 1)
        wanted = None if pool.modality_code is None else pool.modality_code[just]
        alone = beam_search(
            pool.decoder, segments, pool.vectors[just], beams, modality_code=wanted, limit=limit
        )
        own = slice(together.bounds[query], together.bounds[query + 1])
        np.testing.assert_array_equal(alone.log_probs, together.log_probs[own])
        np.testing.assert_array_equal(alone.starts, together.starts[:, own])


@given(pools())
def test_all_items_without_a_search(pool: SegmentedPool) -> None:
    segments, items = pool.segments()
    result = all_items(segments, pool.queries, pool.modality_code)
    for query in range(pool.queries):
        assert set().union(*items_below(pool, result, items, query)) == set(pool.items_of(query))


# --- the history


def recorded(
    pool: SegmentedPool, items: list[np.ndarray], history: History, depth: int, query: int
) -> dict[Prefix, tuple[float, set[int]]]:
    """The prefixes in a query's beams after `depth` levels: their log-probabilities and the items below."""
    found_prefixes = {}
    for block in history[depth - 1]:
        for place in np.flatnonzero(block.query_ids == query):
            below = {
                int(item)
                for segment, own in enumerate(items)
                for item in own[block.starts[segment, place] : block.ends[segment, place]]
                if not pool.hidden[item]
            }
            (prefix,) = {tuple(pool.codes[item, :depth].tolist()) for item in below}
            assert prefix not in found_prefixes
            found_prefixes[prefix] = float(block.log_probs[place]), below
    return found_prefixes


@given(pools(), st.integers(1, 6), st.booleans())
def test_the_history_has_the_beams_after_each_level(pool: SegmentedPool, beams: int, in_blocks: bool) -> None:
    segments, items = pool.segments()
    history: History = []
    with pytest.MonkeyPatch.context() as patch:
        if in_blocks:
            patch.setattr(beam, "FLOATS", 2 * beams * max(pool.decoder.sizes))
        beam_search(
            pool.decoder, segments, pool.vectors, beams, modality_code=pool.modality_code, history=history
        )
    assert len(history) == pool.codes.shape[1]
    if not len(pool.shown):
        assert not any(len(block) for blocks in history for block in blocks)
        return
    trie = Trie.build(pool.codes[pool.shown])
    expected = oracle.beam_search(pool.decoder, trie, pool.vectors, beams, modality_code=pool.modality_code)
    for depth, nodes_of_level in enumerate(expected.nodes_by_level, 1):
        for query, padded in enumerate(nodes_of_level):
            nodes = padded[padded >= 0]
            found_prefixes = recorded(pool, items, history, depth, query)
            prefixes = [tuple(codes) for codes in trie.prefixes(depth, nodes).tolist()]
            assert sorted(found_prefixes) == sorted(prefixes)
            for node, prefix in zip(nodes, prefixes, strict=True):
                _, numbers = trie.items(depth, np.array([node]))
                log_prob = sum(pool.decoder.path_scores(query, prefix, pool.wanted(query)))
                assert found_prefixes[prefix] == (log_prob, set(pool.shown[numbers].tolist()))


@given(pools(), st.integers(1, 6), st.integers(0, 9))
def test_a_history_changes_nothing_and_ends_where_the_search_ends(
    pool: SegmentedPool, beams: int, limit: int
) -> None:
    segments, _ = pool.segments()
    history: History = []
    plain, watched = (
        beam_search(
            pool.decoder,
            segments,
            pool.vectors,
            beams,
            modality_code=pool.modality_code,
            limit=limit,
            history=own,
        )
        for own in (None, history)
    )
    for name in ("bounds", "log_probs", "level_log_probs", "starts", "ends", "depths"):
        np.testing.assert_array_equal(getattr(watched, name), getattr(plain, name))
    for depth, blocks in enumerate(history, 1):
        queries = {int(query) for block in blocks for query in block.query_ids}
        given_before = (
            depth == 1 and pool.semantic == 0
        )  # a given code is recorded, though nothing stops there
        expected = {query for query in range(pool.queries) if watched.depths[query] >= depth}
        assert queries == expected or (given_before and queries >= expected)


@given(pools().filter(lambda pool: pool.queries > 0 and len(pool.shown) > 0), st.integers(1, 4), st.data())
def test_prefix_survival_equals_the_readable_one(
    pool: SegmentedPool, beams: int, data: st.DataObject
) -> None:
    segments, items = pool.segments()
    history: History = []
    beam_search(
        pool.decoder, segments, pool.vectors, beams, modality_code=pool.modality_code, history=history
    )
    trie = Trie.build(pool.codes[pool.shown])
    expected = oracle.beam_search(pool.decoder, trie, pool.vectors, beams, modality_code=pool.modality_code)
    for segment, own in enumerate(items):
        rows = [row for row, item in enumerate(own) if not pool.hidden[item]]
        chosen = st.lists(st.sampled_from(rows), max_size=3) if rows else st.just([])
        relevant = data.draw(st.lists(chosen, min_size=pool.queries, max_size=pool.queries))
        positives = [np.searchsorted(pool.shown, own[np.array(rows, np.int64)]) for rows in relevant]
        survival = prefix_survival(history, [np.array(rows, np.int64) for rows in relevant], segment)
        assert survival.tolist() == oracle.prefix_survival(trie, expected, positives).tolist()


def test_bad_input() -> None:
    packed, _ = PackedCodes.build(np.array([[0, 1]]), [2, 2], 1)
    other, _ = PackedCodes.build(np.array([[0, 1]]), [2, 2], 0)
    decoder, segments, vectors = TableDecoder([2, 2], 0), [SegmentView(packed)], np.zeros((2, 1))
    with pytest.raises(InputError, match="at least one segment"):
        beam_search(decoder, [], vectors, 5)
    with pytest.raises(InputError, match="at least one beam, not 0"):
        beam_search(decoder, segments, vectors, 0)
    with pytest.raises(InputError, match=r"not of the shape \(2,\)"):
        beam_search(decoder, segments, vectors[:, 0], 5)
    with pytest.raises(InputError, match="some hold NaN"):
        beam_search(decoder, segments, vectors * np.nan, 5)
    with pytest.raises(InputError, match="for each query a first code, or -1"):
        beam_search(decoder, segments, vectors, 5, modality_code=np.array([0]))
    with pytest.raises(MismatchError, match="made by different models"):
        beam_search(TableDecoder([2, 3], 0), segments, vectors, 5)
    with pytest.raises(MismatchError, match="of the same levels"):
        beam_search(decoder, [SegmentView(packed), SegmentView(other)], vectors, 5)
    with pytest.raises(InputError, match="survival needs at least one query"):
        prefix_survival([], [])


@given(pools(), st.integers(1, 12), st.integers(1, 30))
def test_a_budget_keeps_the_best_cells_that_have_no_more_items(
    pool: SegmentedPool, beams: int, limit: int
) -> None:
    segments, items = pool.segments()
    cells, kept = (
        beam.search_beams(
            pool.decoder,
            segments,
            pool.vectors,
            beams,
            modality_code=pool.modality_code,
            limit=most,
            budget=most == limit,
        )
        for most in (1000, limit)
    )
    for query in range(pool.queries):
        all_cells, own = (slice(*result.bounds[query : query + 2]) for result in (cells, kept))
        below = set().union(*items_below(pool, cells, items, query))
        codes = {tuple(row) for row in pool.codes[sorted(below)].tolist()}
        whole = len(below) <= max(limit, beams) or len(codes) <= beams
        within = len(below) if whole else int((cells.items[all_cells].cumsum() <= limit).sum())
        if within:
            assert kept.depths[query] == cells.depths[query]
            np.testing.assert_array_equal(kept.starts[:, own], cells.starts[:, all_cells][:, :within])
            np.testing.assert_array_equal(kept.log_probs[own], cells.log_probs[all_cells][:within])
        elif below:
            assert kept.depths[query] > cells.depths[query]
