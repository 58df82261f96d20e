from __future__ import annotations

import numpy as np
import pytest

from genius.errors import InputError
from genius.search.dense import DenseIndex

pytest.importorskip("faiss")


def unit(rng: np.random.Generator, rows: int, width: int = 32) -> np.ndarray:
    vectors = rng.normal(size=(rows, width)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def test_dense_search_equals_a_matrix_product() -> None:
    rng = np.random.default_rng(0)
    vectors, queries = unit(rng, 500), unit(rng, 40)
    scores, rows = DenseIndex(vectors).search(queries, 10)
    exact = queries @ vectors.T
    expected = np.argsort(-exact, axis=1, kind="stable")[:, :10]
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_allclose(scores, np.take_along_axis(exact, expected, axis=1), atol=1e-6)


def test_fewer_rows_than_asked_for() -> None:
    vectors = unit(np.random.default_rng(0), 3)
    _, rows = DenseIndex(vectors).search(vectors[:1], 10)
    assert sorted(rows[0]) == [0, 1, 2]


def test_bad_input() -> None:
    vectors = unit(np.random.default_rng(0), 3)
    with pytest.raises(InputError, match="k must be at least 1, not 0"):
        DenseIndex(vectors).search(vectors, 0)
    with pytest.raises(InputError, match=r"not the shape \(0, 4\)"):
        DenseIndex(np.zeros((0, 4)))
    with pytest.raises(InputError, match="hold NaN or infinity"):
        DenseIndex(np.full((2, 4), np.nan))
