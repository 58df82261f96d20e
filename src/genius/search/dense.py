"""Exact search by inner products: the rows of a matrix that are nearest to a query, by numpy or by faiss."""

from __future__ import annotations

import numpy as np

from genius.errors import InputError, require

BLOCK = 256  # queries at a time


class DenseIndex:
    """The rows of `vectors` [n, d], searched exactly by inner product (of unit vectors: the cosine), by
    faiss."""

    def __init__(self, vectors: np.ndarray) -> None:
        if vectors.ndim != 2 or not len(vectors):
            raise InputError(f"dense search needs a matrix of vectors, not the shape {vectors.shape}")
        if not np.isfinite(vectors).all():
            raise InputError("dense search needs finite vectors, and some hold NaN or infinity")
        faiss = require("faiss", "evaluate", "dense search")
        self._index = faiss.IndexFlatIP(vectors.shape[1])
        self._index.add(np.ascontiguousarray(vectors, np.float32))
        self.size = len(vectors)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best rows for each query (or all, if fewer), best first: scores and row numbers [m, k]."""
        if k < 1:
            raise InputError(f"k must be at least 1, not {k}")
        scores, rows = self._index.search(np.ascontiguousarray(queries, np.float32), min(k, self.size))
        return scores, rows


def nearest(queries: np.ndarray, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k rows of `vectors` [n, d] with the largest inner product for each query [m, d], best first, by
    numpy.

    Returns scores and row numbers [m, min(k, n)]; of equal scores the lower row comes first.
    """
    k = min(k, len(vectors))
    scores = np.empty((len(queries), k), np.float32)
    rows = np.empty((len(queries), k), np.int64)
    for start in range(0, len(queries), BLOCK):
        products = queries[start : start + BLOCK] @ vectors.T
        if k < len(vectors):
            best = np.argpartition(-products, k - 1, axis=1)[:, :k]
        else:
            best = np.broadcast_to(np.arange(products.shape[1]), products.shape)
        values = np.take_along_axis(products, best, axis=1)
        order = np.lexsort((best, -values), axis=1)
        rows[start : start + BLOCK] = np.take_along_axis(best, order, axis=1)
        scores[start : start + BLOCK] = np.take_along_axis(values, order, axis=1)
    return scores, rows
