"""Of very many candidates those that are worth comparing by embeddings: a look at their codes decides.

Below the beams of a query there may be tens of thousands of items, and embeddings are large: to read them
takes most of the time of such a search. Their codes are small and stand side by side. A candidate's cell and
its next two codes tell most of its score, so only those with the best sums of their products are compared
further.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genius.decode.products import rounded_book
from genius.jit import compiled, compiled_fastmath, frozen
from genius.search.kernels import code_in
from genius.search.segment_view import SegmentView

MIN_CANDIDATES = 12_288
"""Of fewer candidates, all are compared by embeddings."""

SELECTED = 4_096
"""About so many are selected."""

LEVELS = 2
"""So many codes behind a candidate's cell are looked at."""

SAMPLES = 1_024
"""The score that a candidate has to reach is told by so many of them, evenly spaced."""

FEWEST_SAMPLES = 8
"""At least so many of the sample reach it."""


@dataclass(frozen=True, eq=False)
class Preselection:
    """What candidates of queries are selected by.

    Attributes:
        vectors: of the queries, [queries, width].
        codebooks: the vectors of each level, [codes, width].
        narrowed: for which queries candidates are selected, bool [queries]: all of a run must share their
            codes up to the first semantic one.
        code_weights: how many times half the squared norms of candidates' quantized vectors are subtracted,
            float32 [queries].
    """

    vectors: np.ndarray
    codebooks: Sequence[np.ndarray]
    narrowed: np.ndarray
    code_weights: np.ndarray

    def runs(
        self,
        segment: SegmentView,
        bounds: np.ndarray,
        starts: np.ndarray,
        ends: np.ndarray,
        query_of_group: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
        """The runs of the rows that are selected, their bounds, and of which run they are part.

        Arguments are as in `rerank.rank`, of one segment. None where nothing is selected, since there are
        few candidates or no further codes.
        """
        levels = range(len(self.codebooks))[segment.packed.layout.semantic + 1 :][:LEVELS]
        if not levels:
            return None
        items = np.diff(np.append(0, segment.count_allowed(starts, ends).cumsum())[bounds])
        groups = np.flatnonzero((items > MIN_CANDIDATES) & self.narrowed[query_of_group])
        if not len(groups):
            return None
        scored = np.zeros(len(self.vectors), bool)
        scored[query_of_group[groups]] = True
        queries = np.flatnonzero(scored)
        size = max(len(self.codebooks[level]) for level in levels)
        tables = np.zeros((2, len(self.vectors), size), np.float32)
        for number, level in enumerate(levels):
            book = self.codebooks[level]
            tables[number, queries, : len(book)] = rounded_book(book).products(self.vectors[queries])
        run_scores = np.zeros(len(starts), np.float32)
        runs = np.flatnonzero(starts < ends)
        queries = np.repeat(query_of_group, np.diff(bounds))[runs]
        codes = segment.packed.codes(starts[runs])
        for level in range(levels[0]):
            _add_products(self.codebooks[level], codes[:, level], self.vectors, queries, runs, run_scores)
        shape = len(groups), 4 * SELECTED
        new_starts, new_ends, origins = (np.empty(shape, np.int64) for _ in range(3))
        counts = _select(
            segment.level_bits(levels[0]),
            segment.level_bits(levels[-1]),
            run_scores,
            frozen(tables),
            frozen(
                np.empty(0, np.float32)
                if segment.half_sq_norms is None or not self.code_weights.any()
                else segment.half_sq_norms
            ),
            self.code_weights,
            frozen(np.empty(0, np.bool_) if segment.allowed is None else segment.allowed),
            np.ascontiguousarray(starts),
            np.ascontiguousarray(ends),
            bounds,
            query_of_group,
            groups,
            items[groups],
            SELECTED,
            new_starts,
            new_ends,
            origins,
        )
        return _replaced(bounds, starts, ends, groups, counts, new_starts, new_ends, origins)


def _replaced(
    bounds: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    groups: np.ndarray,
    counts: np.ndarray,
    new_starts: np.ndarray,
    new_ends: np.ndarray,
    origins: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Runs, where those of some groups are replaced by others; a group that has none keeps its own."""
    pieces: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    place_of = {int(group): place for place, group in enumerate(groups) if counts[place]}
    for group in range(len(bounds) - 1):
        own = slice(bounds[group], bounds[group + 1])
        if (place := place_of.get(group)) is None:
            pieces.append((starts[own], ends[own], np.arange(bounds[group], bounds[group + 1])))
        else:
            new = slice(0, counts[place])
            pieces.append((new_starts[place, new], new_ends[place, new], origins[place, new]))
    own_starts, own_ends, own_origins = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    new_bounds = np.concatenate([[0], np.cumsum([len(piece[0]) for piece in pieces])])
    return (
        new_bounds,
        own_starts,
        own_ends,
        own_origins,
    )


@compiled_fastmath
def _add_products(
    book: np.ndarray,
    codes: np.ndarray,
    vectors: np.ndarray,
    queries: np.ndarray,
    runs: np.ndarray,
    run_scores: np.ndarray,
) -> None:
    """Add to the scores of runs the products of a code's vector with the query's."""
    for number in range(len(runs)):
        code_vector, vector, total = book[codes[number]], vectors[queries[number]], np.float32(0)
        for place in range(len(vector)):
            total += code_vector[place] * vector[place]
        run_scores[runs[number]] += total


@compiled
def _score(
    row: int,
    run_score: Any,
    bits: Any,
    next_bits: Any,
    table: np.ndarray,
    next_table: np.ndarray,
    half_sq_norms: np.ndarray,
    weight: Any,
) -> Any:
    """What a row is selected by."""
    code = code_in(bits[0][row], bits[1][row], bits[2], bits[3], bits[4])
    next_code = code_in(next_bits[0][row], next_bits[1][row], next_bits[2], next_bits[3], next_bits[4])
    score = np.float32(run_score + table[code] + next_table[next_code])
    if len(half_sq_norms):
        score = np.float32(score - weight * half_sq_norms[row])
    return score


@compiled
def _least_score(
    share: float,
    bits: Any,
    next_bits: Any,
    table: np.ndarray,
    next_table: np.ndarray,
    half_sq_norms: np.ndarray,
    weight: Any,
    allowed: np.ndarray,
    run_scores: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
) -> Any:
    """The score that about a share of the rows reach, by an evenly spaced sample; infinity if that is too
    small."""
    sample, seen = np.empty(2 * SAMPLES, np.float32), 0
    step = max(1, (ends - starts).sum() // SAMPLES)
    skipped = step // 2
    for run in range(len(starts)):
        row = starts[run] + skipped
        while row < ends[run] and seen < len(sample):
            if not len(allowed) or allowed[row]:
                sample[seen] = _score(
                    row, run_scores[run], bits, next_bits, table, next_table, half_sq_norms, weight
                )
                seen += 1
            row += step
        skipped = row - ends[run]
    if seen < FEWEST_SAMPLES:
        return np.float32(np.inf)
    reaching = min(seen, max(FEWEST_SAMPLES, int(seen * share)))
    return np.sort(sample[:seen])[seen - reaching]


@compiled
def _select(
    bits: Any,
    next_bits: Any,
    run_scores: np.ndarray,
    tables: np.ndarray,
    half_sq_norms: np.ndarray,
    code_weights: np.ndarray,
    allowed: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    bounds: np.ndarray,
    query_of_group: np.ndarray,
    groups: np.ndarray,
    items: np.ndarray,
    selected: int,
    new_starts: np.ndarray,
    new_ends: np.ndarray,
    origins: np.ndarray,
) -> np.ndarray:
    """Write the runs of the rows with the best scores in each of `groups`, about `selected` of its `items`.

    Returns how many runs each has; 0 if there were more than fit.
    """
    counts = np.zeros(len(groups), np.int64)
    for number in range(len(groups)):
        query = query_of_group[groups[number]]
        table, next_table, weight = tables[0, query], tables[1, query], code_weights[query]
        first, behind, count = bounds[groups[number]], bounds[groups[number] + 1], 0
        own_starts, own_ends, own_origins = new_starts[number], new_ends[number], origins[number]
        least = _least_score(
            selected / items[number],
            bits,
            next_bits,
            table,
            next_table,
            half_sq_norms,
            weight,
            allowed,
            run_scores[first:behind],
            starts[first:behind],
            ends[first:behind],
        )
        for run in range(first, behind):
            last = -1
            for row in range(starts[run], ends[run]):
                score = _score(
                    row, run_scores[run], bits, next_bits, table, next_table, half_sq_norms, weight
                )
                if score < least or (len(allowed) and not allowed[row]):
                    continue
                if row != last:
                    count += 1
                if count <= len(own_starts):
                    own_ends[count - 1] = row + 1
                    if row != last:
                        own_starts[count - 1], own_origins[count - 1] = row, run
                last = row + 1
        counts[number] = count if count <= len(own_starts) else 0
    return counts
