"""The loops of the search that numpy has no word for, compiled: child runs, buckets, and dots over runs.

All take many queries at once: `bounds` [queries + 1] says which of the rows that follow each other belong to
which query. Arrays that are absent have no elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from genius.jit import compiled


@compiled
def code_in(high: Any, low: Any, left: Any, right: Any, mask: Any) -> Any:
    """The code of one level, which begins in one word and ends in another; `Part.bits` says where.

    There is no branch for levels that are in one word only: with one, the loops took ten times as long.
    """
    return np.int64(((high << left) | (np.uint64(low) >> right)) & mask)


@compiled
def put(heap: np.ndarray, count: int, scores: np.ndarray, orders: np.ndarray, score: Any, order: int) -> Any:
    """Put one more into a heap of `count` slots, or in place of its worst if it is full; returns its slot.

    Scores and orders are kept by slot. The worst is at the root: the lowest score, and of equal ones the one
    with the highest order.
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
    """Let the root of a full heap sink to where it belongs."""
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
    """Let the slot at a place of the heap rise to where it belongs."""
    slot = heap[place]
    while place > 0 and _worse(slot, heap[(place - 1) // 2], scores, orders):
        heap[place] = heap[(place - 1) // 2]
        place = (place - 1) // 2
    heap[place] = slot


@compiled
def _worse(one: int, other: int, scores: np.ndarray, orders: np.ndarray) -> bool:
    if scores[one] != scores[other]:
        return bool(scores[one] < scores[other])
    return bool(orders[one] > orders[other])


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
def narrow(
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
    counts: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    bases: np.ndarray,
    totals: np.ndarray,
    gains: np.ndarray,
    bounds: np.ndarray,
    beams: int,
    parents: np.ndarray,
    codes: np.ndarray,
    runs: np.ndarray,
    scores: np.ndarray,
) -> np.ndarray:
    """The best children of each query's prefixes in one pool, in the order of prefixes.

    Args:
        high, low, left, right, mask: where the level's codes are, by `Part.bits`.
        table: the first rows of all children, where they are kept.
        counts: how many rows before each are allowed [n + 1]; without it all are.
        starts, ends: the run of each prefix; a query's prefixes stand in their order.
        bases: the place of each prefix's first child in `table`.
        totals: the score of each prefix.
        gains: the log-probabilities of the codes that may follow, [prefixes, codes].
        bounds: which prefixes are whose.
        beams: how many children go on.
        parents, codes, runs (two numbers), scores: to be filled [queries, beams].

    Returns how many there are of each query. Of equal ones the smaller codes stay; -inf never does.
    """
    found = np.zeros(len(bounds) - 1, np.int64)
    heap, orders = np.empty(beams, np.int64), np.empty(beams, np.int64)
    size = gains.shape[1]
    for query in range(len(bounds) - 1):
        count, order, worst = 0, 0, np.float32(-np.inf)
        kept = scores[query]
        for row in range(bounds[query], bounds[query + 1]):
            start, end = starts[row], ends[row]
            code: Any = np.int64(-1)
            total = totals[row]
            while start < end:
                if len(table):
                    code += 1
                    if code == size:
                        break
                    score = np.float32(total + gains[row, code])
                    if not score > worst:
                        continue
                    one: Any = np.int64(table[bases[row] + code])
                    other: Any = np.int64(table[bases[row] + code + 1])
                    if one == other:
                        continue
                else:
                    code = code_in(high[start], low[start], left, right, mask)
                    one, other = start, _end_of_run(high, low, left, right, mask, start, end, code)
                    start = other
                    score = np.float32(total + gains[row, code])
                    if not score > worst:
                        continue
                if len(counts) and counts[one] == counts[other]:
                    continue
                slot = put(heap, count, kept, orders, score, order)
                parents[query, slot], codes[query, slot] = row, code
                runs[query, slot, 0], runs[query, slot, 1] = one, other
                order += 1
                count = min(count + 1, beams)
                if count == beams:
                    worst = kept[heap[0]]
        found[query] = count
        sequence = np.argsort(orders[:count])
        parents[query, :count] = parents[query, :count][sequence]
        codes[query, :count] = codes[query, :count][sequence]
        runs[query, :count] = runs[query, :count][sequence]
        kept[:count] = kept[:count][sequence]
    return found


@compiled
def buckets(
    hi: np.ndarray,
    lo: np.ndarray,
    counts: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    bounds: np.ndarray,
    heads: np.ndarray,
    owners: np.ndarray,
) -> np.ndarray:
    """The first rows of the different codes in each query's runs, as many as `heads` [queries, most] holds.

    `owners` [queries, most] becomes the run of each. Returns how many there are of each query; counting ends
    at `most`. Codes without an allowed row do not count. A run's rows share what is not stored.
    """
    most = heads.shape[1]
    found = np.zeros(len(bounds) - 1, np.int64)
    for query in range(len(bounds) - 1):
        count = 0
        for run in range(bounds[query], bounds[query + 1]):
            start, end = starts[run], ends[run]
            while start < end and count < most:
                step, low = 1, start
                while low + step < end and _same(hi, lo, start, low + step):
                    low += step
                    step *= 2
                high = min(low + step, end)
                while high - low > 1:
                    middle = (low + high) // 2
                    if _same(hi, lo, start, middle):
                        low = middle
                    else:
                        high = middle
                if not len(counts) or counts[high] > counts[start]:
                    heads[query, count], owners[query, count] = start, run
                    count += 1
                start = high
        found[query] = count
    return found


@compiled
def _same(hi: np.ndarray, lo: np.ndarray, one: int, other: int) -> bool:
    return bool(hi[one] == hi[other] and (len(lo) == 0 or lo[one] == lo[other]))


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
