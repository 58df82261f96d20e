from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from genius.errors import InputError
from genius.quantize import kmeans as module
from genius.quantize.kmeans import kmeans, nearest_centres


def run(rows: np.ndarray, count: int, iterations: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = torch.Generator().manual_seed(seed)
    centres, own = kmeans(
        torch.from_numpy(rows.astype(np.float32)), count, iterations=iterations, generator=generator
    )
    return centres.numpy(), own.numpy()


def distances(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return np.asarray(np.square(rows[:, None].astype(np.float64) - centres[None]).sum(2))


@st.composite
def data(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    """Rows, many of them the same, and a number of centres."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = random.standard_normal((draw(st.integers(1, 40)), draw(st.integers(1, 5))))
    rows = np.round(rows, draw(st.sampled_from([0, 1, 6])))
    return rows, draw(st.integers(1, len(rows)))


@pytest.mark.parametrize("seed", range(8))
def test_equals_lloyd_by_brute_force(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = (
        random.standard_normal((4, 3))[random.integers(4, size=60)] * 3 + random.standard_normal((60, 3))
    ).astype(np.float32)
    start = torch.randperm(60, generator=torch.Generator().manual_seed(seed))[:4].numpy()
    centres = rows[start].astype(np.float64)
    for _ in range(20):
        own = distances(rows, centres).argmin(1)
        centres = np.stack([rows[own == number].mean(0, dtype=np.float64) for number in range(4)])
    our_centres, our_own = run(rows, 4, 20, seed)
    np.testing.assert_allclose(our_centres, centres, atol=1e-5)
    np.testing.assert_array_equal(our_own, distances(rows, centres).argmin(1))


@given(data())
def test_the_error_never_grows(drawn: tuple[np.ndarray, int]) -> None:
    rows, count = drawn
    errors = []
    for iterations in range(6):
        centres, own = run(rows, count, iterations)
        assert np.isfinite(centres).all()
        assert centres.shape == (count, rows.shape[1])
        error = distances(rows, centres)[np.arange(len(rows)), own]
        np.testing.assert_allclose(error, distances(rows, centres).min(1), atol=1e-5)
        errors.append(error.mean())
    assert (np.diff(errors) <= 1e-6).all()


def test_an_empty_centre_moves_to_the_farthest_row() -> None:
    rows = np.array([[0.0]] * 50 + [[10.0]])
    assert run(rows, 2, 0)[0].ravel().tolist() == [0, 0], (
        "this draw should start with two centres in one place"
    )
    centres, own = run(rows, 2, 3)
    assert centres.ravel().tolist() == [0, 10]
    assert own.tolist() == [0] * 50 + [1]


def test_as_many_centres_as_rows_and_all_rows_the_same() -> None:
    rows = np.random.default_rng(0).standard_normal((9, 2))
    centres, own = run(rows, 9, 5)
    np.testing.assert_allclose(centres[own], rows, atol=1e-6)
    centres, own = run(np.ones((9, 2)), 4, 5)
    assert (centres == 1).all()
    assert (own == 0).all()


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, centres = torch.randn(50, 4), torch.randn(7, 4)
    whole = nearest_centres(rows, centres)
    monkeypatch.setattr(module, "BLOCK", 8)
    assert torch.equal(nearest_centres(rows, centres), whole)
    assert nearest_centres(rows[:0], centres).shape == (0,)


def test_too_few_rows() -> None:
    with pytest.raises(InputError, match="3 vectors are too few for 4 codes: take more, or at most 3 codes"):
        run(np.zeros((3, 2)), 4, 1)
