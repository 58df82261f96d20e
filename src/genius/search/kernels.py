"""The compiled loops of the search, which numpy cannot express: children of prefixes, buckets, scores over
runs.

All of them take many queries at once: the entries of query i are those from `bounds[i]` up to `bounds[i +
1]`. Absent arrays are empty, but for the words `lo_2` and `lo_3` of codes of more than 128 bits, which are
None: what is done with them is then not even compiled, and costs others nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from genius.jit import compiled, prefetch

AHEAD = 8
"""Embeddings are fetched so many rows before they are read."""

CACHE_LINE = 64
"""Bytes that a processor fetches at a time."""


@compiled
def code_in(high: Any, low: Any, left: Any, right: Any, mask: Any) -> Any:
    """The code of one level, which begins in one word and ends in another; `SegmentView.level_bits` says
    where.

    There is no branch for levels that are in one word only: with one, the loops took ten times as long.
    """
    return np.int64(((high << left) | (np.uint64(low) >> right)) & mask)


@compiled
def put(heap: np.ndarray, count: int, scores: np.ndarray, orders: np.ndarray, score: Any, order: int) -> Any:
    """Push onto a heap of `count` slots, replacing its worst entry if it is full; returns the slot used.

    Scores and orders are kept by slot. The worst entry is at the root: the lowest score, and of equal scores
    the highest order.
    """
    full = count == len(heap)
    slot: Any = heap[0] if full else count
    scores[slot], orders[slot] = score, order
    if full:
        _sink(heap, scores, orders)
    else:
        heap[count] = slot
        _rise(heap, count, scores, orders)
    return slot


@compiled
def _sink(heap: np.ndarray, scores: np.ndarray, orders: np.ndarray) -> None:
    """Sift the root of a full heap down to its place."""
    place, slot = 0, heap[0]
    while 2 * place + 1 < len(heap):
        child = 2 * place + 1
        if child + 1 < len(heap) and _worse(heap[child + 1], heap[child], scores, orders):
            child += 1
        if not _worse(heap[child], slot, scores, orders):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = slot


@compiled
def _rise(heap: np.ndarray, place: int, scores: np.ndarray, orders: np.ndarray) -> None:
    """Sift the slot at a place of the heap up to where it belongs."""
    slot = heap[place]
    while place > 0 and _worse(slot, heap[(place - 1) // 2], scores, orders):
        heap[place] = heap[(place - 1) // 2]
        place = (place - 1) // 2
    heap[place] = slot


@compiled
def _worse(slot: int, other: int, scores: np.ndarray, orders: np.ndarray) -> bool:
    if scores[slot] != scores[other]:
        return bool(scores[slot] < scores[other])
    return bool(orders[slot] > orders[other])


@compiled
def _end_of_run(
    high: np.ndarray, low: np.ndarray, left: Any, right: Any, mask: Any, start: int, end: int, code: Any
) -> int:
    """The first row behind `start` with another code at a level: by steps that double, then by bisection."""
    step, last = 1, start
    while last + step < end and code_in(high[last + step], low[last + step], left, right, mask) == code:
        last += step
        step *= 2
    behind = min(last + step, end)  # row `last` has the code; row `behind` has not, or is the end
    while behind - last > 1:
        middle = (last + behind) // 2
        if code_in(high[middle], low[middle], left, right, mask) == code:
            last = middle
        else:
            behind = middle
    return behind


@compiled
def narrow_runs(
    high: np.ndarray,
    low: np.ndarray,
    left: Any,
    right: Any,
    mask: Any,
    starts: np.ndarray,
    ends: np.ndarray,
    codes: np.ndarray,
) -> None:
    """Narrow runs down to the rows with one code each at a level, where each run is sorted by that level."""
    for run in range(len(starts)):
        first, end = starts[run], ends[run]
        while first < end:
            middle = (first + end) // 2
            if code_in(high[middle], low[middle], left, right, mask) < codes[run]:
                first = middle + 1
            else:
                end = middle
        behind, end = first, ends[run]
        while behind < end:
            middle = (behind + end) // 2
            if code_in(high[middle], low[middle], left, right, mask) <= codes[run]:
                behind = middle + 1
            else:
                end = middle
        starts[run], ends[run] = first, behind


@compiled
def children(
    high: np.ndarray,
    low: np.ndarray,
    left: Any,
    right: Any,
    mask: Any,
    table: np.ndarray,
    allowed_before: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    bases: np.ndarray,
    prefix_log_probs: np.ndarray,
    code_log_probs: np.ndarray,
    bounds: np.ndarray,
    beams: int,
    parents: np.ndarray,
    codes: np.ndarray,
    runs: np.ndarray,
    scores: np.ndarray,
) -> np.ndarray:
    """The best children of each query's prefixes in one segment, in the order of prefixes and codes.

    Args:
        high, low, left, right, mask: where the level's codes are, by `SegmentView.level_bits`.
        table: the first rows of all children, where they are stored.
        allowed_before: how many rows before each are allowed [n + 1]; empty if all are.
        starts, ends: the run of each prefix; a query's prefixes stand in the order of their codes.
        bases: the place of each prefix's first child in `table`.
        prefix_log_probs: the summed log-probability of each prefix.
        code_log_probs: the log-probabilities of the codes that may follow, [prefixes, codes].
        bounds: which prefixes belong to which query.
        beams: how many children are kept.
        parents, codes, runs (start and end), scores: outputs [queries, beams].

    Returns how many children each query has. Of equal ones the smaller codes are kept; -inf never is.
    """
    num_children = np.zeros(len(bounds) - 1, np.int64)
    heap, orders = np.empty(beams, np.int64), np.empty(beams, np.int64)
    size = code_log_probs.shape[1]
    for query in range(len(bounds) - 1):
        count, order, worst = 0, 0, np.float32(-np.inf)
        kept = scores[query]
        for row in range(bounds[query], bounds[query + 1]):
            start, end = starts[row], ends[row]
            code: Any = np.int64(-1)
            total = prefix_log_probs[row]
            while start < end:
                if len(table):
                    code += 1
                    if code == size:
                        break
                    score = np.float32(total + code_log_probs[row, code])
                    if not score > worst:
                        continue
                    child_start: Any = np.int64(table[bases[row] + code])
                    child_end: Any = np.int64(table[bases[row] + code + 1])
                    if child_start == child_end:
                        continue
                else:
                    code = code_in(high[start], low[start], left, right, mask)
                    child_start, child_end = (
                        start,
                        _end_of_run(high, low, left, right, mask, start, end, code),
                    )
                    start = child_end
                    score = np.float32(total + code_log_probs[row, code])
                    if not score > worst:
                        continue
                if len(allowed_before) and allowed_before[child_start] == allowed_before[child_end]:
                    continue
                slot = put(heap, count, kept, orders, score, order)
                parents[query, slot], codes[query, slot] = row, code
                runs[query, slot, 0], runs[query, slot, 1] = child_start, child_end
                order += 1
                count = min(count + 1, beams)
                if count == beams:
                    worst = kept[heap[0]]
        num_children[query] = count
        sequence = np.argsort(orders[:count])
        parents[query, :count] = parents[query, :count][sequence]
        codes[query, :count] = codes[query, :count][sequence]
        runs[query, :count] = runs[query, :count][sequence]
        kept[:count] = kept[:count][sequence]
    return num_children


@compiled
def buckets(
    hi: np.ndarray,
    lo: np.ndarray,
    lo_2: Any,
    lo_3: Any,
    allowed_before: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    bounds: np.ndarray,
    heads: np.ndarray,
    run_ids: np.ndarray,
) -> np.ndarray:
    """The first row of each different code in each query's runs, as many as `heads` [queries, most] holds.

    `run_ids` [queries, most] is filled with the run of each. Returns the number of codes of each query;
    counting ends at `most`. Codes without an allowed row do not count. All rows of a run share the modality
    code, which is not stored.
    """
    most = heads.shape[1]
    num_buckets = np.zeros(len(bounds) - 1, np.int64)
    for query in range(len(bounds) - 1):
        count = 0
        for run in range(bounds[query], bounds[query + 1]):
            start, end = starts[run], ends[run]
            while start < end and count < most:
                step, low = 1, start
                while low + step < end and _same(hi, lo, lo_2, lo_3, start, low + step):
                    low += step
                    step *= 2
                high = min(low + step, end)
                while high - low > 1:
                    middle = (low + high) // 2
                    if _same(hi, lo, lo_2, lo_3, start, middle):
                        low = middle
                    else:
                        high = middle
                if not len(allowed_before) or allowed_before[high] > allowed_before[start]:
                    heads[query, count], run_ids[query, count] = start, run
                    count += 1
                start = high
        num_buckets[query] = count
    return num_buckets


@compiled
def _same(hi: np.ndarray, lo: np.ndarray, lo_2: Any, lo_3: Any, row: int, other: int) -> bool:
    same = bool(hi[row] == hi[other] and (len(lo) == 0 or lo[row] == lo[other]))
    if lo_2 is not None:
        same = bool(same and lo_2[row] == lo_2[other])
    if lo_3 is not None:
        same = bool(same and lo_3[row] == lo_3[other])
    return same


@compiled
def _better(score: Any, row: int, heap: np.ndarray, scores: np.ndarray, rows: np.ndarray) -> bool:
    """Whether a row is better than the worst of a full heap; of equal ones the lower row is."""
    worst = heap[0]
    return bool(score > scores[worst] or (score == scores[worst] and row < rows[worst]))


@compiled
def _with_late_levels(
    total: Any,
    second: Any,
    lo_2: Any,
    lo_3: Any,
    row: int,
    table: np.ndarray,
    early: int,
    lefts: np.ndarray,
    rights: np.ndarray,
    masks: np.ndarray,
    words: np.ndarray,
) -> Any:
    """A row's score with what the codes behind the first 128 bits add, of the levels from `early` on."""
    if lo_2 is not None:
        third, fourth = np.uint64(lo_2[row]), np.uint64(0)
        if lo_3 is not None:
            fourth = np.uint64(lo_3[row])
        for level in range(early, len(table)):
            high, low = (second, third) if words[level] == 2 else (third, fourth)
            code = code_in(high, low, lefts[level], rights[level], masks[level])
            total = np.float32(total + table[level, code])
    return total


@compiled
def _fetch(vectors: np.ndarray, row: int, end: int) -> None:
    """Let the processor fetch an embedding that is going to be read, if it is before the end of a run."""
    if len(vectors) and row < end:
        for byte in range(0, vectors.shape[1], CACHE_LINE):
            prefetch(vectors, row, byte)


@compiled
def best_of_runs(
    vectors: np.ndarray,
    queries: np.ndarray,
    units: np.ndarray,
    query_of_group: np.ndarray,
    hi: np.ndarray,
    lo: np.ndarray,
    lo_2: Any,
    lo_3: Any,
    modality_starts: np.ndarray,
    lefts: np.ndarray,
    rights: np.ndarray,
    masks: np.ndarray,
    words: np.ndarray,
    tables: np.ndarray,
    half_sq_norms: np.ndarray,
    code_weights: np.ndarray,
    allowed: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    bounds: np.ndarray,
    rows: np.ndarray,
    runs: np.ndarray,
    scores: np.ndarray,
) -> np.ndarray:
    """The rows with the highest scores for its query in each group of runs, unordered.

    Args:
        vectors: int8 embeddings [n, width]; empty to score by codes alone.
        queries: int16 [queries, width].
        units: the value of one unit of their inner products, float32 [queries].
        query_of_group: the query of each group, int64 [groups].
        hi, lo, lo_2, lo_3, modality_starts: the packed codes.
        lefts, rights, masks, words: where each level's codes are; see `SegmentView.all_level_bits`.
        tables: what each code adds, float32 [queries, levels, codes]; without levels, codes add nothing.
        half_sq_norms: subtracted from each row's score as many times as the query's code weight says, float32
            [n]; empty for nothing.
        code_weights: float32 [queries].
        allowed: which rows may be returned, bool [n]; empty for all.
        starts, ends: the runs.
        bounds: which runs are in which group.
        rows, runs, scores (float32): outputs [groups, most], with the run of each row.

    Returns the number of rows of each group.
    """
    num_rows = np.zeros(len(bounds) - 1, np.int64)
    heap = np.empty(rows.shape[1], np.int64)
    stored = 1 if len(modality_starts) else 0
    in_lo = words == 1
    for group in range(len(bounds) - 1):
        # Slices are taken out of the loops: each costs as much as a dot product.
        query, count = query_of_group[group], 0
        vector, table, unit, code_weight = queries[query], tables[query], units[query], code_weights[query]
        group_rows, group_runs, group_scores = rows[group], runs[group], scores[group]
        # Of the levels, those that end within the first two words.
        early = len(table) if lo_2 is None else min(len(table), (words <= 1).sum())
        for run in range(bounds[group], bounds[group + 1]):
            modality = 0
            ahead = min(run + AHEAD, bounds[group + 1] - 1)
            _fetch(vectors, starts[ahead], ends[ahead])
            for row in range(starts[run], ends[run]):
                _fetch(vectors, row + AHEAD, ends[run])
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
                        while row >= modality_starts[modality + 1]:
                            modality += 1
                        total = np.float32(total + table[0, modality])
                    first = hi[row]
                    second = np.uint64(lo[row]) if len(lo) else np.uint64(0)
                    for level in range(stored, early):
                        low = second if in_lo[level] else first
                        code = code_in(first, low, lefts[level], rights[level], masks[level])
                        total = np.float32(total + table[level, code])
                    total = _with_late_levels(
                        total, second, lo_2, lo_3, row, table, early, lefts, rights, masks, words
                    )
                if len(half_sq_norms):
                    total = np.float32(total - code_weight * half_sq_norms[row])
                if count < len(heap) or _better(total, row, heap, group_scores, group_rows):
                    group_runs[put(heap, count, group_scores, group_rows, total, row)] = run
                    count = min(count + 1, len(heap))
        num_rows[group] = count
    return num_rows
