from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.errors import InputError
from genius.quantize import quantizer as module
from genius.quantize.codebooks import Codebooks, CodebookSettings
from genius.quantize.quantizer import ModalityCode, Quantizer, modality_codes_for
from tests.quantize.vectors import MODALITY_CODES, generator, modalities, unit_vectors


def small(
    sizes: tuple[int, ...] = (3, 16, 16), width: int = 8, modality_code: ModalityCode = "learned"
) -> Quantizer:
    random = np.random.default_rng(0)
    books = [random.standard_normal((size, width)).astype(np.float32) for size in sizes]
    return Quantizer(books, modality_code=modality_code)


def by_brute_force(books: list[np.ndarray], vectors: np.ndarray) -> np.ndarray:
    """All distances in double precision; of equal ones the first."""
    residuals, levels = vectors.astype(np.float32), []
    for book in books:
        distances = np.square(residuals[:, None].astype(np.float64) - book[None]).sum(2)
        levels.append(distances.argmin(1))
        residuals = residuals - book[levels[-1]]
    return np.stack(levels, 1)


@pytest.mark.parametrize("kind", MODALITY_CODES)
def test_codes_and_vectors_are_those_of_training(kind: ModalityCode) -> None:
    rows, modality = unit_vectors(300, 24), modalities(300)
    books = Codebooks(24, CodebookSettings(levels=3, size=32, modality_code=kind))
    books.init(rows, modality, generator())
    classifier = None
    if books.classifier is not None:
        classifier = books.classifier.weight.detach().numpy(), books.classifier.bias.detach().numpy()
    vectors = [book.numpy() for book in books.vectors_by_level()]
    ours = Quantizer(vectors, modality_code=kind, classifier=classifier)
    expected = books.quantize(rows, modality)
    codes = ours.codes(rows.numpy(), modality.numpy())
    assert codes.dtype == np.uint16
    assert ours.sizes == books.settings.all_sizes
    assert ours.semantic == (0 if kind == "none" else 1)
    np.testing.assert_array_equal(codes, expected.codes.numpy())
    np.testing.assert_allclose(ours.reconstruct(codes), expected.vectors.numpy(), atol=1e-6)


@given(st.data())
def test_codes_equal_brute_force_where_ties_abound(data: st.DataObject) -> None:
    """Small integers, whose products are exact, many of them at the same distance from several codes."""
    width, count = data.draw(st.integers(1, 6)), data.draw(st.integers(0, 30))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    sizes = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
    books = [random.integers(-2, 3, (size, width)).astype(np.float32) for size in sizes]
    rows = random.integers(-4, 5, (count, width)).astype(np.float32)
    kind = data.draw(st.sampled_from(["learned", "none"]))
    codes = Quantizer(books, modality_code=kind).codes(rows)
    np.testing.assert_array_equal(codes, by_brute_force(books, rows))


@st.composite
def near_ties(draw: st.DrawFn) -> tuple[Quantizer, np.ndarray]:
    """Codebooks with codes that occur twice, and vectors halfway between two codes up to rounding."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    width, size = draw(st.sampled_from([3, 64, 301])), draw(st.integers(2, 40))
    scale = 10.0 ** draw(st.integers(-3, 3))
    books = []
    for _ in range(3):
        book = random.standard_normal((size, width)) * scale
        book[size // 2] = book[0]
        books.append(book.astype(np.float32))
        scale /= 3
    count = draw(st.integers(1, 40))
    rows = sum(book[random.integers(size, size=count)] for book in books[:-1])
    midpoints = books[-1][random.integers(size, size=(2, count))].mean(0)
    return Quantizer(books, modality_code="none"), (rows + midpoints).astype(np.float32)


@given(near_ties(), st.integers(1, 17), st.randoms(use_true_random=False))
def test_codes_are_batch_invariant(drawn: tuple[Quantizer, np.ndarray], batch: int, random: Any) -> None:
    quantizer, rows = drawn
    codes = quantizer.codes(rows)
    np.testing.assert_array_equal(codes, quantizer.codes(rows))
    order = random.sample(range(len(rows)), len(rows))
    np.testing.assert_array_equal(quantizer.codes(rows[order]), codes[order])
    parts = [quantizer.codes(rows[start : start + batch]) for start in range(0, len(rows), batch)]
    np.testing.assert_array_equal(np.concatenate(parts), codes)
    np.testing.assert_array_equal(quantizer.codes(np.asfortranarray(rows)), codes)
    size = quantizer.sizes[0]
    assert not (codes == size // 2).any(), "of two equal codes the first is taken"


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    quantizer, rows = small(), np.random.default_rng(1).standard_normal((50, 8))
    whole = quantizer.codes(rows)
    monkeypatch.setattr(module, "BLOCK", 7)
    np.testing.assert_array_equal(quantizer.codes(rows), whole)
    given = small(modality_code="given")
    np.testing.assert_array_equal(given.codes(rows, whole[:, 0]), whole)


@given(st.integers(0, 2**32 - 1), st.integers(0, 20), st.integers(0, 3))
def test_reconstruct_is_the_sum_of_code_vectors(seed: int, count: int, levels: int) -> None:
    quantizer, random = small(), np.random.default_rng(seed)
    codes = random.integers(0, quantizer.sizes, (count, 3)).astype(np.uint16)
    expected = np.zeros((count, 8), np.float32)
    for row, code in enumerate(codes):
        for level in range(levels):
            expected[row] += quantizer.codebooks[level][code[level]]
    np.testing.assert_array_equal(quantizer.reconstruct(codes, levels), expected)
    np.testing.assert_array_equal(quantizer.reconstruct(codes), quantizer.reconstruct(codes, 3))
    np.testing.assert_array_equal(quantizer.reconstruct(codes[:, :levels], levels), expected)
    units = quantizer.units(codes)
    np.testing.assert_allclose(np.linalg.norm(units, axis=1), 1, atol=1e-6)


def test_one_row_no_rows_and_rows_that_are_sums_of_codes() -> None:
    quantizer = small()
    assert quantizer.codes(np.zeros((0, 8), np.float32)).shape == (0, 3)
    assert quantizer.reconstruct(np.zeros((0, 3), np.uint16)).shape == (0, 8)
    assert quantizer.codes(np.ones((1, 8), np.float32)).shape == (1, 3)
    assert quantizer.codes(quantizer.codebooks[0])[:, 0].tolist() == [0, 1, 2]


def test_half_precision_and_mapped_vectors(tmp_path: Path) -> None:
    quantizer = small()
    rows = np.random.default_rng(1).standard_normal((20, 8)).astype(np.float16)
    np.save(tmp_path / "rows.npy", rows)
    expected = quantizer.codes(rows.astype(np.float32))
    np.testing.assert_array_equal(quantizer.codes(rows), expected)
    np.testing.assert_array_equal(quantizer.codes(np.load(tmp_path / "rows.npy", mmap_mode="r")), expected)


def test_vectors_are_left_as_they_are() -> None:
    rows = np.random.default_rng(1).standard_normal((20, 8)).astype(np.float32)
    before = rows.copy()
    small().codes(rows)
    np.testing.assert_array_equal(rows, before)


def test_a_classifier_s_code_is_a_prefix() -> None:
    random = np.random.default_rng(0)
    weights, biases = random.standard_normal((3, 8)), random.standard_normal(3)
    book = random.standard_normal((16, 8)).astype(np.float32)
    both = Quantizer([np.zeros((3, 8)), book], modality_code="classifier", classifier=(weights, biases))
    rows = random.standard_normal((100, 8)).astype(np.float32)
    codes = both.codes(rows)
    np.testing.assert_array_equal(codes[:, 0], (rows @ weights.T + biases).argmax(1))
    np.testing.assert_array_equal(codes[:, 1:], Quantizer([book], modality_code="none").codes(rows))


def test_bad_vectors_and_codes() -> None:
    quantizer, rows = small(), np.zeros((4, 8), np.float32)
    for wrong in (np.zeros((4, 7), np.float32), np.zeros(8, np.float32)):
        with pytest.raises(
            InputError, match=r"vectors should be \[n, 8\], but are .*: they come from another"
        ):
            quantizer.codes(wrong)
    for value in (np.nan, np.inf):
        with pytest.raises(InputError, match="some vectors are NaN or infinite: encode these items again"):
            quantizer.codes(np.where(np.arange(8) == 3, value, rows))
    needing = small(modality_code="given")
    for modality in (None, np.zeros(3, np.int64)):
        with pytest.raises(InputError, match="this quantizer needs the modality of every vector"):
            needing.codes(rows, modality)
    for unknown in (-1, 3):
        with pytest.raises(InputError, match=f"level 1 has codes from 0 to 2, and there is {unknown}"):
            needing.codes(rows, np.array([0, 1, 2, unknown]))
    with pytest.raises(InputError, match="level 2 has codes from 0 to 15, and there is 16"):
        quantizer.reconstruct(np.array([[0, 16, 0]]))
    with pytest.raises(InputError, match="3 levels can't be summed: codes have 2, and there are 3 codebooks"):
        quantizer.reconstruct(np.array([[0, 1]]))
    with pytest.raises(InputError, match="4 levels can't be summed"):
        quantizer.reconstruct(np.array([[0, 1, 2, 3]]), 4)


def test_bad_codebooks() -> None:
    books = [np.zeros((3, 4)), np.ones((5, 4))]
    for wrong in ([], [np.zeros(4)], [np.zeros((3, 4)), np.zeros((3, 5))]):
        with pytest.raises(InputError, match=r"codebooks should be arrays .*, all of the same width"):
            Quantizer(wrong)
    for bad in (np.full((3, 4), np.nan), np.zeros((0, 4)), np.zeros((65537, 4))):
        with pytest.raises(InputError, match="a codebook should have 1 to 65536 vectors of finite numbers"):
            Quantizer([books[0], bad])
    weights = np.zeros((3, 4)), np.zeros(3)
    for kind, classifier in (("guessed", None), ("classifier", None), ("given", weights)):
        with pytest.raises(
            InputError, match="modality_code should be one of given, learned, classifier, none"
        ):
            Quantizer(books, modality_code=kind, classifier=classifier)


def test_of_many_equal_codes_the_first_is_taken() -> None:
    """As where a level had few different vectors to learn from."""
    book = np.zeros((500, 8), np.float32)
    book[7], book[300:] = 1, 1
    rows = np.repeat(np.array([[0.2], [0.9], [0.5]], np.float32), 8, axis=1)
    assert Quantizer([book], modality_code="none").codes(rows)[:, 0].tolist() == [0, 7, 0]


def test_a_modality_code_stands_for_the_modality_of_most_of_its_items() -> None:
    codes = np.array([[0, 5], [0, 6], [0, 7], [1, 5]])
    quantizer = small()
    assert quantizer.modality_by_code(codes, np.array([2, 2, 0, 1])) == [2, 1, 2], "no item has code 2"
    assert small(modality_code="none").modality_by_code(codes, np.array([2, 2, 0, 1])) == []


def test_queries_want_the_one_code_that_stands_for_their_modality() -> None:
    for want, expected in ((0, -1), (1, 1), (2, -1)):  # none, one and two codes stand for it
        codes = modality_codes_for([2, 1, 2], want, 3)
        assert codes is not None and codes.tolist() == [expected] * 3
    assert modality_codes_for([], 1, 3) is None


def test_a_written_quantizer_is_opened_as_it_was(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    books = [random.standard_normal((size, 8)).astype(np.float32) for size in (3, 16, 16)]
    weights = random.standard_normal((3, 8)).astype(np.float32), random.standard_normal(3).astype(np.float32)
    for kind, classifier in (("learned", None), ("classifier", weights)):
        quantizer = Quantizer(books, modality_code=kind, classifier=classifier)
        quantizer.write(tmp_path / kind)
        again = Quantizer.open(tmp_path / kind, kind)
        assert again.modality_code == kind
        for before, after in zip(books, again.codebooks, strict=True):
            np.testing.assert_array_equal(before, after)
        rows = random.standard_normal((50, 8)).astype(np.float32)
        np.testing.assert_array_equal(again.codes(rows), quantizer.codes(rows))
