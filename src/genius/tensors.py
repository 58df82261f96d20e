"""The tensors of a model, each stored once: in 32 bits, or in up to 8 with a scale for each row or column.

A tensor in few bits is two of the file, `NAME` (int8) and `NAME.scale`, whose product it is. Reading gives 32
bits in either case, so nothing else has to know. Fewer than 8 bits still take a byte each, but a wheel is
compressed, and there they weigh no more than they say.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from genius import atomic

MIN_ELEMENTS = 4096
"""Smaller tensors stay in 32 bits: they weigh nothing, and biases and norms are sensitive."""
TRANSPOSED = ".T"
"""Ends the name by which a graph asks for a tensor transposed."""
_SCALE = ".scale"


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """All tensors of a file by name, those stored in few bits as float32."""
    from safetensors.numpy import load_file

    stored = load_file(path)
    return {
        name: tensor * stored[name + _SCALE] if name + _SCALE in stored else tensor
        for name, tensor in stored.items()
        if not (name.endswith(_SCALE) and name.removesuffix(_SCALE) in stored)
    }


def tensor_for_graph(tensors: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """The tensor that a graph means by a name."""
    if name in tensors:
        return tensors[name]
    return np.ascontiguousarray(tensors[name.removesuffix(TRANSPOSED)].T)


def write_tensors(path: Path, tensors: Mapping[str, np.ndarray], *, bits: int = 32) -> None:
    """Write tensors to a file; with 8 bits or fewer, matrices are rounded (see `to_few_bits`)."""
    from safetensors.numpy import save

    stored: dict[str, np.ndarray] = {}
    for name, tensor in tensors.items():
        if bits <= 8 and tensor.ndim == 2 and tensor.dtype == np.float32 and tensor.size >= MIN_ELEMENTS:
            stored[name], stored[name + _SCALE] = to_few_bits(tensor, bits)
        else:
            stored[name] = np.ascontiguousarray(tensor)
    with atomic.write_file(path) as file:
        file.write(save(stored))


def to_few_bits(matrix: np.ndarray, bits: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """A matrix as int8 of so many bits, and the scales of its rows or its columns, whichever loses less."""
    largest_step, candidates = 2 ** (bits - 1) - 1, []
    for axis in (1, 0):
        largest = np.abs(matrix).max(axis=axis, keepdims=True)
        scale = (np.where(largest > 0, largest, 1) / largest_step).astype(np.float32)
        rounded = np.rint(matrix / scale).astype(np.int8)
        candidates.append((float(np.square(matrix - rounded * scale).sum()), rounded, scale))
    _, rounded, scale = min(candidates, key=lambda candidate: candidate[0])
    return rounded, scale
