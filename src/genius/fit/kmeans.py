"""Lloyd's k-means in numpy, for collections: torch is not needed to fit a model."""

from __future__ import annotations

import numpy as np

BLOCK = 4096
"""Rows that are compared with all centres at a time."""
PART = 4
"""Rows for each centre, at most, that k-means iterates over: a part of them leads most of the way."""


def kmeans(
    rows: np.ndarray, count: int, *, iterations: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """`count` centres float32 [count, width] of the rows [n, width], n at least `count`, and the centre of
    each row [n]: the one that it was nearest to before the centres moved to the means of their rows.

    Starts from rows drawn at random, and iterates over a part of the rows before all of them move the centres
    once; a centre that loses all its rows moves to the row that is farthest from its own centre. Ends early
    when no row changes its centre.
    """
    part = np.sort(random.choice(len(rows), min(PART * count, len(rows)), replace=False))
    centres = rows[np.sort(random.choice(part, count, replace=False))].astype(np.float32)
    centres, own = _lloyd(rows[part], centres, iterations)
    return _lloyd(rows, centres, 1) if len(part) < len(rows) else (centres, own)


def _lloyd(rows: np.ndarray, centres: np.ndarray, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """The centres [count, width] after so many iterations over the rows, and the centre of each row [n]."""
    own, count = np.full(len(rows), -1), len(centres)
    for _ in range(iterations):
        moved, scores = nearest_centres(rows, centres)
        if np.array_equal(moved, own):
            break
        own = moved
        centres = means_by(rows, own, centres)
        empty = np.flatnonzero(np.bincount(own, minlength=count) == 0)
        if len(empty):
            distance = 0.5 * np.einsum("ij,ij->i", rows, rows) - scores
            farthest = np.argsort(-distance, kind="stable")[: len(empty)]
            centres[empty] = rows[farthest]
            own[farthest] = empty
    return centres, own


def nearest_centres(rows: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number [n] of the centre that is nearest to each row, and its score row · centre - ½‖centre‖²."""
    half_sq_norms = 0.5 * np.einsum("ij,ij->i", centres, centres)
    own, best = np.empty(len(rows), np.int64), np.empty(len(rows), np.float32)
    for start in range(0, len(rows), BLOCK):
        block = slice(start, start + BLOCK)
        scores = rows[block] @ centres.T - half_sq_norms
        own[block] = scores.argmax(1)
        best[block] = np.take_along_axis(scores, own[block][:, None], 1)[:, 0]
    return own, best


def means_by(rows: np.ndarray, groups: np.ndarray, fallback: np.ndarray) -> np.ndarray:
    """The mean of the rows of each group, float32 [groups, width]; a group without rows keeps `fallback`."""
    order = np.argsort(groups, kind="stable")
    counts = np.bincount(groups, minlength=len(fallback))
    used = np.flatnonzero(counts)
    starts = np.concatenate([[0], np.cumsum(counts[used])[:-1]])
    means = fallback.copy()
    means[used] = np.add.reduceat(rows[order], starts, axis=0) / counts[used, None]
    return means
