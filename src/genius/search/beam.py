"""Beam search over the codes that exist in any of several segments, as deep as it has to go.

It may stop before the last level: when few enough items are left below a query's beams, all of them are
candidates, and nothing is lost that going on would have kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from genius.decode.decoder import Decoder, DecodingState
from genius.errors import InputError, MismatchError
from genius.search import cells, kernels
from genius.search.segment_view import Prefixes, SegmentView, expand

BEAMS = 50
"""The usual number of beams, in the paper too."""

FLOATS = 1 << 22
"""How many scores a decoder returns at a time: 16 MB. Queries are searched in blocks that keep to it."""

History = list[list[Prefixes]]
"""For each level the prefixes in the beams after it, in lists of disjoint queries."""


@dataclass(frozen=True, eq=False)
class BeamResult:
    """The prefixes that a search ended with, by query and best first; of equal ones the smaller codes.

    Attributes:
        bounds: query i has the prefixes from bounds[i] up to bounds[i + 1], int64 [queries + 1].
        log_probs: summed log-probabilities, float32 [prefixes].
        level_log_probs: what each level added, float32 [prefixes, levels]; NaN below the depth.
        starts, ends: the run of rows below each prefix in each segment, int64 [segments, prefixes].
        items: how many allowed rows that is in all segments, int64 [prefixes].
        depths: how many codes the prefixes of each query have, int64 [queries]; 0 where no code was searched.
    """

    bounds: np.ndarray
    log_probs: np.ndarray
    level_log_probs: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    items: np.ndarray
    depths: np.ndarray

    def __len__(self) -> int:
        """How many queries there are."""
        return len(self.depths)

    @cached_property
    def query_ids(self) -> np.ndarray:
        """The query of each prefix, int64 [prefixes]."""
        return np.repeat(np.arange(len(self)), np.diff(self.bounds))

    @cached_property
    def num_candidates(self) -> np.ndarray:
        """How many items are below each query's prefixes, int64 [queries]."""
        return np.bincount(self.query_ids, self.items, len(self)).astype(np.int64)

    def renumbered(self, query_ids: np.ndarray) -> Prefixes:
        """The prefixes, with other numbers [queries] for the queries."""
        return Prefixes(
            query_ids[self.query_ids], self.starts, self.ends, self.log_probs, self.level_log_probs
        )


def beam_search(
    decoder: Decoder,
    segments: Sequence[SegmentView],
    vectors: np.ndarray,
    beams: int,
    *,
    modality_code: np.ndarray | None = None,
    limit: int | None = None,
    history: History | None = None,
) -> BeamResult:
    """The best `beams` prefixes of each query, by beam search over the codes that exist in any of the
    segments.

    Args:
        decoder: scores the next code.
        segments: what is searched, as one pool.
        vectors: a vector for each query, [queries, width].
        beams: how many prefixes are kept after each level; of equal ones the smaller codes.
        modality_code: the first code that each query wants [queries], -1 for any. A given code adds nothing
            to the score.
        limit: without it, all levels are searched. With it, a query is finished as soon as at most so many
            items are below its beams, or so few different codes that no beam could be lost any more (with 0,
            only then); never before a semantic code was chosen.
        history: if given, the prefixes in the beams after each level are appended to it.

    Raises InputError or MismatchError for what can't be searched, as `check` does.
    """
    check(decoder, segments, vectors, beams, modality_code)
    return search_beams(
        decoder, segments, vectors, beams, modality_code=modality_code, limit=limit, history=history
    )


def search_beams(
    decoder: Decoder,
    segments: Sequence[SegmentView],
    vectors: np.ndarray,
    beams: int,
    *,
    modality_code: np.ndarray | None = None,
    limit: int | None = None,
    budget: bool = False,
    history: History | None = None,
) -> BeamResult:
    """The same, of what was checked already.

    With `budget`, a query with more items than the limit below its beams is finished, too: with as many of
    its best prefixes as have no more, unless the best alone has.
    """
    wanted = np.full(len(vectors), -1) if modality_code is None else np.asarray(modality_code, np.int64)
    block = max(1, FLOATS // (beams * max(decoder.sizes)))
    finished: list[Prefixes] = []
    depths = np.zeros(len(vectors), np.int64)
    if history is not None:
        history.extend([] for _ in decoder.sizes)
    for given in (True, False):
        chosen = np.flatnonzero((wanted >= 0) == given)
        for start in range(0, len(chosen), block):
            query_ids = chosen[start : start + block]
            search = _BlockSearch(
                decoder, segments, beams, limit, budget, query_ids, depths, finished, history
            )
            search.run(vectors[query_ids], wanted[query_ids] if given else None)
    return gather(segments, finished, depths)


def all_items(
    segments: Sequence[SegmentView], count: int, modality_code: np.ndarray | None = None
) -> BeamResult:
    """Everything that each of `count` queries may return, without a search: all items, or its modality's."""
    wanted = np.full(count, -1) if modality_code is None else np.asarray(modality_code, np.int64)
    roots = _roots(segments, wanted, np.arange(count))
    return gather(segments, [roots], np.where(wanted >= 0, 1, 0))


def gather(segments: Sequence[SegmentView], finished: Sequence[Prefixes], depths: np.ndarray) -> BeamResult:
    """The prefixes of finished queries, each query's together and best first."""
    blocks = finished if len(finished) == 1 else [_no_prefixes(segments), *finished]
    query_ids = _concatenate([block.query_ids for block in blocks])
    log_probs = _concatenate([block.log_probs for block in blocks])
    order = np.lexsort((-log_probs, query_ids))
    starts = _concatenate([block.starts for block in blocks], axis=1)[:, order]
    ends = _concatenate([block.ends for block in blocks], axis=1)[:, order]
    return BeamResult(
        np.searchsorted(query_ids[order], np.arange(len(depths) + 1)),
        log_probs[order],
        _concatenate([block.level_log_probs for block in blocks])[order],
        starts,
        ends,
        _count_items(segments, starts, ends),
        depths,
    )


def _no_prefixes(segments: Sequence[SegmentView]) -> Prefixes:
    levels, no_rows = len(segments[0].packed.sizes), np.empty((len(segments), 0), np.int64)
    nothing = np.empty(0, np.float32)
    return Prefixes(np.empty(0, np.int64), no_rows, no_rows, nothing, np.empty((0, levels), np.float32))


def _concatenate(arrays: Sequence[np.ndarray], axis: int = 0) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=axis)


def prefix_survival(history: History, rows: Sequence[np.ndarray], segment: int = 0) -> np.ndarray:
    """The share of queries with a prefix of a relevant item in the beams, after each level: float64 [levels].

    Args:
        history: what `beam_search` recorded, without a limit.
        rows: for each query the sorted rows of its relevant items in one segment; a query without any counts
            as lost.
        segment: the number of that segment.
    """
    if not rows:
        raise InputError("survival needs at least one query")
    query_ids = np.repeat(np.arange(len(rows)), [len(relevant) for relevant in rows])
    flat = np.concatenate([np.asarray(relevant, np.int64) for relevant in rows])
    survival = np.zeros(len(history))
    for level, blocks in enumerate(history):
        kept = np.zeros(len(rows), bool)
        for block in blocks:
            prefixes = block[block.starts[segment] < block.ends[segment]]
            if not len(prefixes):
                continue
            starts, ends = prefixes.starts[segment], prefixes.ends[segment]
            # A query's runs are disjoint; so the run that may hold a row is the last one that starts at or
            # before it.
            order = np.lexsort((starts, prefixes.query_ids))
            size = int(max(flat.max(initial=0), ends.max(initial=0))) + 1
            keys = prefixes.query_ids[order] * size + starts[order]
            place = np.searchsorted(keys, query_ids * size + flat, side="right") - 1
            run = order[np.maximum(place, 0)]
            inside = (place >= 0) & (prefixes.query_ids[run] == query_ids) & (flat < ends[run])
            kept[query_ids[inside]] = True
        survival[level] = kept.mean()
    return survival


def check(
    decoder: Decoder,
    segments: Sequence[SegmentView],
    vectors: np.ndarray,
    beams: int,
    modality_code: np.ndarray | None,
) -> None:
    """Refuse what can't be searched."""
    if not segments:
        raise InputError("a search needs at least one segment to search in")
    if beams < 1:
        raise InputError(f"a search needs at least one beam, not {beams}")
    if vectors.ndim != 2:
        raise InputError(f"queries must be vectors [queries, width], not of the shape {vectors.shape}")
    if not np.isfinite(vectors).all():
        raise InputError("queries must be finite vectors, and some hold NaN or infinity")
    if any(segment.packed.layout != segments[0].packed.layout for segment in segments):
        raise MismatchError("the segments of one search need codes of the same levels, and these differ")
    if tuple(decoder.sizes) != segments[0].packed.sizes:
        raise MismatchError(
            f"the decoder knows levels of {list(decoder.sizes)} codes, and the items' codes have "
            f"{list(segments[0].packed.sizes)}: they were made by different models"
        )
    if modality_code is not None and (
        modality_code.shape != (len(vectors),) or modality_code.min(initial=0) < -1
    ):
        raise InputError("`modality_code` must hold for each query a first code, or -1 for any")


@dataclass
class _BlockSearch:
    """The search of one block of queries; finished prefixes go into `finished`, their depths into `depths`.

    Within it, queries are numbered from 0; `query_ids` are their numbers outside.
    """

    decoder: Decoder
    segments: Sequence[SegmentView]
    beams: int
    limit: int | None
    budget: bool
    query_ids: np.ndarray
    depths: np.ndarray
    finished: list[Prefixes]
    history: History | None

    def run(self, vectors: np.ndarray, modality_code: np.ndarray | None) -> None:
        """Search from the root, or from behind the modality codes where all are given."""
        wanted = np.full(len(vectors), -1) if modality_code is None else modality_code
        prefixes = _roots(self.segments, wanted, np.arange(len(vectors)))
        level = 0 if modality_code is None else 1
        if level:
            prefixes = self._finish(prefixes, level)[0]
        if not len(prefixes):
            return
        vectors = vectors[prefixes.query_ids]
        # Without a modality code to begin with, a decoder need not know that one could be given.
        decoding: DecodingState = (
            self.decoder.begin(vectors)
            if modality_code is None
            else self.decoder.begin(vectors, modality_code[prefixes.query_ids])
        )
        semantic = self.segments[0].packed.layout.semantic
        to_cells = (
            self.history is None and level <= semantic and cells.searchable_at_once(self.segments, self.beams)
        )
        for depth in range(1 + (semantic if to_cells else level), len(self.decoder.sizes) + 1):
            if to_cells and depth == semantic + 1:
                prefixes, parents, codes = cells.best_cells(
                    self.segments, decoding, prefixes, modality_code, len(wanted), self.beams
                )
            else:
                prefixes, parents, codes = expand(
                    self.segments, depth - 1, prefixes, decoding.scores(), len(wanted), self.beams
                )
            prefixes, going_on = self._finish(prefixes, depth)
            if not len(prefixes):
                return
            decoding.advance(parents[going_on], codes[going_on])

    def _finish(self, prefixes: Prefixes, depth: int) -> tuple[Prefixes, np.ndarray]:
        """Put the queries away that are finished; returns the other prefixes and their places."""
        if self.history is not None:
            self.history[depth - 1].append(self._renumbered(prefixes))
        done, ending = np.zeros(len(self.query_ids), bool), np.zeros(len(prefixes), bool)
        if depth == len(self.decoder.sizes):
            done[:] = ending[:] = True
        elif self.limit is not None and depth > self.segments[0].packed.layout.semantic:
            done = self._has_few(prefixes, self.limit)
            ending = done[prefixes.query_ids]
            if self.budget and not ending.all():
                ending |= self._within_limit(prefixes, self.limit)
                done[prefixes.query_ids[ending]] = True
        going_on = np.flatnonzero(~done[prefixes.query_ids])
        if ending.any():
            ended = self._renumbered(prefixes if ending.all() else prefixes[ending])
            self.depths[ended.query_ids] = depth
            self.finished.append(ended)
        return prefixes[going_on], going_on

    def _renumbered(self, prefixes: Prefixes) -> Prefixes:
        return Prefixes(
            self.query_ids[prefixes.query_ids],
            prefixes.starts,
            prefixes.ends,
            prefixes.log_probs,
            prefixes.level_log_probs,
        )

    def _has_few(self, prefixes: Prefixes, limit: int) -> np.ndarray:
        """Which queries have few enough items below them, or no more codes than beams: bool [queries]."""
        items = _count_items(self.segments, prefixes.starts, prefixes.ends)
        few = np.bincount(prefixes.query_ids, items, len(self.query_ids)) <= max(limit, self.beams)
        rest = ~few[prefixes.query_ids]
        if rest.any():
            few |= self._count_codes(prefixes[rest]) <= self.beams
        return np.asarray(few)

    def _within_limit(self, prefixes: Prefixes, limit: int) -> np.ndarray:
        """Which prefixes are among the best of their query that have at most `limit` items together: bool
        [prefixes]."""
        items = _count_items(self.segments, prefixes.starts, prefixes.ends)
        order = np.lexsort((-prefixes.log_probs, prefixes.query_ids))
        sums, query_ids = np.append(0, items[order].cumsum()), prefixes.query_ids[order]
        within = np.empty(len(items), bool)
        within[order] = sums[1:] - sums[np.searchsorted(query_ids, query_ids)] <= limit
        return within

    def _count_codes(self, prefixes: Prefixes) -> np.ndarray:
        """How many different codes are below each query's prefixes; counted up to one more than the beams."""
        count, most = len(self.query_ids), self.beams + 1
        bounds = np.searchsorted(prefixes.query_ids, np.arange(count + 1))
        seen, largest = [], np.zeros(count, np.int64)
        for number, segment in enumerate(self.segments):
            heads, run_ids = np.empty((count, most), np.int64), np.empty((count, most), np.int64)
            counts = kernels.buckets(
                *segment.words,
                segment.allowed_before,
                prefixes.starts[number],
                prefixes.ends[number],
                bounds,
                heads,
                run_ids,
            )
            filled = np.arange(most) < counts[:, None]
            codes = segment.packed.codes(heads[filled])
            seen.append(np.column_stack([run_ids[filled], codes]))
            largest = np.maximum(largest, counts)
        if len(self.segments) == 1:
            return np.where(np.diff(bounds) > 0, largest, most)
        different = np.unique(np.concatenate(seen), axis=0)
        counts = np.bincount(prefixes.query_ids[different[:, 0]], minlength=count)
        return np.where(np.diff(bounds) > 0, np.maximum(counts, largest), most)


def _roots(segments: Sequence[SegmentView], wanted: np.ndarray, query_ids: np.ndarray) -> Prefixes:
    """One prefix for each query: the empty one, or its modality code; none where nothing is allowed."""
    levels = len(segments[0].packed.sizes)
    runs = np.zeros((2, len(segments), len(query_ids)), np.int64)
    for number, segment in enumerate(segments):
        for code in set(wanted.tolist()):
            run = segment.first_level_rows(code) if code >= 0 else segment.all_rows()
            runs[:, number, wanted == code] = np.array(run)[:, None]
    level_log_probs = np.full((len(query_ids), levels), np.nan, np.float32)
    level_log_probs[wanted >= 0, 0] = 0
    roots = Prefixes(query_ids, runs[0], runs[1], np.zeros(len(query_ids), np.float32), level_log_probs)
    return roots[(runs[1] > runs[0]).any(axis=0)]


def _count_items(segments: Sequence[SegmentView], starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """How many items are in runs of all segments [segments, runs], int64 [runs]."""
    items = segments[0].count_allowed(starts[0], ends[0])
    for segment, segment_starts, segment_ends in zip(segments[1:], starts[1:], ends[1:], strict=True):
        items = items + segment.count_allowed(segment_starts, segment_ends)
    return items
