"""What beam search asks of a decoder, learned or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from genius.errors import InputError


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

    def begin(self, vectors: np.ndarray, first: np.ndarray | None = None) -> Decoding:
        """Start with one row for each query vector [n, width].

        With `first`, a code of the first level for each query [n], the rows stand behind it already, and the
        next scores are those of the second level: a code that is known need not be searched for.
        """


def check_queries(vectors: np.ndarray, first: np.ndarray | None, width: int, size: int) -> None:
    """Refuse queries that a decoder of this width and this number of first codes can't begin with."""
    if vectors.ndim != 2 or vectors.shape[1] != width:
        raise InputError(f"queries must be vectors of width {width}, not of the shape {vectors.shape}")
    if first is None:
        return
    if first.shape != (len(vectors),) or (len(first) and not 0 <= first.min() <= first.max() < size):
        raise InputError(f"each query needs a first code from 0 to {size - 1}")


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Log-probabilities of logits [rows, codes], in place; the greatest is taken off first so that nothing
    overflows."""
    logits -= logits.max(axis=1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return logits
