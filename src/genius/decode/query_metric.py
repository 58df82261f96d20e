"""The space in which codes are nearest: errors of quantization are made small where queries differ.

A code stands for a vector that it does not quite equal, and a search sees that error only along the
directions in which queries differ from one another. So items are stretched along these directions before
they are coded, and queries are shrunk by as much: products of the two stay what they were, while the error
that codes make in them becomes smaller.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from genius.decode.geometry import row_by_row_products
from genius.tensors import read_tensors, write_tensors

LEAST = 1e-3
"""Directions in which queries hardly differ are taken to be this strong beside the strongest."""
_NAME = "matrix"


class QueryMetric:
    """Maps vectors of items and of queries; the product of an item with a query stays the same.

    Args:
        matrix: what items are multiplied with, float32 [width, width], invertible.
    """

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix
        inverse = np.linalg.inv(matrix.astype(np.float64))
        # transposed, as the products of rows take them
        self._for_items = np.ascontiguousarray(matrix.T)
        self._for_queries = inverse.astype(np.float32)
        self._from_items = (inverse @ inverse.T).T.astype(np.float32)

    @classmethod
    def fit(cls, queries: np.ndarray, items: np.ndarray, power: float) -> QueryMetric:
        """The metric for queries like these [n, width]; items [n, width] keep their mean square length.

        Items are stretched by the variance of queries to half of `power`: 0 changes nothing, 1 makes all
        directions equally important to queries.
        """
        variance, directions = np.linalg.eigh(np.cov(queries.astype(np.float64), rowvar=False))
        matrix = directions * np.maximum(variance / variance[-1], LEAST) ** (power / 2)
        before, after = np.square(items).sum(1).mean(), np.square(items @ matrix).sum(1).mean()
        return cls((matrix * np.sqrt(before / after)).astype(np.float32))

    @classmethod
    def open(cls, path: Path) -> QueryMetric:
        """Read the metric from a file."""
        return cls(read_tensors(path)[_NAME])

    def write(self, path: Path) -> None:
        """Write the metric to a file."""
        write_tensors(path, {_NAME: self.matrix})

    def items(self, vectors: np.ndarray) -> np.ndarray:
        """Items' vectors [n, width], to be coded."""
        return row_by_row_products(vectors, self._for_items)

    def queries(self, vectors: np.ndarray) -> np.ndarray:
        """Queries' vectors [n, width], to be compared with codes."""
        return row_by_row_products(vectors, self._for_queries)

    def items_as_queries(self, mapped: np.ndarray) -> np.ndarray:
        """Queries for what is like items, by the mapped vectors of these."""
        return row_by_row_products(mapped, self._from_items)
