from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.beam import beam_search
from tests.oracles.rerank import rerank
from tests.oracles.trie import Trie
from tests.search.test_beam import Table


@given(st.integers(0, 1000), st.integers(1, 12), st.integers(1, 6), st.integers(1, 8))
def test_reranking_orders_all_items_under_the_beams_by_inner_product(
    seed: int, count: int, beams: int, k: int
) -> None:
    random = np.random.default_rng(seed)
    codes = random.integers(0, 3, (count, 3))
    trie = Trie.build(codes)
    found = beam_search(Table([3, 3, 3], seed), trie, np.arange(2.0)[:, None], beams)
    queries, items = random.integers(-2, 3, (2, 4)), random.integers(-2, 3, (count, 4))
    scores, numbers = rerank(trie, found, queries.astype(np.float32), items.astype(np.float32), k)
    for row in range(2):
        alive = {tuple(code) for code in found.codes[row] if code[0] >= 0}
        below = [number for number in range(count) if tuple(codes[number]) in alive]
        best = sorted(below, key=lambda number: (-int(items[number] @ queries[row]), number))[:k]
        assert numbers[row].tolist() == best + [-1] * (k - len(best))
        assert scores[row, : len(best)].tolist() == [float(items[n] @ queries[row]) for n in best]
