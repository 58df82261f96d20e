"""Which items are near each other: one pass over the order of their codes, and a look over cells' borders.

Items under one prefix are compared with each other. Two that are near may still be in two cells: so each item
is also compared with the cells around it, those whose means are nearest to it, and the collection is cut into
cells in some other ways. Most pairs are ruled out by a
projection to a few dimensions: the inner product of two projections, plus the product of what is left of the
two vectors, is never below their cosine.

What is kept is the strongest links that join anything: at most n - 1, by which items can be grouped at any
similarity from the floor on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from genius.collection import kernels
from genius.collection.members import BLOCK, Members

CELL = 512
"""How many items of a cell are compared with each other."""
AROUND = 1536
"""With so many items of other cells each one is compared, about."""
FEWEST_CELLS, MOST_CELLS = 4, 48
"""How many cells around an item are looked into."""
PASSES, DIRECTIONS = 3, 16
"""So often the collection is cut once more, without codes, along so many main directions: where codes are
poor, near items are far apart in their order."""
WIDTHS = (32, 64, 128)
"""Dimensions of the projection: the first that keeps enough."""
KEPT_ENERGY = 0.85
"""The share of squared lengths that a projection should keep to stand for vectors;"""
BOUND_ENERGY = 0.5
"""with so much of it, few pairs that are not near pass the bound."""
MAIN = 32
"""So many dimensions tell which cells are around an item."""
SAMPLE = 8192
"""How many items the projection is fitted to."""
VISITORS = 2048
"""How many items are compared with a cell at a time."""
PENDING = 4_000_000
"""So many links are collected before those that join nothing are dropped."""


@dataclass(frozen=True, eq=False)
class Links:
    """Pairs of rows int64 [links, 2] with their cosines float32 [links], the strongest first."""

    pairs: np.ndarray
    similarities: np.ndarray

    def __len__(self) -> int:
        return len(self.pairs)


def near_links(members: Members, floor: float) -> Links:
    """The links of cosine `floor` or more by which items of one modality hang together."""
    count = len(members)
    projected = project(members, BOUND_ENERGY)
    collected = _Collector(count)
    pairs, similarities = np.empty((VISITORS * CELL, 2), np.int64), np.empty(VISITORS * CELL, np.float32)
    least = np.float32(floor)

    def compare(rows: np.ndarray, others: np.ndarray) -> None:
        # The bound is rounded; what is lost by that must not be lost by the filter.
        bounds = projected[rows] @ projected[others].T + np.float32(1e-4)
        count = kernels.near_pairs(
            bounds,
            rows,
            others,
            rows is others,
            members.embeddings,
            members.inverse_norms,
            members.modality,
            least,
            pairs,
            similarities,
        )
        collected.add(pairs[:count], similarities[:count])

    cells = _cells(members)
    inside = [np.arange(start, end) for start, end in pairwise(cells.tolist())]
    for rows in chain(inside, _other_cells(projected)):
        compare(rows, rows)
    for cell, visitors in _visitors(projected, cells):
        for first in range(0, len(visitors), VISITORS):
            compare(visitors[first : first + VISITORS], inside[cell])
    return collected.links()


def _cells(members: Members) -> np.ndarray:
    """Where cells of at most `CELL` items begin, and n behind them: prefixes, of which small neighbours are
    one, as long as they have the first code in common.

    Each item is compared with the means of all cells: so these must not be many more than items need.
    """
    first_codes = set(members.cells(len(members), first_level=0).tolist())
    starts_of_cells: list[int] = []
    for start, end in pairwise(members.cells(CELL, first_level=0).tolist()):
        if start in first_codes or end - starts_of_cells[-1] > CELL:
            starts_of_cells.append(start)
    return np.array([*starts_of_cells, len(members)], np.int64)


def project(members: Members, energy: float = KEPT_ENERGY) -> np.ndarray:
    """A projection of each vector to its main directions, and the length of what is left of it: float32
    [n, dimensions + 1]."""
    count, width = members.embeddings.shape
    sample = members.vectors(np.arange(0, count, max(1, count // SAMPLE)))
    energies, directions = np.linalg.eigh(sample.T @ sample)
    shares = np.cumsum(energies[::-1]) / max(float(energies.sum()), 1e-12)
    wide = [size for size in WIDTHS if size < width]
    size = next((size for size in wide if shares[size - 1] >= energy), wide[-1] if wide else width)
    main = np.ascontiguousarray(directions[:, ::-1][:, :size], np.float32)
    projected = np.empty((count, size + 1), np.float32)
    for start in range(0, count, BLOCK):
        rows = members.vectors(slice(start, start + BLOCK))
        block = projected[start : start + BLOCK]
        block[:, :size] = rows @ main
        left = np.einsum("ij,ij->i", rows, rows) - np.einsum("ij,ij->i", block[:, :size], block[:, :size])
        block[:, size] = np.sqrt(np.maximum(left, 0))
    return projected


def cell_means(vectors: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """The mean of the rows of each cell, float32 [cells, width]."""
    sums = np.add.reduceat(vectors, cells[:-1], axis=0)
    return np.asarray(sums / np.diff(cells)[:, None], np.float32)


def _other_cells(projected: np.ndarray) -> Iterator[np.ndarray]:
    """Rows that lie together if the collection is cut otherwise: in halves, again and again, along directions
    that are drawn at random among the main ones. None if it is so small that cells are compared anyway."""
    random = np.random.default_rng(0)
    directions = min(DIRECTIONS, projected.shape[1] - 1)
    todo = [np.arange(len(projected))] * (PASSES if len(projected) > CELL else 0)
    while todo:
        rows = todo.pop()
        if len(rows) <= CELL:
            yield rows
            continue
        places = projected[rows, :directions] @ random.normal(size=directions).astype(np.float32)
        order = np.argpartition(places, len(rows) // 2)
        todo += [rows[order[: len(rows) // 2]], rows[order[len(rows) // 2 :]]]


def _visitors(projected: np.ndarray, cells: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each cell with the rows of other cells that are compared with it."""
    count, num_cells = len(projected), len(cells) - 1
    if num_cells < 2:
        return
    probes = int(np.clip(-(-AROUND * num_cells // count), FEWEST_CELLS, MOST_CELLS))
    probes = min(probes, num_cells - 1)
    main = np.ascontiguousarray(projected[:, : min(MAIN, projected.shape[1] - 1)])
    means = cell_means(main, cells)
    half_sq_norms = 0.5 * np.einsum("ij,ij->i", means, means)
    own = np.repeat(np.arange(num_cells), np.diff(cells))
    around = np.empty((count, probes), np.int64)
    for start in range(0, count, VISITORS):
        block = slice(start, start + VISITORS)
        scores = main[block] @ means.T - half_sq_norms
        kernels.best_columns(scores, own[block], around[block])
    order = np.argsort(around.ravel(), kind="stable")
    ends = np.searchsorted(around.ravel()[order], np.arange(num_cells + 1))
    for cell in range(num_cells):
        rows = order[ends[cell] : ends[cell + 1]] // probes
        if len(rows):
            yield cell, rows


class _Collector:
    """Links as they come; those that join nothing are dropped from time to time."""

    def __init__(self, count: int) -> None:
        self._count, self._pending = count, 0
        self._pairs: list[np.ndarray] = [np.zeros((0, 2), np.int64)]
        self._similarities: list[np.ndarray] = [np.zeros(0, np.float32)]

    def add(self, pairs: np.ndarray, similarities: np.ndarray) -> None:
        if not len(pairs):
            return
        self._pairs.append(pairs.copy())
        self._similarities.append(similarities.copy())
        self._pending += len(pairs)
        if self._pending > PENDING:
            kept = self.links()
            self._pairs, self._similarities = [kept.pairs], [kept.similarities]
            self._pending = 0

    def links(self) -> Links:
        """The strongest links that join anything."""
        return strongest(np.concatenate(self._pairs), np.concatenate(self._similarities), self._count)


def strongest(pairs: np.ndarray, similarities: np.ndarray, count: int) -> Links:
    """A spanning forest of `count` rows by the strongest links; of equal ones those of the first rows."""
    order = np.lexsort((pairs.max(1, initial=-1), pairs.min(1, initial=count), -similarities))
    pairs, similarities = pairs[order], similarities[order]
    joins = kernels.link_all(pairs, np.arange(count))
    return Links(pairs[joins], similarities[joins])


def groups_of(pairs: np.ndarray, count: int) -> list[np.ndarray]:
    """Rows that hang together by pairs [links, 2], in groups of two or more, each rising, by first row."""
    if not len(pairs):
        return []
    parents = np.arange(count)
    kernels.link_all(np.ascontiguousarray(pairs), parents)
    named = kernels.representatives(parents)
    order = np.argsort(named, kind="stable")
    starts = np.flatnonzero(np.diff(named[order], prepend=-1))
    return [rows for rows in np.split(order, starts[1:]) if len(rows) > 1]
