"""Geometry written down as its formula, without tables: what `genius.decode.geometry` is compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genius.decode.decoder import log_softmax


class ReadableGeometry:
    """Scores codes by the distance of their vectors to the query's residual: one matrix product a level."""

    def __init__(self, codebooks: Sequence[np.ndarray], temperature: float) -> None:
        self.codebooks = [np.asarray(codebook, np.float32) for codebook in codebooks]
        self.temperature = float(temperature)
        self.sizes = [len(codebook) for codebook in codebooks]

    def begin(self, vectors: np.ndarray, modality_codes: np.ndarray | None = None) -> ReadableState:
        state = ReadableState(self, vectors.astype(np.float32, copy=False))
        if modality_codes is not None:
            state.advance(np.arange(len(vectors)), modality_codes)
        return state

    def scores(self, level: int, residuals: np.ndarray) -> np.ndarray:
        """log softmax(−‖r − e‖² / τ) over a level's codes e; ‖r‖² is the same for all, and left out."""
        book, temperature = self.codebooks[level], np.float32(self.temperature)
        logits = (residuals * (2 / temperature)) @ book.T
        logits -= np.square(book).sum(axis=1) / temperature
        return log_softmax(logits)


class ReadableState:
    """One search by geometry: the residual of each row."""

    def __init__(self, geometry: ReadableGeometry, vectors: np.ndarray) -> None:
        self._geometry, self._residuals, self._level = geometry, vectors, 0

    def scores(self) -> np.ndarray:
        return self._geometry.scores(self._level, self._residuals)

    def advance(self, rows: np.ndarray, codes: np.ndarray) -> None:
        self._residuals = self._residuals[rows] - self._geometry.codebooks[self._level][codes]
        self._level += 1
