"""The temperature that a pool gives to the geometry."""

from __future__ import annotations

import numpy as np
import pytest

from genius.decode.geometry import fit_temperature
from genius.decode.pool_temperature import POOL, pool_rows, pool_temperature
from genius.quantize.quantizer import Quantizer, unit_length


def pool(modality_code: str, seed: int = 0) -> tuple[Quantizer, np.ndarray, np.ndarray]:
    """Clustered vectors of unit length, their codes, and codebooks by residuals."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(8, 12))
    vectors = unit_length(centres[random.integers(0, 8, 600)] + 0.4 * random.normal(size=(600, 12)))
    books, residuals = [], vectors.copy()
    for size in (3, 16, 16):
        book = residuals[random.choice(600, size, replace=False)]
        residuals -= book[((residuals[:, None] - book) ** 2).sum(2).argmin(1)]
        books.append(book)
    quantizer = Quantizer(books, modality_code=modality_code)
    return quantizer, vectors, quantizer.codes(vectors, np.zeros(600, np.int64))


@pytest.mark.parametrize("modality_code", ["learned", "given"])
def test_neighbours_are_as_likely_as_a_fit_to_all_of_them_makes_them(modality_code: str) -> None:
    quantizer, vectors, codes = pool(modality_code)
    products = vectors @ vectors.T
    np.fill_diagonal(products, -np.inf)
    nearest = np.argsort(-products, axis=1)[:, :10]
    askers, answers = np.repeat(np.arange(600), 10), nearest.ravel()
    queries = quantizer.reconstruct(codes)[askers]
    first = 0
    if modality_code == "given":
        queries, first = queries - quantizer.codebooks[0][codes[answers, 0]], 1
    expected = 2.5 * fit_temperature(
        quantizer.codebooks[first:], queries, codes[answers, first:].astype(np.int64)
    )
    temperature = pool_temperature(quantizer, vectors, codes)
    assert temperature == pytest.approx(expected, rel=0.25)
    assert float(np.log2(temperature) * 4).is_integer(), "a few more items change nothing"
    # Neighbours by quantized vectors are nearer by codes than those by embeddings.
    assert 0 < pool_temperature(quantizer, vectors[:, :0], codes) <= temperature


def test_small_and_large_pools() -> None:
    quantizer, vectors, codes = pool("learned")
    assert pool_temperature(quantizer, vectors[:1], codes[:1]) == 1.0
    assert pool_temperature(quantizer, vectors[:2], codes[:2]) > 0
    assert pool_temperature(quantizer, vectors[:0], codes[:0]) == 1.0
    assert len(pool_rows(7)) == 7 and POOL / 2 <= len(pool_rows(10 * POOL + 3)) <= POOL
