from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.errors import InputError
from genius.search import dense
from genius.search.dense import DenseIndex, nearest


def unit_vectors(rng: np.random.Generator, rows: int, width: int = 32) -> np.ndarray:
    vectors = rng.normal(size=(rows, width)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def test_faiss_equals_a_matrix_product() -> None:
    pytest.importorskip("faiss")
    rng = np.random.default_rng(0)
    vectors, queries = unit_vectors(rng, 500), unit_vectors(rng, 40)
    scores, rows = DenseIndex(vectors).search(queries, 10)
    products = queries @ vectors.T
    expected = np.argsort(-products, axis=1, kind="stable")[:, :10]
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_allclose(scores, np.take_along_axis(products, expected, axis=1), atol=1e-6)


def test_no_more_rows_than_exist() -> None:
    pytest.importorskip("faiss")
    vectors = unit_vectors(np.random.default_rng(0), 3)
    _, rows = DenseIndex(vectors).search(vectors[:1], 10)
    assert sorted(rows[0]) == [0, 1, 2]


def test_bad_input() -> None:
    pytest.importorskip("faiss")
    vectors = unit_vectors(np.random.default_rng(0), 3)
    with pytest.raises(InputError, match="k must be at least 1, not 0"):
        DenseIndex(vectors).search(vectors, 0)
    with pytest.raises(InputError, match=r"not the shape \(0, 4\)"):
        DenseIndex(np.zeros((0, 4)))
    with pytest.raises(InputError, match="hold NaN or infinity"):
        DenseIndex(np.full((2, 4), np.nan))


@given(st.integers(0, 99), st.integers(1, 12), st.integers(0, 7), st.integers(1, 15))
def test_nearest_by_numpy_breaks_ties_by_row(seed: int, items: int, queries: int, k: int) -> None:
    """In whole numbers, so that many products are equal."""
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-1, 2, (items, 3)).astype(np.float32)
    wanted = rng.integers(-1, 2, (queries, 3)).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense, "BLOCK", 3)
        scores, rows = nearest(wanted, vectors, k)
    products = wanted @ vectors.T
    assert scores.shape == rows.shape == (queries, min(k, items))
    np.testing.assert_array_equal(scores, -np.sort(-products, axis=1)[:, :k])
    np.testing.assert_array_equal(np.take_along_axis(products, rows, axis=1), scores)
    for own_scores, own_rows in zip(scores, rows, strict=True):
        ordered = list(zip(-own_scores, own_rows, strict=True))
        assert ordered == sorted(set(ordered))
