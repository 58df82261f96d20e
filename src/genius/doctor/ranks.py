"""The rank of each query's best answer by exact search."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SCORES_AT_ONCE = 1 << 24
"""Scores in memory at a time: 64 MB."""


def best_ranks(queries: np.ndarray, items: np.ndarray, positives: Sequence[np.ndarray]) -> np.ndarray:
    """The rank, from 0, of the best positive of each query [n, width] among items [m, width]: int64 [n].

    Items are ranked by inner product, equal ones by number. `positives` are the numbers of the items that
    answer each query; a query without any has the rank m.
    """
    ranks = np.full(len(queries), len(items), np.int64)
    block = max(1, SCORES_AT_ONCE // max(1, len(items)))
    for start in range(0, len(queries), block):
        scores = queries[start : start + block] @ items.T
        for row, values in enumerate(scores, start=start):
            answers = np.asarray(positives[row], np.int64)
            if not len(answers):
                continue
            best = values[answers].max()
            first = answers[values[answers] == best].min()
            ranks[row] = np.count_nonzero(values > best) + np.count_nonzero(values[:first] == best)
    return ranks


def hit_rate(ranks: np.ndarray, k: int) -> float:
    """The share of queries whose best positive, by its rank [queries], is among the first k."""
    return float((ranks < k).mean())
