"""Exact dense search: the rows of a matrix that are nearest to a query, by faiss."""

from __future__ import annotations

import numpy as np

from genius.errors import InputError, require


class DenseIndex:
    """The rows of `vectors` [n, d], searched exactly by inner product (of unit vectors: the cosine).

    Raises InputError for vectors that are no matrix, or not finite.
    """

    def __init__(self, vectors: np.ndarray) -> None:
        if vectors.ndim != 2 or not len(vectors):
            raise InputError(f"dense search needs a matrix of vectors, not the shape {vectors.shape}")
        if not np.isfinite(vectors).all():
            raise InputError("dense search needs finite vectors, and some hold NaN or infinity")
        self._index = require("faiss", "evaluate", "dense search").IndexFlatIP(vectors.shape[1])
        self._index.add(np.ascontiguousarray(vectors, np.float32))
        self.size = len(vectors)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best rows for each query, or all if there are fewer: scores and rows [m, k], best first."""
        if k < 1:
            raise InputError(f"k must be at least 1, not {k}")
        scores, rows = self._index.search(np.ascontiguousarray(queries, np.float32), min(k, self.size))
        return scores, rows
