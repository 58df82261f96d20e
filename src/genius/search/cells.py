"""The first step of a search, from a query to its best cells: pairs of a modality code and a first semantic
code.

Beam search would go there in two steps, each of them with children to find and runs to bisect. But cells are
few, so their runs are known, and the best of them are found in one pass over their log-probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from genius.decode.decoder import DecodingState
from genius.jit import compiled, frozen
from genius.search.kernels import put
from genius.search.segment_view import Prefixes, SegmentView

MOST_CELLS = 1 << 16
"""With more cells than this, beams are followed level by level."""

BLOCK = 64
"""Cells are compared with the worst that is kept so many at a time."""


def searchable_at_once(segments: Sequence[SegmentView], beams: int) -> bool:
    """Whether the best cells are what beam search would come to: no modality code may be lost on the way."""
    layout = segments[0].packed.layout
    modalities = layout.sizes[0] if layout.semantic else 1
    return modalities <= beams and layout.num_cells <= MOST_CELLS


def best_cells(
    segments: Sequence[SegmentView],
    decoding: DecodingState,
    roots: Prefixes,
    modality_code: np.ndarray | None,
    queries: int,
    beams: int,
) -> tuple[Prefixes, np.ndarray, np.ndarray]:
    """The best `beams` cells of each query that any segment has, in the order of their codes; with the row of
    `decoding` that each continues, and its code.

    Args:
        segments: what is searched.
        decoding: at the first level, or behind the modality codes; left at the first semantic level.
        roots: the prefixes to begin with, one for each query that may get anything.
        modality_code: the first code of each query [queries], if that is given.
        queries: how many there are.
        beams: how many cells are kept; of equal ones the smaller codes. -inf never is.
    """
    layout, items = segments[0].packed.layout, cell_items(segments)
    rows, log_probs = np.arange(len(roots)), roots.log_probs
    first_level = roots.level_log_probs[:, 0]
    size = layout.sizes[layout.semantic]
    modality = np.zeros(len(roots), np.int64) if modality_code is None else modality_code[roots.query_ids]
    if layout.semantic and modality_code is None:
        modalities = np.flatnonzero(sum(segment.modality_items for segment in segments))
        rows, modality = np.repeat(rows, len(modalities)), np.tile(modalities, len(roots))
        first_level = decoding.scores()[rows, modality]
        log_probs = log_probs[rows] + first_level
        decoding.advance(rows, modality)
    query_ids = roots.query_ids[rows]
    code_log_probs = np.ascontiguousarray(decoding.scores(), np.float32)
    shape = (queries, beams)
    parents, codes, scores = np.empty(shape, np.int64), np.empty(shape, np.int64), np.empty(shape, np.float32)
    counts = _best(
        frozen(items),
        modality * size,
        log_probs,
        code_log_probs,
        np.searchsorted(query_ids, np.arange(queries + 1)),
        parents,
        codes,
        scores,
    )
    filled = np.arange(beams) < counts[:, None]
    best_parents, best_codes = parents[filled], codes[filled]
    cells = modality[best_parents] * size + best_codes
    history = roots.level_log_probs[rows[best_parents]]
    if layout.semantic:
        history[:, 0] = first_level[best_parents]
    history[:, layout.semantic] = code_log_probs[best_parents, best_codes]
    starts, ends = np.empty((2, len(segments), len(cells)), np.int64)
    for number, segment in enumerate(segments):
        first_rows = segment.packed.first_rows_of_cells
        starts[number], ends[number] = first_rows[cells], first_rows[cells + 1]
        if len(segments) > 1:
            lacking = segment.cell_items[cells] == 0
            starts[number, lacking] = ends[number, lacking] = 0
    return Prefixes(query_ids[best_parents], starts, ends, scores[filled], history), best_parents, best_codes


def cell_items(segments: Sequence[SegmentView]) -> np.ndarray:
    """How many allowed rows all segments have in each cell, int64 [cells]."""
    counts = [segment.cell_items for segment in segments]
    return counts[0] if len(counts) == 1 else np.sum(counts, axis=0)


@compiled
def _best(
    items: np.ndarray,
    first_cells: np.ndarray,
    log_probs: np.ndarray,
    code_log_probs: np.ndarray,
    bounds: np.ndarray,
    parents: np.ndarray,
    codes: np.ndarray,
    scores: np.ndarray,
) -> np.ndarray:
    """Write the best cells of each query, in the order of rows and codes; returns how many they are.

    Args:
        items: how many items each cell has.
        first_cells: the number of the first cell of each row.
        log_probs: of each row.
        code_log_probs: what its codes add, [rows, codes].
        bounds: which rows belong to which query.
        parents, codes, scores: outputs [queries, beams].
    """
    beams = parents.shape[1]
    num_cells = np.zeros(len(bounds) - 1, np.int64)
    heap, orders = np.empty(beams, np.int64), np.empty(beams, np.int64)
    for query in range(len(bounds) - 1):
        count, order, worst = 0, 0, np.float32(-np.inf)
        kept = scores[query]
        for row in range(bounds[query], bounds[query + 1]):
            total, first, added = log_probs[row], first_cells[row], code_log_probs[row]
            for start in range(0, len(added), BLOCK):
                end = min(start + BLOCK, len(added))
                better: Any = 0
                for code in range(start, end):  # several at once, without a branch
                    better += np.float32(total + added[code]) > worst
                if not better:
                    continue
                for code in range(start, end):
                    score = np.float32(total + added[code])
                    if score > worst and items[first + code] > 0:
                        slot: Any = put(heap, count, kept, orders, score, order)
                        parents[query, slot], codes[query, slot] = row, code
                        order += 1
                        count = min(count + 1, beams)
                        if count == beams:
                            worst = kept[heap[0]]
        num_cells[query] = count
        sequence = np.argsort(orders[:count])
        parents[query, :count] = parents[query, :count][sequence]
        codes[query, :count] = codes[query, :count][sequence]
        kept[:count] = kept[:count][sequence]
    return num_cells
