"""What beam search asks of a decoder, learned or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class Decoding(Protocol):
    """One search under way: a row for each living beam of each query."""

    def scores(self) -> np.ndarray:
        """Log-probabilities float32 [rows, codes of the next level], normalised over the level's codes."""

    def advance(self, rows: np.ndarray, codes: np.ndarray) -> None:
        """Go one level down: keep these rows, each extended by its code.

        A row may be kept several times or not at all; the new rows stand in the order given.
        """


class Decoder(Protocol):
    """Something that scores the next code, given a query's vector and the codes before."""

    @property
    def sizes(self) -> Sequence[int]:
        """How many codes each level has."""

    def begin(self, vectors: np.ndarray) -> Decoding:
        """Start with one row for each query vector [n, width]."""
