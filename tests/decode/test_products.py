"""Products against numpy's, and in other batches."""

from __future__ import annotations

import numpy as np

from genius.decode.geometry import row_by_row_products


def test_products_row_by_row_are_exact_and_batch_invariant() -> None:
    rng = np.random.default_rng(0)
    rows, book = (rng.normal(size=(count, 40)).astype(np.float32) for count in (30, 600))
    products = row_by_row_products(rows, book)
    np.testing.assert_allclose(products, rows.astype(np.float64) @ book.T.astype(np.float64), atol=1e-4)
    for number in range(30):
        np.testing.assert_array_equal(
            row_by_row_products(rows[number : number + 1], book)[0], products[number]
        )
