"""Codes by way of int8 products, beside a comparison of all codes in double precision and exact sums."""

from __future__ import annotations

from math import fsum

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.quantize import nearest as module
from genius.quantize.nearest import BYTE, Nearest
from genius.quantize.quantizer import Quantizer
from genius.runtime import session

SCALES = [1e-18, 1e-3, 1.0, 1e18]
ALL = 65536


def nearest(book: np.ndarray, offsets: np.ndarray, few: int) -> Nearest:
    """One that goes by int8 products if there are more than `few` codes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW", few)
        return Nearest(book, offsets)


def minus_half_sq_norms(book: np.ndarray) -> np.ndarray:
    return np.asarray(-0.5 * np.square(book, dtype=np.float64).sum(1))


@st.composite
def books_and_rows(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Code vectors of any length, around zero or far from it, some of them twice, and rows that int8 can't
    tell apart: halfway between codes, constant, zero, or codes themselves."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    width, size = draw(st.sampled_from([1, 2, 31, 64, 100])), draw(st.integers(1, 200))
    book = random.standard_normal((size, width))
    if draw(st.booleans()):
        book = random.integers(-2, 3, (size, width)).astype(np.float64)  # many at the same distance
    book *= 10.0 ** random.uniform(-draw(st.sampled_from([0, 3])), 0, (size, 1))
    book += random.standard_normal(width) * draw(st.sampled_from([0, 0, 10, 1e6]))
    book[random.integers(size, size=size // 5)] = book[0]
    count = draw(st.integers(1, 40))
    rows = book[random.integers(size, size=(2, count))].mean(0)
    rows += random.standard_normal((count, width)) * draw(st.sampled_from([0, 1e-6, 1e-2, 1]))
    rows[::7], rows[1::7] = 0, random.standard_normal()
    rows[2::7] = book[random.integers(size)]
    scale, larger = draw(st.sampled_from(SCALES)), draw(st.sampled_from([1.0, 1.0, *SCALES]))
    if scale * larger > 1e18:
        larger = 1.0
    return (book * scale).astype(np.float32), (rows * scale * larger).astype(np.float32)


@given(books_and_rows())
def test_int8_products_lose_no_code(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    book, rows = drawn
    offsets = minus_half_sq_norms(book)
    by_int8, by_all = nearest(book, offsets, 0), nearest(book, offsets, ALL)
    codes = by_int8.codes(rows)
    np.testing.assert_array_equal(codes, by_all.codes(rows))
    np.testing.assert_array_equal(codes[::-1], by_int8.codes(rows[::-1].copy()))
    assert [int(by_int8.codes(rows[n : n + 1])[0]) for n in range(len(rows))] == codes.tolist()
    for row, code in zip(rows[:10].astype(np.float64), codes, strict=False):
        scores = [fsum(row * vector - 0.5 * vector**2) for vector in book.astype(np.float64)]
        size = np.linalg.norm(row) * np.linalg.norm(book.astype(np.float64), axis=1).max()
        assert max(scores) - scores[code] <= 1e-14 * (size + np.abs(offsets).max())
        assert not any(np.array_equal(book[code], vector) for vector in book[:code])


@given(st.integers(0, 2**32 - 1))
def test_offsets_may_be_anything(seed: int) -> None:
    random = np.random.default_rng(seed)
    book, rows = (random.standard_normal((count, 20)).astype(np.float32) for count in (100, 30))
    book[50:] = book[:50]  # the same with other offsets: other codes
    offsets = random.standard_normal(100) * random.choice([0, 1, 100])
    codes = nearest(book, offsets, 0).codes(rows)
    scores = (rows[:, None].astype(np.float64) * book).sum(2) + offsets
    np.testing.assert_array_equal(codes, scores.argmax(1))


def test_int8_alone_would_often_be_wrong_and_rules_nearly_all_codes_out() -> None:
    """Otherwise the tests above say little."""
    random = np.random.default_rng(0)
    book = random.standard_normal((2000, 256)).astype(np.float32)
    rows = random.standard_normal((300, 256)).astype(np.float32)
    by_int8 = nearest(book, minus_half_sq_norms(book), 0)
    rounded, stats = module._rounded(rows, by_int8._centre)
    codes, code_stats = module._rounded(book, by_int8._centre)
    step, off, kept, common = stats.T[:, :, None]
    steps, offs, kepts, _ = code_stats.T
    scores = (rounded.astype(np.int32) - BYTE) @ (codes.astype(np.int32) - BYTE).T * step * steps
    scores += book @ by_int8._centre - by_int8._centre @ by_int8._centre + minus_half_sq_norms(book) + common
    exact = rows.astype(np.float64) @ book.T.astype(np.float64) + minus_half_sq_norms(book)
    errors = off * (kepts + offs) + kept * offs
    assert (np.abs(exact - scores) < errors).all()
    assert (scores.argmax(1) != exact.argmax(1)).mean() > 0.01
    assert (scores + errors >= exact.max(1)[:, None]).mean() < 0.01


@pytest.mark.parametrize(("count", "width", "codes"), [(1, 1, 1), (1, 300, 20), (7, 64, 500), (70, 301, 33)])
def test_the_product_is_exact_and_a_sound_graph(count: int, width: int, codes: int) -> None:
    """Also of the largest numbers, whose sums processors without 8-bit products could cut off."""
    random = np.random.default_rng(0)
    book = random.choice([-BYTE, -BYTE, 3, BYTE], (codes, width)).astype(np.int8)
    rows = random.choice([0, 2 * BYTE, 2 * BYTE], (count, width)).astype(np.uint8)
    book[0], rows[0] = BYTE, 2 * BYTE
    graph = module._product_graph(book)
    onnx.checker.check_model(graph, full_check=True)
    (products,) = session(graph, threads=1).run(None, {"rows": rows})
    np.testing.assert_array_equal(products, (rows.astype(np.int64) - BYTE) @ book.T.astype(np.int64))


@pytest.mark.parametrize("few", [0, ALL])
def test_codebooks_of_one_vector(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where one and the same is written in several ways."""
    monkeypatch.setattr(module, "FEW", few)
    zeros = np.array([[0.0, 0.0], [-0.0, 0.0], [0.0, -0.0], [0.0, 0.0]], np.float32)
    rows = np.array([[0, 0], [1e-30, 5], [-3, 1e18]], np.float32)
    assert not Quantizer([zeros, zeros + 1, zeros[:1]], modality_code="none").codes(rows).any()
    with_gap = np.array([[1, 1], [1, 1], [-1, -1]], np.float32)
    assert Quantizer([with_gap], modality_code="none").codes(rows)[:, 0].tolist() == [0, 0, 0]
    assert Quantizer([with_gap], modality_code="none").codes(-rows)[:, 0].tolist() == [0, 2, 2]


def test_many_codes_in_batches_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    books = [random.standard_normal((300, 48)).astype(np.float32) / 3**level for level in range(3)]
    rows = random.standard_normal((700, 48)).astype(np.float32)
    quantizer = Quantizer(books, modality_code="none")
    codes = quantizer.codes(rows)
    parts = [quantizer.codes(rows[:1]), quantizer.codes(rows[1:])]
    np.testing.assert_array_equal(np.concatenate(parts), codes)
    monkeypatch.setattr(module, "FEW", ALL)
    np.testing.assert_array_equal(Quantizer(books, modality_code="none").codes(rows), codes)
