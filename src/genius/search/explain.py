"""What a search that stopped early left open: how likely the codes of items are, and how many share them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genius.decode.decoder import Decoder
from genius.search import kernels
from genius.search.segment_view import Part


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


def below(parts: Sequence[Part], codes: np.ndarray) -> np.ndarray:
    """How many items share the beginning of codes [n, levels], up to each level: int64 [n, levels]."""
    counts = np.zeros(codes.shape, np.int64)
    for part in parts:
        starts, ends = np.zeros(len(codes), np.int64), np.full(len(codes), len(part), np.int64)
        for level, column in enumerate(codes.T.astype(np.int64)):
            if level < part.packed.layout.semantic:
                for code in np.unique(column):
                    mine = column == code
                    starts[mine], ends[mine] = part.first_run(int(code))
            else:
                kernels.narrow(*part.bits(level), starts, ends, np.ascontiguousarray(column))
            counts[:, level] += part.under(starts, ends)
    return counts
