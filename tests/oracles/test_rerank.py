from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.beam import beam_search
from tests.oracles.rerank import rerank
from tests.oracles.trie import Trie
from tests.search.table_decoder import TableDecoder


@given(st.integers(0, 1000), st.integers(1, 12), st.integers(1, 6), st.integers(1, 8))
def test_all_items_below_the_beams_are_ordered_by_inner_product(
    seed: int, count: int, beams: int, k: int
) -> None:
    random = np.random.default_rng(seed)
    codes = random.integers(0, 3, (count, 3))
    trie = Trie.build(codes)
    result = beam_search(TableDecoder([3, 3, 3], seed), trie, np.arange(2.0)[:, None], beams)
    queries, items = random.integers(-2, 3, (2, 4)), random.integers(-2, 3, (count, 4))
    scores, numbers = rerank(trie, result, queries.astype(np.float32), items.astype(np.float32), k)
    for query in range(2):
        kept = {tuple(code) for code in result.codes[query] if code[0] >= 0}
        below = [number for number in range(count) if tuple(codes[number]) in kept]
        best = sorted(below, key=lambda number: (-int(items[number] @ queries[query]), number))[:k]
        assert numbers[query].tolist() == best + [-1] * (k - len(best))
        assert scores[query, : len(best)].tolist() == [float(items[n] @ queries[query]) for n in best]
