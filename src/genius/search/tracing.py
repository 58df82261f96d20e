"""How likely a decoder finds the codes of given items: what a search that stopped early left open."""

from __future__ import annotations

import numpy as np

from genius.decode.decoding import Decoder


def trace(
    decoder: Decoder,
    vectors: np.ndarray,
    owners: np.ndarray,
    codes: np.ndarray,
    first: np.ndarray | None = None,
) -> np.ndarray:
    """The log-probability of each of the items' codes, given those before it: float32 [items, levels].

    Args:
        decoder: scores codes.
        vectors: a vector for each query, [queries, width].
        owners: which query each item is for, int64 [items].
        codes: the items' codes, [items, levels].
        first: the first code that each query wants, -1 for any; one that is given adds nothing.
    """
    gains = np.zeros(codes.shape, np.float32)
    wanted = np.full(len(vectors), -1) if first is None else np.asarray(first)
    for known in (True, False):
        some = np.flatnonzero((wanted[owners] >= 0) == known)
        if not len(some):
            continue
        queries, rows = np.unique(owners[some], return_inverse=True)
        wanted_here = wanted[queries]
        decoding = decoder.begin(vectors[queries], wanted_here) if known else decoder.begin(vectors[queries])
        for level in range(int(known), codes.shape[1]):
            following = codes[some, level].astype(np.int64)
            gains[some, level] = decoding.scores()[rows, following]
            if level + 1 < codes.shape[1]:
                decoding.advance(rows, following)
                rows = np.arange(len(some))
    return gains
