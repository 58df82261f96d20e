"""Inner products of queries with all vectors of a codebook, in whole numbers of 16 bits.

Both sides are rounded to multiples of a power of two, fine enough that a product is off by less than a
thousandth of the vectors' lengths and usually by a hundred-thousandth. Whole numbers are summed exactly in
any order, so products are batch-invariant, and take half the memory and time of single precision. Vectors of
small whole numbers are kept exactly.
"""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np

from genius.jit import compiled, frozen

LENGTH = 46_340
"""Rounded vectors are no longer than this, so that no sum of their products overflows 32 bits: 2^15.5."""
LARGEST = 32_767


class RoundedBook:
    """A codebook's vectors [codes, width] in whole numbers, and the unit of each."""

    def __init__(self, book: np.ndarray) -> None:
        self.vectors, self.units = _rounded(book)

    def products(self, rows: np.ndarray) -> np.ndarray:
        """The inner products of rows [n, width] of finite numbers with all vectors: float32 [n, codes]."""
        rounded, units = _rounded(rows)
        products = np.empty((len(rows), len(self.vectors)), np.float32)
        _multiply(rounded, units, self.vectors, self.units, products)
        return products


_BOOKS: dict[int, tuple[weakref.ref[np.ndarray], RoundedBook]] = {}


def rounded_book(book: np.ndarray) -> RoundedBook:
    """The rounded vectors of a codebook, made once for each array; it may not be changed afterwards."""
    known = _BOOKS.get(id(book))
    if known is not None and known[0]() is book:
        return known[1]
    rounded, number = RoundedBook(book), id(book)

    def forget(gone: weakref.ref[np.ndarray]) -> None:
        if number in _BOOKS and _BOOKS[number][0] is gone:
            del _BOOKS[number]

    _BOOKS[number] = weakref.ref(book, forget), rounded
    return rounded


def _rounded(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows as whole numbers, int16 of the same shape, and the unit of each row, float32 [n]."""
    rounded, units = np.empty(rows.shape, np.int16), np.empty(len(rows), np.float32)
    # One type for each argument: kernels are compiled for each.
    _round(frozen(np.ascontiguousarray(rows, np.float32)), LENGTH - math.sqrt(rows.shape[1]), rounded, units)
    return frozen(rounded), frozen(units)


@compiled
def _round(rows: np.ndarray, length: float, rounded: np.ndarray, units: np.ndarray) -> None:
    """Write rows in multiples of their units, which are the least powers of two that keep to `length`."""
    for number in range(len(rows)):
        row = rows[number]
        total, largest = 0.0, 0.0
        for place in range(len(row)):
            value = np.float64(row[place])
            total += value * value
            largest = max(largest, abs(value))
        least = max(math.sqrt(total) / length, largest / LARGEST)
        _, exponent = math.frexp(least)
        unit = math.ldexp(1.0, max(exponent, -120)) if least > 0 else 1.0
        for place in range(len(row)):
            rounded[number, place] = np.int16(np.rint(row[place] / unit))
        units[number] = unit


@compiled
def _multiply(
    rows: np.ndarray,
    row_units: np.ndarray,
    vectors: np.ndarray,
    vector_units: np.ndarray,
    products: np.ndarray,
) -> None:
    """Write the products of rows and vectors, [rows, vectors]."""
    for number in range(len(rows)):
        row, unit, written = rows[number], row_units[number], products[number]
        for code in range(len(vectors)):
            total: Any = np.int32(0)
            for place in range(len(row)):
                # Cut to 32 bits at once, or it is summed in 64 and takes four times as long.
                total = np.int32(total + np.int32(vectors[code, place]) * np.int32(row[place]))
            written[code] = np.float32(total) * (unit * vector_units[code])
