from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genius.errors import InputError, MismatchError
from genius.search import beam as walking
from genius.search.beam import walk, whole
from genius.search.codes import PackedCodes
from genius.search.segment_view import Part
from tests.oracles.beam import beam_search
from tests.oracles.trie import Trie
from tests.search.pools import Pool, items_below, pools
from tests.search.test_beam import Table

few = settings(deadline=None)


@few
@given(pools(), st.integers(1, 12))
def test_all_levels_equal_beam_search_over_a_tree(pool: Pool, beams: int) -> None:
    parts, items = pool.parts()
    found = walk(pool.table, parts, pool.vectors, beams, first=pool.first)
    assert len(found) == pool.queries
    if not len(pool.shown):
        assert not len(found.scores)
        return
    shown = pool.codes[pool.shown]
    expected = beam_search(pool.table, Trie.build(shown), pool.vectors, beams, first=pool.first)
    for query in range(pool.queries):
        there = expected.nodes[query] >= 0
        mine = slice(found.bounds[query], found.bounds[query + 1])
        assert found.scores[mine].tolist() == expected.scores[query, there].tolist()
        below = items_below(pool, found, items, query)
        codes = [{tuple(pool.codes[item].tolist()) for item in some} for some in below]
        assert codes == [{tuple(row)} for row in expected.codes[query, there].tolist()]
        assert sum(map(len, below)) == sum((shown == row).all(axis=1).sum() for row in expected.codes[query])
        np.testing.assert_allclose(found.gains[mine].sum(axis=1), found.scores[mine], rtol=1e-6)
        assert found.depths[query] == (pool.codes.shape[1] if there.any() else 0)


@few
@given(pools(), st.integers(1, 12), st.integers(0, 15))
def test_whoever_stops_earlier_finds_more(pool: Pool, beams: int, limit: int) -> None:
    parts, items = pool.parts()
    limits = (None, 0, limit, limit + 10)
    every = [walk(pool.table, parts, pool.vectors, beams, first=pool.first, limit=limit) for limit in limits]
    for query in range(pool.queries):
        sets = [set().union(*items_below(pool, found, items, query)) for found in every]
        assert sets[0] == sets[1] <= sets[2] <= sets[3]
        depths = [found.depths[query] for found in every]
        assert depths == sorted(depths, reverse=True)
        if sets[0]:
            assert depths[3] > pool.semantic, "a semantic code is always chosen"


@few
@given(pools(), st.integers(1, 12), st.integers(0, 15))
def test_a_stop_is_as_early_as_it_may_be(pool: Pool, beams: int, limit: int) -> None:
    parts, items = pool.parts()
    found = walk(pool.table, parts, pool.vectors, beams, first=pool.first, limit=limit)
    for query in range(pool.queries):
        below = set().union(*items_below(pool, found, items, query))
        if not below:
            continue
        trie = Trie.build(pool.codes[pool.shown])
        wanted = None if pool.first is None else pool.first[query : query + 1]
        vectors = pool.vectors[query : query + 1]
        for depth in range(pool.semantic + 1, trie.levels):
            searched = beam_search(pool.table, trie, vectors, beams, depth=depth, first=wanted)
            _, numbers = trie.items(depth, searched.nodes[searched.nodes >= 0])
            codes = {tuple(row) for row in pool.codes[pool.shown][numbers].tolist()}
            if len(numbers) <= limit or len(codes) <= beams:
                assert found.depths[query] == depth
                assert below == set(pool.shown[numbers].tolist())
                break
        else:
            assert found.depths[query] == trie.levels


@few
@given(pools(), st.integers(1, 6), st.sampled_from([None, 0, 5]))
def test_neither_blocks_nor_company_show(pool: Pool, beams: int, limit: int | None) -> None:
    parts, _ = pool.parts()
    whole_batch = walk(pool.table, parts, pool.vectors, beams, first=pool.first, limit=limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walking, "FLOATS", 2 * beams * max(pool.table.sizes))
        blocks = walk(pool.table, parts, pool.vectors, beams, first=pool.first, limit=limit)
    for name in ("bounds", "scores", "gains", "starts", "ends", "depths"):
        np.testing.assert_array_equal(getattr(blocks, name), getattr(whole_batch, name))
    for query in range(pool.queries):
        one = slice(query, query + 1)
        first = None if pool.first is None else pool.first[one]
        alone = walk(pool.table, parts, pool.vectors[one], beams, first=first, limit=limit)
        mine = slice(whole_batch.bounds[query], whole_batch.bounds[query + 1])
        np.testing.assert_array_equal(alone.scores, whole_batch.scores[mine])
        np.testing.assert_array_equal(alone.starts, whole_batch.starts[:, mine])


@few
@given(pools())
def test_the_whole_pool_without_a_search(pool: Pool) -> None:
    parts, items = pool.parts()
    found = whole(parts, pool.queries, pool.first)
    for query in range(pool.queries):
        wanted = -1 if pool.first is None else pool.first[query]
        expected = {int(item) for item in pool.shown if wanted < 0 or pool.codes[item, 0] == wanted}
        assert set().union(*items_below(pool, found, items, query)) == expected


def test_bad_input() -> None:
    packed, _ = PackedCodes.build(np.array([[0, 1]]), [2, 2], 1)
    other, _ = PackedCodes.build(np.array([[0, 1]]), [2, 2], 0)
    table, parts, vectors = Table([2, 2], 0), [Part(packed)], np.zeros((2, 1))
    with pytest.raises(InputError, match="at least one part"):
        walk(table, [], vectors, 5)
    with pytest.raises(InputError, match="at least one beam, not 0"):
        walk(table, parts, vectors, 0)
    with pytest.raises(InputError, match=r"not of the shape \(2,\)"):
        walk(table, parts, vectors[:, 0], 5)
    with pytest.raises(InputError, match="some hold NaN"):
        walk(table, parts, vectors * np.nan, 5)
    with pytest.raises(InputError, match="for each query a first code, or -1"):
        walk(table, parts, vectors, 5, first=np.array([0]))
    with pytest.raises(MismatchError, match="made by different models"):
        walk(Table([2, 3], 0), parts, vectors, 5)
    with pytest.raises(MismatchError, match="of the same levels"):
        walk(table, [Part(packed), Part(other)], vectors, 5)
    with pytest.raises(InputError, match="'allowed' needs one row for each of 1 items"):
        Part(packed, np.ones(2, bool))
