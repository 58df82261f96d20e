"""A partition of items into groups that are even, near and distinct, from the tree of their codes.

The codes cut the collection into some thousand cells, a cell being what is under one prefix. Cells are joined
by Ward's criterion, always the two whose union spreads the least, which makes groups compact and about even;
a group that stays too small joins the nearest one. Then cells move to the nearest group until none does.
Items of one cell stay together, and new items fall into the cells that are there: so groups change little
when items are added.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genius.collection import kernels
from genius.collection.near_links import cell_means

MAX_CELLS = 2048
"""So many cells are joined; smaller ones are added to the nearest of them."""
ITERATIONS = 8
"""How often cells may move to a nearer group, at most."""
SMALL = 8
"""A group is too small if its size is less than this part of the average."""


@dataclass(frozen=True, eq=False)
class Partition:
    """Groups of rows.

    Attributes:
        groups: the number of each row's group, int64 [n]; numbers are by size, the largest group first.
        centres: the mean of each group, float32 [groups, width].
    """

    groups: np.ndarray
    centres: np.ndarray


def partition(
    vectors: np.ndarray, cells: np.ndarray, count: int, like: np.ndarray | None = None
) -> Partition:
    """`count` groups of rows, or fewer if there are not so many cells.

    Args:
        vectors: float32 [n, width], in the order of their codes.
        cells: where cells begin, and n [cells + 1].
        count: how many groups.
        like: the number of each row's group in an earlier partition [n], -1 for rows that it lacked: groups
            start from those.
    """
    sizes = np.diff(cells).astype(np.float64)
    means = cell_means(vectors, cells).astype(np.float64)
    centres = _earlier(vectors, like) if like is not None else _ward_centres(means, sizes, count)
    own = np.full(len(sizes), -1)
    for _ in range(ITERATIONS):
        moved = _nearest(means, centres)
        if np.array_equal(moved, own):
            break
        own = moved
        centres = _weighted_means(means, sizes, own)
    own = np.unique(own, return_inverse=True)[1]
    order = np.argsort(-np.bincount(own, sizes), kind="stable")
    names = np.empty(len(order), np.int64)
    names[order] = np.arange(len(order))
    groups = np.repeat(names[own], np.diff(cells))
    return Partition(groups, _weighted_means(means, sizes, names[own]).astype(np.float32))


def _earlier(vectors: np.ndarray, like: np.ndarray) -> np.ndarray:
    rows = np.flatnonzero(like >= 0)
    return _weighted_means(
        vectors[rows].astype(np.float64), np.ones(len(rows)), np.unique(like[rows], return_inverse=True)[1]
    )


def _ward_centres(means: np.ndarray, sizes: np.ndarray, count: int) -> np.ndarray:
    """The centres of the groups that joining cells leads to."""
    if len(sizes) <= count:
        return means
    if len(sizes) > MAX_CELLS:
        large = np.sort(np.argsort(-sizes, kind="stable")[:MAX_CELLS])
        own = _nearest(means, means[large])
        means, sizes = _weighted_means(means, sizes, own), np.bincount(own, sizes)
    merges, order = _tree(means, sizes)
    least = sizes.sum() / count / SMALL
    for wanted in range(count, min(3 * count, len(sizes)) + 1):
        own = _cut(merges[order], len(sizes), wanted)
        weights = np.bincount(own, sizes)
        if (weights >= least).sum() >= count:
            break
    chosen = np.argsort(-weights, kind="stable")[:count]
    return _weighted_means(means, sizes, own)[chosen]


def _tree(means: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How cells are joined two by two [cells - 1, 2], and the order of these steps from near to far."""
    squares = np.einsum("ij,ij->i", means, means)
    distances = squares[:, None] + squares[None] - 2 * means @ means.T
    distances *= sizes[:, None] * sizes[None] / (sizes[:, None] + sizes[None])
    merges, heights = np.empty((len(sizes) - 1, 2), np.int64), np.empty(len(sizes) - 1, np.float32)
    kernels.ward(np.ascontiguousarray(np.maximum(distances, 0), np.float32), sizes.copy(), merges, heights)
    return merges, np.argsort(heights, kind="stable")


def _cut(merges: np.ndarray, count: int, wanted: int) -> np.ndarray:
    """The group [count] of each cell after all steps but the last ones, which leave `wanted` groups."""
    parents = np.arange(count)
    kernels.link_all(np.ascontiguousarray(merges[: count - wanted]), parents)
    return np.unique(kernels.representatives(parents), return_inverse=True)[1]


def _nearest(means: np.ndarray, centres: np.ndarray) -> np.ndarray:
    half_sq_norms = 0.5 * np.einsum("ij,ij->i", centres, centres)
    return np.asarray((means @ centres.T - half_sq_norms).argmax(1))


def _weighted_means(rows: np.ndarray, weights: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """The mean of the rows of each group [groups, width]; every group has some."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    sums = np.add.reduceat(rows[order] * weights[order][:, None], starts, axis=0)
    return np.asarray(sums / np.add.reduceat(weights[order], starts)[:, None])
