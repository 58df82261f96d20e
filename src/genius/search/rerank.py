"""Everything below a query's prefixes, ordered by likeness: of embeddings, of codes, or of both (`blend`).

All items are looked at in bytes, in one compiled loop over all runs; the best hundred (or as many as are
asked for) then by their exact embeddings, where those are kept. What codes add is summed up from one table a
level. Of equal items the lower number comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genius.errors import InputError, MismatchError
from genius.jit import frozen
from genius.search import kernels as dots
from genius.search.asked import Asked
from genius.search.segment_view import Part

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


@dataclass(frozen=True, eq=False)
class _Runs:
    """The runs of one part: which are in which group, where they are, and the query of each group."""

    bounds: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    whose: np.ndarray


def rank(
    parts: Sequence[Part],
    bounds: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    asked: Asked,
    k: int,
    whose: np.ndarray | None = None,
) -> Ranked:
    """The k items most like its query in each group of runs.

    Args:
        parts: where the runs are.
        bounds: which runs are in which group, int64 [groups + 1].
        starts, ends: the runs in each part, int64 [parts, runs].
        asked: what each query's items are compared with.
        k: how many; there are no more columns than the largest group has items.
        whose: the query of each group, int64 [groups]; without it, each has one of its own.
    """
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}")
    _check(parts, asked)
    groups = len(bounds) - 1
    whose = np.arange(groups) if whose is None else whose
    owners = np.repeat(np.arange(groups), np.diff(bounds))
    below = np.zeros(len(owners), np.int64)
    for part, some, others in zip(parts, starts, ends, strict=True):
        below += part.under(some, others)
    available = int(np.bincount(owners, below, groups).max(initial=0))
    k = min(k, available)
    exact = asked.embeddings is not None and all(part.exact is not None for part in parts)
    most = min(max(k, EXACT) if exact else k, available)
    found = _joined(
        [
            _looked_up(part, _Runs(bounds, starts[number], ends[number], whose), asked, most).moved(first)
            for number, (part, first) in enumerate(zip(parts, offsets(parts)[:-1], strict=True))
        ]
    )
    found = found[_best(found, found.rows, most)]
    if exact and any(part.coarse is not None for part in parts):
        found = _Flat(found.groups, found.rows, found.runs, _exact(parts, found, asked, whose))
    found = found[_best(found, numbers(parts, found.rows), k)]
    ranked = blank(groups, k)
    where = found.groups, np.arange(len(found.groups)) - np.searchsorted(found.groups, found.groups)
    ranked.rows[where], ranked.scores[where], ranked.runs[where] = found.rows, found.scores, found.runs
    return ranked


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


def _looked_up(part: Part, runs: _Runs, asked: Asked, most: int) -> _Flat:
    """The `most` best items of each group in one part, as well as can be told quickly."""
    if asked.embeddings is not None and part.coarse is None:
        return _by_exact(part, runs, asked, most)
    groups = len(runs.bounds) - 1
    rows, from_runs = np.empty((groups, most), np.int64), np.empty((groups, most), np.int64)
    scores = np.empty((groups, most), np.float32)
    count = int(runs.whose.max(initial=-1)) + 1
    vectors, queries, units = _bytes(part, asked, count)
    found = dots.best_of_runs(
        vectors,
        queries,
        units,
        runs.whose,
        *part.words,
        _or_none(part.packed.firsts, np.uint32),
        *part.places,
        np.zeros((count, 0, 0), np.float32) if asked.tables is None else asked.tables,
        _or_none(part.halves if asked.share else None, np.float32),
        np.float32(asked.share),
        _or_none(part.allowed, np.bool_),
        np.ascontiguousarray(runs.starts),  # loops are compiled once for each kind of array
        np.ascontiguousarray(runs.ends),
        runs.bounds,
        rows,
        from_runs,
        scores,
    )
    there = np.arange(most) < found[:, None]
    return _Flat(np.nonzero(there)[0], rows[there], from_runs[there], scores[there])


def _bytes(part: Part, asked: Asked, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Items' embeddings in bytes, the queries' in short integers, and what a unit of a product stands for."""
    if asked.embeddings is None or part.coarse is None:
        return frozen(np.empty((0, 0), np.int8)), np.empty((count, 0), np.int16), np.ones(count, np.float32)
    largest = np.abs(asked.embeddings).max(axis=1)
    units = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    short = np.rint(asked.embeddings / units[:, None]).astype(np.int16)
    return frozen(part.coarse), short, units * np.float32(part.scale)


def _or_none(array: np.ndarray | None, number: type[np.generic]) -> np.ndarray:
    """An array as compiled loops want it; one without elements if it is absent."""
    return frozen(np.empty(0, number) if array is None else array)


def _by_exact(part: Part, runs: _Runs, asked: Asked, most: int) -> _Flat:
    """The same by exact embeddings, where there are no others."""
    kept = [_Flat(*(np.empty(0, number) for number in (np.int64, np.int64, np.int64, np.float32)))]
    for group in range(len(runs.bounds) - 1):
        best = kept[0]
        for run in range(runs.bounds[group], runs.bounds[group + 1]):
            for start in range(runs.starts[run], runs.ends[run], BLOCK):
                rows = np.arange(start, min(start + BLOCK, runs.ends[run]))
                rows = rows if part.allowed is None else rows[part.allowed[rows]]
                scores = _scores(part, rows, np.full(len(rows), runs.whose[group]), asked)
                some = _Flat(np.full(len(rows), group), rows, np.full(len(rows), run), scores)
                best = _joined([best, some])
                best = best[_best(best, best.rows, most)]
        kept.append(best)
    return _joined(kept)


def _scores(part: Part, rows: np.ndarray, queries: np.ndarray, asked: Asked) -> np.ndarray:
    """The exact scores of rows for a query each, float32; each is summed in the same order in whatever
    company."""
    assert part.exact is not None and asked.embeddings is not None
    scores = (part.exact[rows].astype(np.float32) * asked.embeddings[queries]).sum(axis=1)
    if asked.tables is not None:
        for level, codes in enumerate(part.packed.codes(rows).T):
            scores += asked.tables[queries, level, codes]
    if asked.share:
        assert part.halves is not None
        scores -= np.float32(asked.share) * part.halves[rows]
    return np.asarray(scores)


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


def _exact(parts: Sequence[Part], found: _Flat, asked: Asked, whose: np.ndarray) -> np.ndarray:
    """The exact scores of items of several parts, float32."""
    bounds = offsets(parts)
    scores = np.empty(len(found.rows), np.float32)
    for number, part in enumerate(parts):
        mine = np.flatnonzero((found.rows >= bounds[number]) & (found.rows < bounds[number + 1]))
        for start in range(0, len(mine), BLOCK):
            some = mine[start : start + BLOCK]
            queries = whose[found.groups[some]]
            scores[some] = _scores(part, found.rows[some] - bounds[number], queries, asked)
    return scores


def _check(parts: Sequence[Part], asked: Asked) -> None:
    if asked.share and any(part.halves is None for part in parts):
        raise InputError("to be compared by their codes, items need `halves`")
    queries = asked.embeddings
    if queries is None:
        return
    if queries.ndim != 2:
        raise InputError(f"queries must be embeddings [queries, width], not of the shape {queries.shape}")
    if not np.isfinite(queries).all():
        raise InputError("queries must be finite embeddings, and some hold NaN or infinity")
    for part in parts:
        kept = [array for array in (part.coarse, part.exact) if array is not None]
        if not kept:
            raise InputError("some items have no embeddings: compare them by their codes")
        if any(array.shape[1] != queries.shape[1] for array in kept):
            raise MismatchError(
                f"items have embeddings of width {kept[0].shape[1]}, and queries of {queries.shape[1]}: "
                f"they were made by different models"
            )
