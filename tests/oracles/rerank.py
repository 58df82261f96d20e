"""All items below a query's beams, ordered by the inner product of embeddings."""

from __future__ import annotations

import numpy as np

from tests.oracles.beam import Beams
from tests.oracles.trie import Trie


def rerank(
    trie: Trie, beams: Beams, queries: np.ndarray, items: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """The k items below each query's beams whose embeddings [items, width] have the largest inner product
    with the query's [queries, width], best first; of equal ones the lower number.

    Returns scores float32 and item numbers int64, both [queries, k], padded with -inf and -1.
    """
    scores = np.full((len(queries), k), -np.inf, np.float32)
    numbers = np.full((len(queries), k), -1, np.int64)
    for query, nodes in enumerate(beams.nodes):
        _, below = trie.items(beams.depth, nodes[nodes >= 0])
        products = items[below] @ queries[query]
        order = np.lexsort((below, -products))[:k]
        scores[query, : len(order)] = products[order]
        numbers[query, : len(order)] = below[order]
    return scores, numbers
