"""A decoder without a network: the nearer a code's vector is to what remains of the query, the likelier.

With the residual r = z_q − Σ_{i<k} e_i of a query and a prefix, p(t_k = j) = softmax_j(−‖r − e_k^j‖² / τ).
It has no symbols to memorise, so it treats new items like old ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genius.decode.decoder import check_queries, log_softmax
from genius.errors import InputError

FLOATS = 1 << 24
"""How many distances are looked at to fit a temperature: 64 MB of them."""


class Geometry:
    """Scores codes by the distance of their vectors to the query's residual.

    Args:
        codebooks: the vectors of each level, [codes, width].
        temperature: τ, of all levels; `fit_temperature` finds it.
    """

    def __init__(self, codebooks: Sequence[np.ndarray], temperature: float) -> None:
        _check_codebooks(codebooks)
        if not (np.isfinite(temperature) and temperature > 0):
            raise InputError(f"a temperature must be above zero, not {temperature}")
        self.codebooks = [np.ascontiguousarray(codebook, np.float32) for codebook in codebooks]
        self.temperature = float(temperature)
        self.sizes = [len(codebook) for codebook in codebooks]
        self._norms = [_norms(codebook) for codebook in self.codebooks]

    def begin(self, vectors: np.ndarray, first: np.ndarray | None = None) -> GeometryDecoding:
        """Start with one row for each query vector [n, width], behind its first code if that is given."""
        check_queries(vectors, first, self.codebooks[0].shape[1], self.sizes[0])
        decoding = GeometryDecoding(self, vectors.astype(np.float32, copy=False))
        if first is not None:
            decoding.advance(np.arange(len(vectors)), first)
        return decoding

    def scores(self, level: int, residuals: np.ndarray) -> np.ndarray:
        """Log-probabilities float32 [n, codes] of a level (the first is 0), given residuals [n, width]."""
        temperature = np.float32(self.temperature)
        logits = (residuals * (2 / temperature)) @ self.codebooks[level].T
        logits -= self._norms[level] / temperature
        return log_softmax(logits)


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


def fit_temperature(codebooks: Sequence[np.ndarray], vectors: np.ndarray, codes: np.ndarray) -> float:
    """The one temperature of all levels under which `codes` are likeliest, given the codes before them.

    One for all levels, though each by itself would be likelier with its own: sums of scores on different
    scales order whole codes worse (hit rate @5 of beams 35.3 instead of 39.3; research/log.md).

    Args:
        codebooks: the vectors of each level, [codes, width].
        vectors: query vectors of validation pairs, [n, width].
        codes: the code of a positive item for each, [n, levels].

    A sample is enough to fit one number: of very many pairs, evenly spaced ones are used. If nothing can be
    told (one code a level, or vectors that are all the same), it is 1.
    """
    _check_codebooks(codebooks)
    if not len(vectors) or codes.shape != (len(vectors), len(codebooks)):
        raise InputError(
            f"a temperature is fitted on pairs of a vector and a code of {len(codebooks)} levels, "
            f"not on shapes {vectors.shape} and {codes.shape}"
        )
    step = -(-len(vectors) * sum(map(len, codebooks)) // FLOATS)
    residuals, codes = vectors[::step].astype(np.float32), codes[::step]
    nearness = []
    for level, codebook in enumerate(codebooks):
        book = codebook.astype(np.float32, copy=False)
        nearness.append(2 * residuals @ book.T - _norms(book))
        nearness[-1] -= nearness[-1].max(axis=1, keepdims=True)
        residuals -= book[codes[:, level]]
    return _fit(nearness, codes)


def _fit(nearness: Sequence[np.ndarray], codes: np.ndarray) -> float:
    """The τ with the greatest likelihood of the codes under softmax(nearness / τ) at every level.

    The log-likelihood is concave in 1/τ: its slope, what is wanted less what is expected, changes its sign
    once at most, and bisection finds where. If every wanted code is the nearest, any small τ is as good; if
    they are worse than chance, it is the largest of the range.
    """
    scale = -float(np.mean([level.mean(dtype=np.float64) for level in nearness]))
    if scale < np.finfo(np.float32).tiny:
        return 1.0
    numbers = np.arange(len(codes))
    target = sum(
        float(level[numbers, codes[:, k]].mean(dtype=np.float64)) for k, level in enumerate(nearness)
    )
    low, high = np.log(scale) - 9, np.log(scale) + 9
    for _ in range(15):  # 18 / 2¹⁵: τ to within a thousandth
        middle = (low + high) / 2
        if sum(_expected(level, np.exp(middle)) for level in nearness) < target:
            high = middle
        else:
            low = middle
    return float(np.exp((low + high) / 2))


def _expected(nearness: np.ndarray, temperature: float) -> float:
    """The mean nearness of codes drawn by softmax(nearness / τ)."""
    weights = np.exp(nearness / np.float32(temperature))
    expected = np.einsum("ij,ij->i", weights, nearness) / weights.sum(axis=1)
    return float(expected.mean(dtype=np.float64))


def _check_codebooks(codebooks: Sequence[np.ndarray]) -> None:
    if not len(codebooks) or any(book.ndim != 2 or not len(book) for book in codebooks):
        raise InputError(f"codebooks must be matrices, not the shapes {[book.shape for book in codebooks]}")
    if len({book.shape[1] for book in codebooks}) != 1:
        raise InputError(f"codebooks must be of one width, not {[book.shape[1] for book in codebooks]}")
    if not all(np.isfinite(book).all() for book in codebooks):
        raise InputError("codebooks must be finite, and some hold NaN or infinity")


def _norms(codebook: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ij,ij->i", codebook, codebook))
