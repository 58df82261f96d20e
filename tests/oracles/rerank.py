"""All items under a query's beams, ordered by the similarity of embeddings."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from genius.runtime import cores
from tests.oracles.beam import Beams
from tests.oracles.trie import Trie


def rerank(
    trie: Trie,
    beams: Beams,
    queries: np.ndarray,
    items: np.ndarray,
    k: int,
    more: Callable[[int, np.ndarray], np.ndarray] | None = None,
    places: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The k items under each query's beams whose embeddings [n, width] have the largest inner product with
    the query's [m, width], best first; of equal ones the lower number. `more` says what a query's number and
    items' numbers [n] add to that, [n]. With `places`, the embedding of item i is in row places[i].

    Returns scores float32 and item numbers int64, both [queries, k], filled up with -inf and -1.
    """
    scores = np.full((len(queries), k), -np.inf, np.float32)
    found = np.full((len(queries), k), -1, np.int64)

    def rank(row: int) -> None:
        nodes = beams.nodes[row]
        _, numbers = trie.items(beams.depth, nodes[nodes >= 0])
        likeness = items.take(numbers if places is None else places[numbers], axis=0) @ queries[row]
        if more is not None:
            likeness = likeness + more(row, numbers)
        if k < len(numbers):
            best = np.argpartition(-likeness, k - 1)[:k]
            # Of those as good as the last one kept, the lowest numbers stay.
            best = np.flatnonzero(likeness >= likeness[best].min())
            numbers, likeness = numbers[best], likeness[best]
        order = np.lexsort((numbers, -likeness))[:k]
        scores[row, : len(order)] = likeness[order]
        found[row, : len(order)] = numbers[order]

    with ThreadPoolExecutor(cores()) as threads:  # most of it is reading embeddings, at which they don't wait
        list(threads.map(rank, range(len(queries))))
    return scores, found
