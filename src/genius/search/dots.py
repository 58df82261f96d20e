"""The loops that score the items of runs and keep the best: by bytes, or by tables of their codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from genius.search.kernels import code_in, compiled, put


@compiled
def _better(score: Any, row: int, heap: np.ndarray, scores: np.ndarray, rows: np.ndarray) -> bool:
    """Whether a row is better than the worst of a full heap; of equal ones the lower row is."""
    worst = heap[0]
    return bool(score > scores[worst] or (score == scores[worst] and row < rows[worst]))


@compiled
def best_by_bytes(
    vectors: np.ndarray,
    allowed: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    bounds: np.ndarray,
    queries: np.ndarray,
    rows: np.ndarray,
    runs: np.ndarray,
    scores: np.ndarray,
) -> np.ndarray:
    """Of each query's runs the rows with the largest inner products, in no order.

    Args:
        vectors: int8 [n, width].
        allowed: which rows may be found, bool [n]; without it all.
        starts, ends: the runs.
        bounds: which runs are whose.
        queries: int16 [queries, width].
        rows, runs, scores (int32): to be filled [queries, most], with the run that each row is from.

    Returns how many there are of each query.
    """
    found = np.zeros(len(queries), np.int64)
    heap = np.empty(rows.shape[1], np.int64)
    for query in range(len(queries)):
        # Slices are taken out of the loops: each costs as much as a dot product.
        vector, count = queries[query], 0
        some_rows, some_runs, some_scores = rows[query], runs[query], scores[query]
        for run in range(bounds[query], bounds[query + 1]):
            for row in range(starts[run], ends[run]):
                if len(allowed) and not allowed[row]:
                    continue
                total = np.int32(0)
                for place in range(len(vector)):
                    # Cut to 32 bits at once, or it is summed in 64 and takes four times as long.
                    total = np.int32(total + np.int32(vectors[row, place]) * np.int32(vector[place]))
                if count < len(heap) or _better(total, row, heap, some_scores, some_rows):
                    some_runs[put(heap, count, some_scores, some_rows, total, row)] = run
                    count = min(count + 1, len(heap))
        found[query] = count
    return found


@compiled
def best_by_codes(
    hi: np.ndarray,
    lo: np.ndarray,
    lefts: np.ndarray,
    rights: np.ndarray,
    masks: np.ndarray,
    behind: np.ndarray,
    firsts: np.ndarray,
    allowed: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    bounds: np.ndarray,
    tables: np.ndarray,
    rows: np.ndarray,
    runs: np.ndarray,
    scores: np.ndarray,
) -> np.ndarray:
    """The same, where a row's score is the sum of its codes' entries in `tables` [queries, levels, codes].

    `lefts`, `rights` and `masks` say where each level's codes are, as `Part.bits` does, and `behind` which of
    them end in `lo`; with `firsts`, the first level is told by the row's place. `scores` are float32.
    """
    found = np.zeros(len(tables), np.int64)
    heap = np.empty(rows.shape[1], np.int64)
    for query in range(len(tables)):
        table, count = tables[query], 0
        some_rows, some_runs, some_scores = rows[query], runs[query], scores[query]
        for run in range(bounds[query], bounds[query + 1]):
            modality = 0
            for row in range(starts[run], ends[run]):
                if len(allowed) and not allowed[row]:
                    continue
                total = np.float32(0)
                if len(firsts):
                    while row >= firsts[modality + 1]:
                        modality += 1
                    total = table[0, modality]
                first = hi[row]
                second = np.uint64(lo[row]) if len(lo) else np.uint64(0)
                for level in range(1 if len(firsts) else 0, len(masks)):
                    code = code_in(
                        first, second if behind[level] else first, lefts[level], rights[level], masks[level]
                    )
                    total = np.float32(total + table[level, code])
                if count < len(heap) or _better(total, row, heap, some_scores, some_rows):
                    some_runs[put(heap, count, some_scores, some_rows, total, row)] = run
                    count = min(count + 1, len(heap))
        found[query] = count
    return found
