"""The loop that scores the items of runs and keeps the best: by bytes, by tables of their codes, or both."""

from __future__ import annotations

from typing import Any

import numpy as np

from genius.compiling import compiled
from genius.search.kernels import code_in, put


@compiled
def _better(score: Any, row: int, heap: np.ndarray, scores: np.ndarray, rows: np.ndarray) -> bool:
    """Whether a row is better than the worst of a full heap; of equal ones the lower row is."""
    worst = heap[0]
    return bool(score > scores[worst] or (score == scores[worst] and row < rows[worst]))


@compiled
def best_of_runs(
    vectors: np.ndarray,
    queries: np.ndarray,
    units: np.ndarray,
    whose: np.ndarray,
    hi: np.ndarray,
    lo: np.ndarray,
    firsts: np.ndarray,
    lefts: np.ndarray,
    rights: np.ndarray,
    masks: np.ndarray,
    behind: np.ndarray,
    tables: np.ndarray,
    halves: np.ndarray,
    share: Any,
    allowed: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    bounds: np.ndarray,
    rows: np.ndarray,
    runs: np.ndarray,
    scores: np.ndarray,
) -> np.ndarray:
    """Of each group of runs the rows with the highest scores for its query, in no order.

    Args:
        vectors: int8 [n, width]; without it, only codes are looked at.
        queries: int16 [queries, width].
        units: what a unit of their inner products stands for, float32 [queries].
        whose: the query of each group, int64 [groups].
        hi, lo, firsts: the packed codes.
        lefts, rights, masks: where each level's codes are, as `Part.bits` says.
        behind: which levels end in `lo`.
        tables: what each code adds, float32 [queries, levels, codes]; without levels, codes add nothing.
        halves: what is taken off each row, float32 [n], `share` times; without it nothing.
        share: float32.
        allowed: which rows may be found, bool [n]; without it all.
        starts, ends: the runs.
        bounds: which runs are in which group.
        rows, runs, scores (float32): to be filled [groups, most], with the run that each row is from.

    Returns how many there are of each group.
    """
    count_of = np.zeros(len(bounds) - 1, np.int64)
    heap = np.empty(rows.shape[1], np.int64)
    stored = 1 if len(firsts) else 0
    for group in range(len(bounds) - 1):
        # Slices are taken out of the loops: each costs as much as a dot product.
        vector, table, unit, count = queries[whose[group]], tables[whose[group]], units[whose[group]], 0
        some_rows, some_runs, some_scores = rows[group], runs[group], scores[group]
        for run in range(bounds[group], bounds[group + 1]):
            modality = 0
            for row in range(starts[run], ends[run]):
                if len(allowed) and not allowed[row]:
                    continue
                total = np.float32(0)
                if len(vectors):
                    dot = np.int32(0)
                    for place in range(len(vector)):
                        # Cut to 32 bits at once, or it is summed in 64 and takes four times as long.
                        dot = np.int32(dot + np.int32(vectors[row, place]) * np.int32(vector[place]))
                    total = np.float32(dot * unit)
                if len(table):
                    if stored:
                        while row >= firsts[modality + 1]:
                            modality += 1
                        total = np.float32(total + table[0, modality])
                    first = hi[row]
                    second = np.uint64(lo[row]) if len(lo) else np.uint64(0)
                    for level in range(stored, len(table)):
                        low = second if behind[level] else first
                        code = code_in(first, low, lefts[level], rights[level], masks[level])
                        total = np.float32(total + table[level, code])
                if len(halves):
                    total = np.float32(total - share * halves[row])
                if count < len(heap) or _better(total, row, heap, some_scores, some_rows):
                    some_runs[put(heap, count, some_scores, some_rows, total, row)] = run
                    count = min(count + 1, len(heap))
        count_of[group] = count
    return count_of
