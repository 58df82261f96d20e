"""What queries find: ranks by exact search, and what survives the beam."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

FLOATS = 1 << 24
"""How many scores are in memory at a time: 64 MB."""


def best_ranks(queries: np.ndarray, items: np.ndarray, positives: Sequence[np.ndarray]) -> np.ndarray:
    """The rank (0 is the first) of the best positive of each query [n, width] among items [m, width].

    Scores are inner products; of equal ones the item with the lower number comes first. `positives` are item
    numbers; a query without any has the rank m: it finds nothing.
    """
    ranks = np.full(len(queries), len(items), np.int64)
    block = max(1, FLOATS // max(1, len(items)))
    for start in range(0, len(queries), block):
        scores = queries[start : start + block] @ items.T
        for row, values in enumerate(scores, start=start):
            known = np.asarray(positives[row], np.int64)
            if not len(known):
                continue
            best = values[known].max()
            first = known[values[known] == best].min()
            ranks[row] = np.count_nonzero(values > best) + np.count_nonzero(values[:first] == best)
    return ranks


def hit_rate(ranks: np.ndarray, k: int) -> float:
    """The share of queries whose best positive is among the first k."""
    return float((ranks < k).mean())
