"""Inner products that are the same in any batch."""

from __future__ import annotations

import numpy as np

CODEBOOK_BLOCK = 256  # vectors of a codebook at a time: half a megabyte too


def row_by_row_products(rows: np.ndarray, book: np.ndarray) -> np.ndarray:
    """Batch-invariant inner products float32 [n, codes] of rows [n, width] with vectors [codes, width].

    A matrix product rounds differently with the number of rows; row by row, each result is the same in any
    batch. The vectors are read once for all rows, as reading takes longer than the products.
    """
    products = np.empty((len(rows), len(book)), np.float32)
    for start in range(0, len(book), CODEBOOK_BLOCK):
        vectors = book[start : start + CODEBOOK_BLOCK]
        for number, row in enumerate(rows):
            products[number, start : start + CODEBOOK_BLOCK] = np.dot(vectors, row)
    return products
