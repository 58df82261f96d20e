"""What a search that stopped early left open: how likely each code of an item is, and how many items share
it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genius.decode.decoder import Decoder
from genius.search import kernels
from genius.search.segment_view import SegmentView


def level_log_probs(
    decoder: Decoder,
    vectors: np.ndarray,
    query_ids: np.ndarray,
    codes: np.ndarray,
    modality_code: np.ndarray | None = None,
) -> np.ndarray:
    """The log-probability of each of the items' codes, given those before it: float32 [items, levels].

    Args:
        decoder: scores codes.
        vectors: a vector for each query, [queries, width].
        query_ids: the query of each item, int64 [items].
        codes: the items' codes, [items, levels].
        modality_code: the first code that each query wants, -1 for any; a given one adds nothing.
    """
    log_probs = np.zeros(codes.shape, np.float32)
    wanted = np.full(len(vectors), -1) if modality_code is None else np.asarray(modality_code)
    for given in (True, False):
        items = np.flatnonzero((wanted[query_ids] >= 0) == given)
        if not len(items):
            continue
        queries, rows = np.unique(query_ids[items], return_inverse=True)
        decoding = (
            decoder.begin(vectors[queries], wanted[queries]) if given else decoder.begin(vectors[queries])
        )
        for level in range(int(given), codes.shape[1]):
            level_codes = codes[items, level].astype(np.int64)
            log_probs[items, level] = decoding.scores()[rows, level_codes]
            if level + 1 < codes.shape[1]:
                decoding.advance(rows, level_codes)
                rows = np.arange(len(items))
    return log_probs


def prefix_counts(segments: Sequence[SegmentView], codes: np.ndarray) -> np.ndarray:
    """How many items share each prefix of codes [n, levels], up to each level: int64 [n, levels]."""
    counts = np.zeros(codes.shape, np.int64)
    for segment in segments:
        starts, ends = np.zeros(len(codes), np.int64), np.full(len(codes), len(segment), np.int64)
        for level, column in enumerate(codes.T.astype(np.int64)):
            if level < segment.packed.layout.semantic:
                for code in np.unique(column):
                    same = column == code
                    starts[same], ends[same] = segment.first_level_rows(int(code))
            else:
                kernels.narrow_runs(*segment.level_bits(level), starts, ends, np.ascontiguousarray(column))
            counts[:, level] += segment.count_allowed(starts, ends)
    return counts
