from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.decode.geometry import Geometry
from genius.errors import InputError
from genius.search.code_pool import CodePool
from tests.oracles.beam import beam_search, prefix_survival, ranked_items
from tests.oracles.trie import Trie
from tests.search.pools import SegmentedPool, pools


def code_pool(pool: SegmentedPool) -> CodePool:
    """The pool with codebooks of zeros: items of one bucket are then ordered by number."""
    return CodePool(
        pool.codes, [np.zeros((size, 1), np.float32) for size in pool.decoder.sizes], pool.semantic
    )


@given(
    pools(several=False).filter(lambda pool: pool.queries > 0),
    st.integers(1, 6),
    st.integers(1, 8),
    st.data(),
)
def test_equals_the_readable_beam_search_and_survival(
    pool: SegmentedPool, beams: int, k: int, data: st.DataObject
) -> None:
    numbers = st.lists(st.integers(0, len(pool.codes) - 1), max_size=3)
    positives = [
        np.array(items, np.int64)
        for items in data.draw(st.lists(numbers, min_size=pool.queries, max_size=pool.queries))
    ]
    items, survival = code_pool(pool).search(
        pool.decoder, pool.vectors, positives, k=k, beams=beams, modality_code=pool.modality_code
    )
    trie = Trie.build(pool.codes)
    expected = beam_search(pool.decoder, trie, pool.vectors, beams, modality_code=pool.modality_code)
    assert survival.tolist() == prefix_survival(trie, expected, positives).tolist()
    _, ranked = ranked_items(trie, expected, k)
    assert items.shape == (pool.queries, min(k, len(pool.codes)))
    for query in range(pool.queries):
        best = ranked[query][ranked[query] >= 0]
        if len(best) < min(k, len(pool.items_of(query))):
            continue  # the engine doubles its beam
        assert items[query, : len(best)].tolist() == best.tolist()
        assert (items[query, len(best) :] == -1).all()


@given(pools(several=False).filter(lambda pool: pool.queries > 0), st.integers(1, 3), st.integers(1, 40))
def test_the_beam_widens_for_the_items_but_not_for_the_survival(
    pool: SegmentedPool, beams: int, k: int
) -> None:
    positives = [np.arange(len(pool.codes))] * pool.queries
    searched = code_pool(pool)
    items, survival = searched.search(
        pool.decoder, pool.vectors, positives, k=k, beams=beams, modality_code=pool.modality_code
    )
    _, narrower = searched.search(
        pool.decoder, pool.vectors, positives, k=1, beams=beams, modality_code=pool.modality_code
    )
    assert survival.tolist() == narrower.tolist()
    for query in range(pool.queries):
        returned = items[query][items[query] >= 0].tolist()
        assert len(set(returned)) == len(returned) == min(k, len(pool.items_of(query)))


def test_a_query_without_positives_counts_as_lost() -> None:
    codebooks = [np.eye(2, dtype=np.float32)] * 2
    pool, decoder = CodePool(np.array([[0, 0], [0, 1], [1, 1]]), codebooks, 1), Geometry(codebooks, 1.0)
    vectors = np.array([[2, 0], [2, 0]], np.float32)
    items, survival = pool.search(decoder, vectors, [np.array([0]), np.array([], np.int64)], k=2)
    assert items.tolist() == [[0, 1], [0, 1]]
    assert survival.tolist() == [0.5, 0.5]
    with pytest.raises(InputError, match="at least one query"):
        pool.search(decoder, vectors[:0], [])
