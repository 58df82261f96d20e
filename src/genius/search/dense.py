"""Dense search: the rows of a matrix that are nearest to a query, exactly or approximately, by faiss."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from genius.errors import InputError, require

DenseKind = Literal["flat", "hnsw", "ivfpq"]
KINDS: tuple[DenseKind, ...] = ("flat", "hnsw", "ivfpq")

HNSW_LINKS = 32
HNSW_EFFORT = 128
PQ_BYTES = 32


class DenseIndex:
    """The rows of `vectors` [n, d], searched by inner product (of unit vectors: the cosine).

    `flat` is exact; `hnsw` and `ivfpq` trade recall for time and memory.
    """

    def __init__(self, vectors: np.ndarray, kind: DenseKind = "flat") -> None:
        if vectors.ndim != 2 or not len(vectors):
            raise InputError(f"dense search needs a matrix of vectors, not the shape {vectors.shape}")
        if not np.isfinite(vectors).all():
            raise InputError("dense search needs finite vectors, and some hold NaN or infinity")
        self._faiss = require("faiss", "evaluate", "dense search")
        self._index = self._made(np.ascontiguousarray(vectors, np.float32), kind)
        self.size = len(vectors)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best rows for each query: scores and row numbers [m, k], best first.

        Of fewer than k rows all are returned; an approximate index fills up with -1.
        """
        if k < 1:
            raise InputError(f"k must be at least 1, not {k}")
        scores, rows = self._index.search(np.ascontiguousarray(queries, np.float32), min(k, self.size))
        return scores, rows

    def _made(self, vectors: np.ndarray, kind: DenseKind) -> Any:
        faiss, width = self._faiss, vectors.shape[1]
        if kind == "flat":
            index = faiss.IndexFlatIP(width)
        elif kind == "hnsw":
            index = faiss.IndexHNSWFlat(width, HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
            index.hnsw.efConstruction = index.hnsw.efSearch = HNSW_EFFORT
        elif kind == "ivfpq":
            cells = max(1, min(round(4 * len(vectors) ** 0.5), len(vectors) // 39))
            parts = next(parts for parts in (PQ_BYTES, 16, 8, 4, 2, 1) if width % parts == 0)
            bits = 8 if len(vectors) >= 39 * 256 else 4
            coarse = faiss.IndexFlatIP(width)
            index = faiss.IndexIVFPQ(coarse, width, cells, parts, bits, faiss.METRIC_INNER_PRODUCT)
            index.own_fields, index.nprobe = False, max(1, cells // 16)
            self._coarse = coarse  # faiss does not keep it alive
            index.train(vectors)
        else:
            raise InputError(f"unknown dense index {kind!r}: expected one of {', '.join(KINDS)}")
        index.add(vectors)
        return index
