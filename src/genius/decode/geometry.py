"""A decoder without a network: the nearer a code's vector is to what remains of the query, the likelier.

With the residual r = z_q − Σ_{i<k} e_i of a query and a prefix, p(t_k = j) = softmax_j(−‖r − e_k^j‖² / τ_k).
It has no symbols to memorise, so it treats new items like old ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genius.errors import InputError

FLOATS = 1 << 24
"""How many distances are looked at to fit one temperature: 64 MB of them."""


class Geometry:
    """Scores codes by the distance of their vectors to the query's residual.

    Args:
        codebooks: the vectors of each level, [codes, width].
        temperatures: τ of each level; `fit_temperatures` finds them.
    """

    def __init__(self, codebooks: Sequence[np.ndarray], temperatures: Sequence[float]) -> None:
        _check_codebooks(codebooks)
        if len(temperatures) != len(codebooks):
            raise InputError(f"{len(codebooks)} codebooks need as many temperatures, not {len(temperatures)}")
        if not all(np.isfinite(temperature) and temperature > 0 for temperature in temperatures):
            raise InputError(f"temperatures must be above zero, not {list(temperatures)}")
        self.codebooks = [np.ascontiguousarray(codebook, np.float32) for codebook in codebooks]
        self.temperatures = [float(temperature) for temperature in temperatures]
        self.sizes = [len(codebook) for codebook in codebooks]
        self._norms = [_norms(codebook) for codebook in self.codebooks]

    def begin(self, vectors: np.ndarray) -> GeometryDecoding:
        """Start with one row for each query vector [n, width]."""
        width = self.codebooks[0].shape[1]
        if vectors.ndim != 2 or vectors.shape[1] != width:
            raise InputError(f"queries must be vectors of width {width}, not of the shape {vectors.shape}")
        return GeometryDecoding(self, vectors.astype(np.float32, copy=False))

    def scores(self, level: int, residuals: np.ndarray) -> np.ndarray:
        """Log-probabilities float32 [n, codes] of a level (the first is 0), given residuals [n, width]."""
        temperature = np.float32(self.temperatures[level])
        logits = (residuals * (2 / temperature)) @ self.codebooks[level].T
        logits -= self._norms[level] / temperature
        return _log_softmax(logits)


class GeometryDecoding:
    """One search by geometry: it remembers what remains of each row's query."""

    def __init__(self, geometry: Geometry, vectors: np.ndarray) -> None:
        self._geometry = geometry
        self._residuals = vectors
        self._level = 0

    def scores(self) -> np.ndarray:
        """Log-probabilities float32 [rows, codes of the next level]."""
        return self._geometry.scores(self._level, self._residuals)

    def advance(self, rows: np.ndarray, codes: np.ndarray) -> None:
        """Go one level down: keep these rows, each extended by its code."""
        self._residuals = self._residuals[rows] - self._geometry.codebooks[self._level][codes]
        self._level += 1


def fit_temperatures(
    codebooks: Sequence[np.ndarray], vectors: np.ndarray, codes: np.ndarray
) -> tuple[float, ...]:
    """The temperature of each level under which `codes` are likeliest, given the codes before them.

    Args:
        codebooks: the vectors of each level, [codes, width].
        vectors: query vectors of validation pairs, [n, width].
        codes: the code of a positive item for each, [n, levels].

    A sample is enough to fit one number: of very many pairs, evenly spaced ones are used. A level that tells
    nothing about its temperature (one code, or vectors that are all the same) gets 1.
    """
    _check_codebooks(codebooks)
    if not len(vectors) or codes.shape != (len(vectors), len(codebooks)):
        raise InputError(
            f"{len(codebooks)} temperatures are fitted on pairs of a vector and a code of as many levels, "
            f"not on shapes {vectors.shape} and {codes.shape}"
        )
    step = -(-len(vectors) * max(map(len, codebooks)) // FLOATS)
    residuals, codes = vectors[::step].astype(np.float32), codes[::step]
    temperatures = []
    for level, codebook in enumerate(codebooks):
        book = codebook.astype(np.float32, copy=False)
        wanted = codes[:, level]
        temperatures.append(_fit(2 * residuals @ book.T - _norms(book), wanted))
        residuals -= book[wanted]
    return tuple(temperatures)


def _fit(nearness: np.ndarray, wanted: np.ndarray) -> float:
    """The τ with the greatest likelihood of the `wanted` columns under softmax(nearness / τ).

    The log-likelihood is concave in 1/τ: its slope, what is wanted less what is expected, changes its sign
    once at most, and bisection finds where. If every wanted code is the nearest, any small τ is as good; if
    they are worse than chance, it is the largest of the range.
    """
    nearness -= nearness.max(axis=1, keepdims=True)
    scale = -float(nearness.mean(dtype=np.float64))
    if scale < np.finfo(np.float32).tiny:
        return 1.0
    target = float(
        np.take_along_axis(nearness, wanted[:, None].astype(np.int64), axis=1).mean(dtype=np.float64)
    )
    low, high = np.log(scale) - 9, np.log(scale) + 9
    for _ in range(15):  # 18 / 2¹⁵: τ to within a thousandth
        middle = (low + high) / 2
        weights = np.exp(nearness / np.float32(np.exp(middle)))
        expected = np.einsum("ij,ij->i", weights, nearness) / weights.sum(axis=1)
        if float(expected.mean(dtype=np.float64)) < target:
            high = middle
        else:
            low = middle
    return float(np.exp((low + high) / 2))


def _check_codebooks(codebooks: Sequence[np.ndarray]) -> None:
    if not len(codebooks) or any(book.ndim != 2 or not len(book) for book in codebooks):
        raise InputError(f"codebooks must be matrices, not the shapes {[book.shape for book in codebooks]}")
    if len({book.shape[1] for book in codebooks}) != 1:
        raise InputError(f"codebooks must be of one width, not {[book.shape[1] for book in codebooks]}")
    if not all(np.isfinite(book).all() for book in codebooks):
        raise InputError("codebooks must be finite, and some hold NaN or infinity")


def _norms(codebook: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ij,ij->i", codebook, codebook))


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    """In place, row by row; the greatest is taken off first so that nothing overflows."""
    logits -= logits.max(axis=1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return logits
