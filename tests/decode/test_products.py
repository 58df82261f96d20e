"""Products in whole numbers against numpy's, and in other batches."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.decode import products
from genius.decode.products import RoundedBook, rounded_book


def vectors(rng: np.random.Generator, count: int, width: int, spread: float) -> np.ndarray:
    """Vectors of very different lengths; a few numbers are much larger than the others."""
    rows = rng.normal(size=(count, width)) * np.exp(rng.normal(size=(count, 1)) * spread)
    rows[:, : 1 + width // 50] *= np.exp(spread * 3)
    return rows.astype(np.float32)


@given(st.integers(0, 9999), st.sampled_from([1, 7, 64, 513]), st.sampled_from([0.0, 1.0, 4.0]))
def test_products_are_near_the_exact_ones_and_batch_invariant(seed: int, width: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    rows, book = vectors(rng, 5, width, spread), vectors(rng, 40, width, spread)
    computed = RoundedBook(book).products(rows)
    exact = rows.astype(np.float64) @ book.T.astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1)[:, None] * np.linalg.norm(book, axis=1)
    # Each side is off by half a unit in each number at most, and a unit is at most LENGTH / 2 of its length
    # or LARGEST / 2 of its largest number.
    assert (np.abs(computed - exact) <= lengths * 2.2 * np.sqrt(width) / products.LARGEST).all()
    assert np.median(np.abs(computed - exact) / lengths) < 1e-4
    for number in range(len(rows)):
        alone = RoundedBook(book[number:]).products(rows[number : number + 1])
        np.testing.assert_array_equal(alone[0], computed[number, number:])


def test_small_whole_numbers_are_exact() -> None:
    rng = np.random.default_rng(0)
    rows, book = (rng.integers(-99, 100, (count, 300)).astype(np.float32) for count in (4, 50))
    np.testing.assert_array_equal(RoundedBook(book).products(rows), rows @ book.T)


@pytest.mark.parametrize("value", [1.0, -1.0])
def test_no_sum_overflows(value: float) -> None:
    for width in (1, 2, 3, 100, 4096):
        row = np.full((1, width), value, np.float32)
        np.testing.assert_allclose(RoundedBook(np.abs(row)).products(row), value * width, rtol=1e-3)


def test_zeros_and_extremes() -> None:
    book = np.array([[0, 0], [1e30, 0], [1e-30, 1e-30], [-0.0, 3e38]], np.float32)
    computed = RoundedBook(book).products(np.array([[0, 0], [1, 0]], np.float32))
    expected = np.array([[0, 0, 0, 0], [0, 1e30, 1e-30, 0]], np.float64)
    np.testing.assert_allclose(computed, expected, rtol=1e-3)


def test_a_book_is_rounded_once_as_long_as_it_lives() -> None:
    book = np.ones((3, 4), np.float32)
    rounded = rounded_book(book)
    assert rounded_book(book) is rounded and rounded_book(book.copy()) is not rounded
    number = id(book)
    assert products._BOOKS[number][1] is rounded
    del book
    gc.collect()
    assert number not in products._BOOKS
