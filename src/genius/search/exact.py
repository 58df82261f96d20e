"""Exact search by blocks of a matrix product, with numpy alone."""

from __future__ import annotations

import numpy as np

BLOCK = 256


def nearest(queries: np.ndarray, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k rows of `vectors` [n, d] with the largest inner product for each query [m, d], best first.

    Returns scores and row numbers [m, min(k, n)]; of equal scores the lower row comes first.
    """
    k = min(k, len(vectors))
    scores = np.empty((len(queries), k), np.float32)
    rows = np.empty((len(queries), k), np.int64)
    for start in range(0, len(queries), BLOCK):
        products = queries[start : start + BLOCK] @ vectors.T
        best = np.argpartition(-products, k - 1, axis=1)[:, :k] if k < len(vectors) else _all(products)
        values = np.take_along_axis(products, best, axis=1)
        order = np.lexsort((best, -values), axis=1)
        rows[start : start + BLOCK] = np.take_along_axis(best, order, axis=1)
        scores[start : start + BLOCK] = np.take_along_axis(values, order, axis=1)
    return scores, rows


def _all(products: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.arange(products.shape[1]), products.shape)
