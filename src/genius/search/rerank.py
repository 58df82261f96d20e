"""Everything below a query's prefixes, ranked by score: of embeddings, of codes, or of both (`scoring`).

All items are scored by their int8 embeddings, in one compiled loop over all runs; then the best hundred (or
k, if that is more) by their float embeddings, where those are kept. Code scores are sums of one table look-up
a level. Ties are broken by item key.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genius.errors import InputError, MismatchError
from genius.jit import frozen
from genius.search import kernels
from genius.search.preselection import Preselection
from genius.search.scoring import Scorer
from genius.search.segment_view import SegmentView

MIN_EXACT = 100
"""At least so many of the best are scored by their float embeddings."""

BLOCK = 1 << 13  # float embeddings at a time


@dataclass(frozen=True, eq=False)
class RankedRows:
    """The best rows of each group of runs, best first; padded with -1 and -inf.

    Attributes:
        rows: sorted rows, those of all segments numbered one after another, int64 [groups, k].
        scores: float32 [groups, k].
        runs: the run of each row, int64 [groups, k].
    """

    rows: np.ndarray
    scores: np.ndarray
    runs: np.ndarray

    @classmethod
    def empty(cls, groups: int, k: int) -> RankedRows:
        """Padding alone."""
        shape = (groups, k)
        return cls(
            np.full(shape, -1, np.int64), np.full(shape, -np.inf, np.float32), np.full(shape, -1, np.int64)
        )

    def padded(self, k: int) -> RankedRows:
        """The same with k columns."""
        wide = RankedRows.empty(len(self.rows), k)
        width = min(k, self.rows.shape[1])
        for new, old in ((wide.rows, self.rows), (wide.scores, self.scores), (wide.runs, self.runs)):
            new[:, :width] = old[:, :width]
        return wide


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Rows of groups in no order: the group, the sorted row, the run and the score of each."""

    groups: np.ndarray
    rows: np.ndarray
    runs: np.ndarray
    scores: np.ndarray

    def __getitem__(self, places: np.ndarray) -> _Candidates:
        return _Candidates(self.groups[places], self.rows[places], self.runs[places], self.scores[places])

    def shifted(self, rows: int) -> _Candidates:
        """The same, with rows numbered from another start."""
        return _Candidates(self.groups, self.rows + rows, self.runs, self.scores)


@dataclass(frozen=True, eq=False)
class _Runs:
    """The runs of one segment: which are in which group, where they are, and the query of each group."""

    bounds: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    query_of_group: np.ndarray


def rank(
    segments: Sequence[SegmentView],
    bounds: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    scorer: Scorer,
    k: int,
    query_of_group: np.ndarray | None = None,
    preselection: Preselection | None = None,
) -> RankedRows:
    """The k rows with the highest scores for its query in each group of runs.

    Args:
        segments: where the runs are.
        bounds: which runs are in which group, int64 [groups + 1].
        starts, ends: the runs in each segment, int64 [segments, runs].
        scorer: what each query's items are scored by.
        k: how many; there are no more columns than the largest group has items.
        query_of_group: the query of each group, int64 [groups]; without it, group i belongs to query i.
        preselection: of groups with very many rows, only those that it selects are scored.
    """
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}")
    _check(segments, scorer)
    groups = len(bounds) - 1
    query_of_group = np.arange(groups) if query_of_group is None else query_of_group
    # Runs are counted up to the end of each group, less those up to its start.
    items = np.zeros(starts.shape[1] + 1, np.int64)
    for segment, segment_starts, segment_ends in zip(segments, starts, ends, strict=True):
        items[1:] += segment.count_allowed(segment_starts, segment_ends)
    available = int(np.diff(items.cumsum()[bounds]).max(initial=0))
    k = min(k, available)
    exact = scorer.embeddings is not None and all(segment.embeddings is not None for segment in segments)
    most = min(max(k, MIN_EXACT) if exact else k, available)
    candidates = _concatenate(
        [
            _quick_best(
                segment,
                _Runs(bounds, starts[number], ends[number], query_of_group),
                scorer,
                most,
                preselection,
            ).shifted(first)
            for number, (segment, first) in enumerate(zip(segments, row_offsets(segments)[:-1], strict=True))
        ]
    )
    candidates = candidates[_best(candidates, candidates.rows, most)]
    if exact and any(segment.embeddings_int8 is not None for segment in segments):
        scores = _exact_scores(segments, candidates, scorer, query_of_group)
        candidates = _Candidates(candidates.groups, candidates.rows, candidates.runs, scores)
    best = candidates[_best(candidates, item_keys(segments, candidates.rows), k)]
    ranked = RankedRows.empty(groups, k)
    where = best.groups, np.arange(len(best.groups)) - np.searchsorted(best.groups, best.groups)
    ranked.rows[where], ranked.scores[where], ranked.runs[where] = best.rows, best.scores, best.runs
    return ranked


def row_offsets(segments: Sequence[SegmentView]) -> np.ndarray:
    """The first row of each segment, where all are numbered one after another; then the number of rows."""
    return np.array([0, *itertools.accumulate(map(len, segments))])


def item_keys(segments: Sequence[SegmentView], rows: np.ndarray) -> np.ndarray:
    """The item keys of rows: int64, of the same shape. Segments without keys give the rows; -1 stays."""
    keys = rows.copy()
    bounds = row_offsets(segments)
    for number, segment in enumerate(segments):
        if segment.item_keys is not None:
            inside = (rows >= bounds[number]) & (rows < bounds[number + 1])
            keys[inside] = segment.item_keys[rows[inside] - bounds[number]]
    return keys


def _quick_best(
    segment: SegmentView, runs: _Runs, scorer: Scorer, most: int, preselection: Preselection | None
) -> _Candidates:
    """The `most` best rows of each group in one segment, by int8 embeddings where there are any."""
    selected = None
    if preselection is not None and scorer.embeddings is not None and segment.embeddings_int8 is not None:
        selected = preselection.runs(segment, runs.bounds, runs.starts, runs.ends, runs.query_of_group)
    if selected is not None:
        bounds, starts, ends, origins = selected
        own = _Runs(bounds, starts, ends, runs.query_of_group)
        best = _quick_best(segment, own, scorer, most, None)
        return _Candidates(best.groups, best.rows, origins[best.runs], best.scores)
    if scorer.embeddings is not None and segment.embeddings_int8 is None:
        return _float_best(segment, runs, scorer, most)
    groups = len(runs.bounds) - 1
    rows, row_runs = np.empty((groups, most), np.int64), np.empty((groups, most), np.int64)
    scores = np.empty((groups, most), np.float32)
    queries = int(runs.query_of_group.max(initial=-1)) + 1
    counts = kernels.best_of_runs(
        *_int8_operands(segment, scorer, queries),
        runs.query_of_group,
        *segment.words,
        _or_empty(segment.packed.modality_starts, np.uint32),
        *segment.all_level_bits,
        np.zeros((queries, 0, 0), np.float32) if scorer.tables is None else scorer.tables,
        _or_empty(None if scorer.code_weights is None else segment.half_sq_norms, np.float32),
        np.zeros(queries, np.float32) if scorer.code_weights is None else scorer.code_weights,
        _or_empty(segment.allowed, np.bool_),
        np.ascontiguousarray(runs.starts),  # kernels are compiled once for each kind of array
        np.ascontiguousarray(runs.ends),
        runs.bounds,
        rows,
        row_runs,
        scores,
    )
    filled = np.arange(most) < counts[:, None]
    return _Candidates(np.nonzero(filled)[0], rows[filled], row_runs[filled], scores[filled])


def _int8_operands(
    segment: SegmentView, scorer: Scorer, queries: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Items' embeddings in int8, the queries' in int16, and the value of one unit of their products."""
    if scorer.embeddings is None or segment.embeddings_int8 is None:
        nothing = frozen(np.empty((0, 0), np.int8))
        return nothing, np.empty((queries, 0), np.int16), np.ones(queries, np.float32)
    largest = np.abs(scorer.embeddings).max(axis=1)
    units = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    short = np.rint(scorer.embeddings / units[:, None]).astype(np.int16)
    return frozen(segment.embeddings_int8), short, units * np.float32(segment.scale)


def _or_empty(array: np.ndarray | None, dtype: type[np.generic]) -> np.ndarray:
    """An array as kernels take it: empty if it is absent."""
    return frozen(np.empty(0, dtype) if array is None else array)


def _float_best(segment: SegmentView, runs: _Runs, scorer: Scorer, most: int) -> _Candidates:
    """The same by float embeddings, where there are no others."""
    nothing = _Candidates(*(np.empty(0, dtype) for dtype in (np.int64, np.int64, np.int64, np.float32)))
    kept = [nothing]
    for group in range(len(runs.bounds) - 1):
        best = nothing
        for run in range(runs.bounds[group], runs.bounds[group + 1]):
            for start in range(runs.starts[run], runs.ends[run], BLOCK):
                rows = np.arange(start, min(start + BLOCK, runs.ends[run]))
                rows = rows if segment.allowed is None else rows[segment.allowed[rows]]
                scores = _float_scores(segment, rows, np.full(len(rows), runs.query_of_group[group]), scorer)
                block = _Candidates(np.full(len(rows), group), rows, np.full(len(rows), run), scores)
                best = _concatenate([best, block])
                best = best[_best(best, best.rows, most)]
        kept.append(best)
    return _concatenate(kept)


def _float_scores(segment: SegmentView, rows: np.ndarray, queries: np.ndarray, scorer: Scorer) -> np.ndarray:
    """The scores of rows for a query each by float embeddings, float32; batch-invariant."""
    assert segment.embeddings is not None and scorer.embeddings is not None
    scores = (segment.embeddings[rows].astype(np.float32) * scorer.embeddings[queries]).sum(axis=1)
    if scorer.tables is not None:
        for level, codes in enumerate(segment.packed.codes(rows).T):
            scores += scorer.tables[queries, level, codes]
    if scorer.code_weights is not None:
        assert segment.half_sq_norms is not None
        scores -= scorer.code_weights[queries] * segment.half_sq_norms[rows]
    return np.asarray(scores)


def _concatenate(blocks: Sequence[_Candidates]) -> _Candidates:
    return _Candidates(
        np.concatenate([block.groups for block in blocks]),
        np.concatenate([block.rows for block in blocks]),
        np.concatenate([block.runs for block in blocks]),
        np.concatenate([block.scores for block in blocks]),
    )


def _best(candidates: _Candidates, tie_keys: np.ndarray, most: int) -> np.ndarray:
    """The places of the `most` best of each group, by group and best first; of equal ones the lower key."""
    order = np.lexsort((tie_keys, -candidates.scores, candidates.groups))
    groups = candidates.groups[order]
    return np.asarray(order[np.arange(len(order)) - np.searchsorted(groups, groups) < most])


def _exact_scores(
    segments: Sequence[SegmentView], candidates: _Candidates, scorer: Scorer, query_of_group: np.ndarray
) -> np.ndarray:
    """The scores of rows of several segments by float embeddings, float32."""
    bounds = row_offsets(segments)
    scores = np.empty(len(candidates.rows), np.float32)
    for number, segment in enumerate(segments):
        inside = (candidates.rows >= bounds[number]) & (candidates.rows < bounds[number + 1])
        places = np.flatnonzero(inside)
        for start in range(0, len(places), BLOCK):
            block = places[start : start + BLOCK]
            queries = query_of_group[candidates.groups[block]]
            scores[block] = _float_scores(segment, candidates.rows[block] - bounds[number], queries, scorer)
    return scores


def _check(segments: Sequence[SegmentView], scorer: Scorer) -> None:
    if scorer.code_weights is not None and any(segment.half_sq_norms is None for segment in segments):
        raise InputError("to be scored by their codes, items need `half_sq_norms`")
    queries = scorer.embeddings
    if queries is None:
        return
    if queries.ndim != 2:
        raise InputError(f"queries must be embeddings [queries, width], not of the shape {queries.shape}")
    if not np.isfinite(queries).all():
        raise InputError("queries must be finite embeddings, and some hold NaN or infinity")
    for segment in segments:
        kept = [array for array in (segment.embeddings_int8, segment.embeddings) if array is not None]
        if not kept:
            raise InputError("some items have no embeddings: score them by their codes")
        if any(array.shape[1] != queries.shape[1] for array in kept):
            raise MismatchError(
                f"items have embeddings of width {kept[0].shape[1]}, and queries of {queries.shape[1]}: "
                f"they were made by different models"
            )
