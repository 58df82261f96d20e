"""How much of an item's embedding its code tells: the error by which old and new items are compared.

The vector that was quantized is not kept by an index, embeddings are. An item's error is 1 − the cosine of
its embedding and what its code tells of it: a linear map from quantized vectors to embeddings, fitted on half
of all items, old and new. Errors are those of the other half. The error of new items is larger than that of
old ones if their codes tell less of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from genius.collection.count_tests import larger
from genius.collection.members import Members
from genius.model import Model

FITTED = 20_000
"""How many items of each group errors are computed of."""
MIN_ERRORS = 10
"""Errors are compared if there are so many of each group."""


@dataclass(frozen=True)
class CodeErrors:
    """The mean errors of old and new items, and the p-value of the new ones' being larger."""

    old: float
    new: float
    p_value: float


def compare_errors(
    model: Model, old: Members, new: Members, random: np.random.Generator
) -> CodeErrors | None:
    """The errors of both groups, whose embeddings must be kept; None if there are too few items."""
    rows = [evenly(len(members), FITTED) for members in (old, new)]
    if min(map(len, rows)) < 2 * MIN_ERRORS:
        return None
    groups = list(zip((old, new), rows, strict=True))
    vectors = np.concatenate([members.vectors(chosen) for members, chosen in groups])
    codes = np.concatenate([members.codes[chosen] for members, chosen in groups])
    quantized = np.asarray(model.quantizer.reconstruct(codes.astype(np.int64)), np.float64)
    is_new = np.repeat([False, True], [len(chosen) for chosen in rows])
    fitted = np.zeros(len(vectors), bool)  # the same share of both groups
    for group in (~is_new, is_new):
        places = random.permutation(np.flatnonzero(group))
        fitted[places[: len(places) // 2]] = True
    predicted = _linear_map(quantized[fitted], vectors[fitted])(quantized[~fitted])
    predicted /= np.maximum(np.linalg.norm(predicted, axis=1, keepdims=True), 1e-12)
    errors, held_new = 1 - (predicted * vectors[~fitted]).sum(1), is_new[~fitted]
    of_old, of_new = errors[~held_new], errors[held_new]
    return CodeErrors(float(of_old.mean()), float(of_new.mean()), larger(of_new, of_old))


def _linear_map(inputs: np.ndarray, outputs: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The affine map that fits best, with a little weight on small maps (ridge regression)."""
    centre, mean = inputs.mean(0), outputs.mean(0)
    around = inputs - centre
    gram = around.T @ around
    gram[np.diag_indices_from(gram)] += 1e-2 * max(float(np.trace(gram)) / len(gram), 1e-12)
    weights = np.linalg.solve(gram, around.T @ (outputs - mean))
    return lambda values: np.asarray((values - centre) @ weights + mean)


def evenly(count: int, most: int) -> np.ndarray:
    """At most so many numbers below `count`, evenly spaced."""
    return np.arange(count)[:: max(1, -(-count // most))]
