from __future__ import annotations

import numpy as np
import pytest

from genius.search.codes import PackedCodes
from genius.search.scoring import Scorer, code_score, half_sq_norms
from tests.oracles.blend import blended_items, blended_queries

SIZES, WIDTH, ITEMS, QUERIES = [3, 7, 5], 6, 40, 4


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def codebooks(random: np.random.Generator) -> list[np.ndarray]:
    return [random.normal(size=(size, WIDTH)).astype(np.float32) for size in SIZES]


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0, [0.0, 1.0, 0.5, 0.3]])
def test_embeddings_and_tables_together_give_the_formula(
    weight: float | list[float], codebooks: list[np.ndarray], random: np.random.Generator
) -> None:
    codes = random.integers(0, SIZES, (ITEMS, 3))
    quantized = np.sum([codebook[codes[:, level]] for level, codebook in enumerate(codebooks)], axis=0)
    embeddings, vectors = random.normal(size=(2, QUERIES, WIDTH)).astype(np.float32)
    items = random.normal(size=(ITEMS, WIDTH)).astype(np.float32)
    scorer = Scorer.blend(embeddings, vectors, codebooks, np.array(weight))
    scores = np.zeros((QUERIES, ITEMS))
    if scorer.embeddings is not None:
        scores += scorer.embeddings @ items.T
    if scorer.tables is not None:
        scores += sum(scorer.tables[:, level, codes[:, level]] for level in range(3))
        assert scorer.code_weights is not None
        scores -= np.outer(scorer.code_weights, 0.5 * (quantized**2).sum(axis=1))
    weights = np.broadcast_to(weight, QUERIES)
    blended = [
        blended_queries(*rows) for rows in zip(embeddings[:, None], vectors[:, None], weights, strict=True)
    ]
    expected = np.concatenate(blended) @ blended_items(items, quantized).T
    np.testing.assert_allclose(scores, expected, atol=1e-3)
    assert (scorer.embeddings is None) == (weight == 0) and (scorer.tables is None) == (weight == 1)


def test_what_is_missing_has_no_weight(codebooks: list[np.ndarray], random: np.random.Generator) -> None:
    vectors = random.normal(size=(QUERIES, WIDTH)).astype(np.float32)
    by_codes = Scorer.blend(None, vectors, codebooks, 0.7)
    assert by_codes.embeddings is None and by_codes.code_weights is not None
    assert set(by_codes.code_weights) == {1}
    by_embeddings = Scorer.blend(vectors, vectors, None, 0.7)
    assert by_embeddings.tables is None and by_embeddings.code_weights is None
    np.testing.assert_array_equal(by_embeddings.embeddings, vectors)


def test_the_same_by_codes_only(codebooks: list[np.ndarray], random: np.random.Generator) -> None:
    vectors = random.normal(size=(QUERIES, WIDTH)).astype(np.float32)
    codes_only = Scorer.blend(vectors, vectors, codebooks, 0.3).codes_only()
    expected = Scorer.blend(None, vectors, codebooks, 0.0)
    assert codes_only is not None and codes_only.embeddings is None
    assert codes_only.code_weights is not None and set(codes_only.code_weights) == {1}
    assert codes_only.tables is not None and expected.tables is not None
    np.testing.assert_allclose(codes_only.tables, expected.tables, rtol=1e-6)
    assert Scorer.blend(vectors, vectors, codebooks, 1.0).codes_only() is None


def test_a_code_score_is_half_the_negative_squared_distance(
    codebooks: list[np.ndarray], random: np.random.Generator
) -> None:
    vector, quantized = random.normal(size=WIDTH), random.normal(size=(ITEMS, WIDTH))
    expected = 0.5 * (vector @ vector - ((vector - quantized) ** 2).sum(axis=1))
    np.testing.assert_allclose(code_score(vector, quantized), expected)


def test_half_the_squared_norms_of_sorted_rows(
    codebooks: list[np.ndarray], random: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genius.search.scoring.BLOCK", 7)
    codes = random.integers(0, SIZES, (ITEMS, 3))
    packed, order = PackedCodes.build(codes, SIZES, 1)
    quantized = sum(codebook[codes[order, level]] for level, codebook in enumerate(codebooks))
    norms = half_sq_norms(packed, codebooks)
    np.testing.assert_allclose(norms, 0.5 * (quantized**2).sum(axis=1), rtol=1e-5)
