"""Tensors in files, in 32 and in 8 bits."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from genius.tensors import MIN_ELEMENTS, read_tensors, to_few_bits, write_tensors

random = np.random.default_rng(0)
TENSORS: dict[str, np.ndarray] = {
    "weight": random.normal(size=(64, 100)).astype(np.float32),
    "bias": random.normal(size=100).astype(np.float32),
    "small": random.normal(size=(4, 4)).astype(np.float32),
    "counts": np.arange(MIN_ELEMENTS).reshape(64, -1),
    "some.scale": random.normal(size=(3, 1)).astype(np.float32),
}


def test_in_32_bits_nothing_changes(tmp_path: Path) -> None:
    write_tensors(tmp_path / "file", TENSORS)
    read = read_tensors(tmp_path / "file")
    assert read.keys() == TENSORS.keys()
    assert all(np.array_equal(read[name], tensor) for name, tensor in TENSORS.items())


def test_in_8_bits_large_matrices_are_rounded_and_the_rest_stays(tmp_path: Path) -> None:
    write_tensors(tmp_path / "file", TENSORS, bits=8)
    read = read_tensors(tmp_path / "file")
    assert read.keys() == TENSORS.keys()
    assert all(np.array_equal(read[name], TENSORS[name]) for name in TENSORS if name != "weight")
    assert read["weight"].dtype == np.float32
    assert not np.array_equal(read["weight"], TENSORS["weight"])
    assert (tmp_path / "file").stat().st_size < 64 * 100 + 8 * MIN_ELEMENTS + 2500


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["rows", "columns"]),
    st.floats(1e-6, 1e6),
    st.integers(2, 8),
)
def test_rounding_is_by_half_a_step_of_rows_or_columns(
    seed: int, spread: str, size: float, bits: int
) -> None:
    random = np.random.default_rng(seed)
    factors = (size ** random.uniform(-1, 1, 8)).astype(np.float32)
    matrix = random.normal(size=(8, 8)).astype(np.float32)
    matrix = matrix * (factors[:, None] if spread == "rows" else factors)
    rounded, scale = to_few_bits(matrix, bits)
    assert rounded.dtype == np.int8
    assert np.abs(rounded).max() == 2 ** (bits - 1) - 1
    assert (np.abs(matrix - rounded * scale) <= scale * 0.5001).all()
    # of rows or columns, the better: never worse than either alone
    error = np.square(matrix - rounded * scale).sum()
    for axis in (0, 1):
        step = np.abs(matrix).max(axis=axis, keepdims=True) / (2 ** (bits - 1) - 1)
        assert error <= np.square(matrix - np.rint(matrix / step) * step).sum() * 1.001 + 1e-12


def test_fewer_bits_are_fewer_bytes_when_compressed(tmp_path: Path) -> None:
    matrix = {"weight": np.random.default_rng(1).normal(size=(300, 300)).astype(np.float32)}
    sizes = []
    for bits in (8, 6, 4):
        write_tensors(tmp_path / "file", matrix, bits=bits)
        sizes.append(len(zlib.compress((tmp_path / "file").read_bytes())))
    assert sizes[1] < 0.85 * sizes[0]
    assert sizes[2] < 0.7 * sizes[1]


def test_zeros_stay_zeros() -> None:
    rounded, scale = to_few_bits(np.zeros((3, 5), np.float32))
    assert not (rounded * scale).any()
    assert np.isfinite(scale).all()
