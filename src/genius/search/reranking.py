"""Everything below a query's prefixes, ordered by the likeness of embeddings.

All items are looked at in bytes, in one compiled loop over all runs; the best hundred (or as many as are
asked for) then by their exact embeddings, where those are kept. Without embeddings, an item's likeness is
that of its quantized vector, summed up from one table a level. Of equal items the lower number comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genius.errors import InputError, MismatchError
from genius.search import dots
from genius.search.parts import Part, frozen

EXACT = 100
"""How many of the best are looked at exactly, at least."""

BLOCK = 1 << 13  # exact embeddings at a time


@dataclass(frozen=True, eq=False)
class Ranked:
    """The best items of each group of runs, best first; filled up with -1 and -inf.

    Attributes:
        rows: sorted rows, those of all parts numbered one after another, int64 [groups, k].
        scores: likeness, float32 [groups, k].
        runs: the run that each is from, int64 [groups, k].
    """

    rows: np.ndarray
    scores: np.ndarray
    runs: np.ndarray

    def padded(self, k: int) -> Ranked:
        """The same with k columns."""
        wide = blank(len(self.rows), k)
        width = min(k, self.rows.shape[1])
        for new, old in ((wide.rows, self.rows), (wide.scores, self.scores), (wide.runs, self.runs)):
            new[:, :width] = old[:, :width]
        return wide


def blank(groups: int, k: int) -> Ranked:
    """Room for k items of each group."""
    shape = (groups, k)
    return Ranked(
        np.full(shape, -1, np.int64), np.full(shape, -np.inf, np.float32), np.full(shape, -1, np.int64)
    )


@dataclass(frozen=True, eq=False)
class _Flat:
    """Items of groups in no order: whose each is, the sorted row, its run and its score."""

    groups: np.ndarray
    rows: np.ndarray
    runs: np.ndarray
    scores: np.ndarray

    def __getitem__(self, some: np.ndarray) -> _Flat:
        return _Flat(self.groups[some], self.rows[some], self.runs[some], self.scores[some])

    def moved(self, rows: int) -> _Flat:
        """The same, each so many rows further down."""
        return _Flat(self.groups, self.rows + rows, self.runs, self.scores)


def rank(
    parts: Sequence[Part],
    bounds: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    queries: np.ndarray,
    k: int,
) -> Ranked:
    """The k items most like its query in each group of runs.

    Args:
        parts: where the runs are.
        bounds: which runs are in which group, int64 [groups + 1].
        starts, ends: the runs in each part, int64 [parts, runs].
        queries: for each group an embedding [groups, width]; for parts without embeddings a table of the
            likeness of each code [groups, levels, codes].
        k: how many; there are no more columns than the largest group has items.
    """
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}")
    _check(parts, queries)
    groups = len(bounds) - 1
    owners = np.repeat(np.arange(groups), np.diff(bounds))
    below = np.zeros(len(owners), np.int64)
    for part, some, others in zip(parts, starts, ends, strict=True):
        below += part.under(some, others)
    available = int(np.bincount(owners, below, groups).max(initial=0))
    k = min(k, available)
    exact = queries.ndim == 2 and all(part.exact is not None for part in parts)
    most = min(max(k, EXACT) if exact else k, available)
    found = _joined(
        [
            _looked_up(part, bounds, starts[number], ends[number], queries, most).moved(first)
            for number, (part, first) in enumerate(zip(parts, offsets(parts)[:-1], strict=True))
        ]
    )
    found = found[_best(found, found.rows, most)]
    if exact and any(part.coarse is not None for part in parts):
        found = _Flat(found.groups, found.rows, found.runs, _exact(parts, found, queries))
    found = found[_best(found, numbers(parts, found.rows), k)]
    ranked = blank(groups, k)
    where = found.groups, np.arange(len(found.groups)) - np.searchsorted(found.groups, found.groups)
    ranked.rows[where], ranked.scores[where], ranked.runs[where] = found.rows, found.scores, found.runs
    return ranked


def code_tables(vectors: np.ndarray, codebooks: Sequence[np.ndarray]) -> np.ndarray:
    """The likeness of each code's vector to each query: float32 [queries, levels, codes]."""
    tables = np.zeros((len(vectors), len(codebooks), max(map(len, codebooks))), np.float32)
    for level, codebook in enumerate(codebooks):
        tables[:, level, : len(codebook)] = vectors @ codebook.T
    return tables


def offsets(parts: Sequence[Part]) -> np.ndarray:
    """The first row of each part, where all are numbered one after another; and how many there are."""
    return np.cumsum([0, *map(len, parts)])


def numbers(parts: Sequence[Part], rows: np.ndarray) -> np.ndarray:
    """What rows are called: int64, of the same shape. Without names, their place; -1 stays."""
    called = rows.copy()
    bounds = offsets(parts)
    for number, part in enumerate(parts):
        if part.numbers is not None:
            mine = (rows >= bounds[number]) & (rows < bounds[number + 1])
            called[mine] = part.numbers[rows[mine] - bounds[number]]
    return called


def _looked_up(
    part: Part, bounds: np.ndarray, starts: np.ndarray, ends: np.ndarray, queries: np.ndarray, most: int
) -> _Flat:
    """The `most` best items of each group in one part, as well as can be told quickly."""
    if queries.ndim == 2 and part.coarse is None:
        return _by_exact(part, bounds, starts, ends, queries, most)
    shape = (len(bounds) - 1, most)
    rows, runs = np.empty(shape, np.int64), np.empty(shape, np.int64)
    allowed = frozen(np.empty(0, bool) if part.allowed is None else part.allowed)
    if queries.ndim == 3:
        scores = np.empty(shape, np.float32)
        levels = [part.bits(level) for level in range(len(part.packed.sizes))]
        left, right, mask = (
            np.array(some, np.uint64) for some in zip(*[bits[2:] for bits in levels], strict=True)
        )
        behind = np.array([bits[1] is not bits[0] for bits in levels])
        firsts = part.packed.firsts
        first_rows = frozen(np.empty(0, np.uint32) if firsts is None else firsts)
        found = dots.best_by_codes(
            *part.words,
            left,
            right,
            mask,
            behind,
            first_rows,
            allowed,
            starts,
            ends,
            bounds,
            queries,
            rows,
            runs,
            scores,
        )
    else:
        assert part.coarse is not None
        largest = np.abs(queries).max(axis=1, keepdims=True)
        units = np.where(largest > 0, largest / 127, 1).astype(np.float32)
        short = np.rint(queries / units).astype(np.int16)
        sums = np.empty(shape, np.int32)
        found = dots.best_by_bytes(
            frozen(part.coarse), allowed, starts, ends, bounds, short, rows, runs, sums
        )
        scores = sums * (units * np.float32(part.scale))
    there = np.arange(most) < found[:, None]
    return _Flat(np.nonzero(there)[0], rows[there], runs[there], scores[there])


def _by_exact(
    part: Part, bounds: np.ndarray, starts: np.ndarray, ends: np.ndarray, queries: np.ndarray, most: int
) -> _Flat:
    """The same by exact embeddings, where there are no others."""
    assert part.exact is not None
    kept = [_Flat(*(np.empty(0, number) for number in (np.int64, np.int64, np.int64, np.float32)))]
    for group, query in enumerate(queries):
        best = kept[0]
        for run in range(bounds[group], bounds[group + 1]):
            for start in range(starts[run], ends[run], BLOCK):
                rows = np.arange(start, min(start + BLOCK, ends[run]))
                rows = rows if part.allowed is None else rows[part.allowed[rows]]
                scores = _products(part.exact[rows], query[None])
                some = _Flat(np.full(len(rows), group), rows, np.full(len(rows), run), scores)
                best = _joined([best, some])
                best = best[_best(best, best.rows, most)]
        kept.append(best)
    return _joined(kept)


def _joined(found: Sequence[_Flat]) -> _Flat:
    """Several lists as one."""
    return _Flat(
        np.concatenate([some.groups for some in found]),
        np.concatenate([some.rows for some in found]),
        np.concatenate([some.runs for some in found]),
        np.concatenate([some.scores for some in found]),
    )


def _best(found: _Flat, names: np.ndarray, most: int) -> np.ndarray:
    """The places of the `most` best of each group, by group and best first; of equal ones the lower name."""
    order = np.lexsort((names, -found.scores, found.groups))
    groups = found.groups[order]
    return np.asarray(order[np.arange(len(order)) - np.searchsorted(groups, groups) < most])


def _exact(parts: Sequence[Part], found: _Flat, queries: np.ndarray) -> np.ndarray:
    """The inner products of items with their group's query by exact embeddings, float32."""
    bounds = offsets(parts)
    scores = np.empty(len(found.rows), np.float32)
    for number, part in enumerate(parts):
        assert part.exact is not None
        mine = np.flatnonzero((found.rows >= bounds[number]) & (found.rows < bounds[number + 1]))
        for start in range(0, len(mine), BLOCK):
            some = mine[start : start + BLOCK]
            scores[some] = _products(
                part.exact[found.rows[some] - bounds[number]], queries[found.groups[some]]
            )
    return scores


def _products(embeddings: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The inner product of each row with its query, summed in the same order in whatever company."""
    return np.asarray((embeddings.astype(np.float32) * queries).sum(axis=1))


def _check(parts: Sequence[Part], queries: np.ndarray) -> None:
    if queries.ndim == 3:
        return
    if queries.ndim != 2:
        raise InputError(f"queries must be embeddings [queries, width], not of the shape {queries.shape}")
    if not np.isfinite(queries).all():
        raise InputError("queries must be finite embeddings, and some hold NaN or infinity")
    for part in parts:
        kept = [array for array in (part.coarse, part.exact) if array is not None]
        if not kept:
            raise InputError("some items have no embeddings: order them by their codes")
        if any(array.shape[1] != queries.shape[1] for array in kept):
            raise MismatchError(
                f"items have embeddings of width {kept[0].shape[1]}, and queries of {queries.shape[1]}: "
                f"they were made by different models"
            )
