"""Queries of several parts, each with a weight: "sunset", and a photo, and without "people".

Each part is embedded as a query of its own, for the same wanted modality. Their embeddings, which re-ranking
compares, are added up by weight, and so are their vectors, which are decoded: both rankings see the same
combination. Only directions count, so each part is taken at unit length, and the sum gets the usual length of
a query again.
"""

from __future__ import annotations

import numpy as np

from genius.errors import InputError

LEAST_LENGTH = 0.01
"""Of the sum, beside that of its parts one after another: below that nothing is left but noise."""


def combined(rows: np.ndarray, weights: np.ndarray, content: int | None = None) -> np.ndarray:
    """The weighted sum float32 [width] of rows [parts, width], as long as these are on average.

    Only the first `content` numbers are summed up so; the others, which say what is wanted and not what it is
    about, are the parts' average, which nothing is taken away from. Raises InputError if nothing is left.
    """
    rows, weights = np.asarray(rows, np.float64), np.asarray(weights, np.float64)
    shares = np.abs(weights) / np.abs(weights).sum()
    own = rows[:, :content]
    lengths = np.linalg.norm(own, axis=1)
    summed = weights @ (own / np.maximum(lengths, np.finfo(np.float64).tiny)[:, None])
    length = float(np.linalg.norm(summed))
    if length < LEAST_LENGTH * np.abs(weights).sum():
        raise InputError("the parts of this query cancel each other out: change their weights")
    result = shares @ rows
    result[:content] = summed * (shares @ lengths) / length
    return np.asarray(result, np.float32)
