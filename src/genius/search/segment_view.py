"""Segments as a search sees them: packed codes, and what is known of their rows.

A live index has several segments: a large one, small ones with what was added since, and in each of them rows
that were removed or that a filter leaves out. They are searched as one pool: a prefix exists if any segment
has an allowed row below it. So a prefix is a run of rows in each segment, and `expand` finds its children
segment by segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from genius.errors import InputError
from genius.jit import frozen
from genius.search import kernels
from genius.search.codes import WORD, WORDS, PackedCodes

INT8_MAX = 127


@dataclass(frozen=True, eq=False)
class SegmentView:
    """Packed codes, and for each sorted row what a search may need of it.

    Attributes:
        packed: the codes.
        allowed: which rows may be returned, bool [n]; None for all.
        embeddings_int8: embeddings in units of `scale`, int8 [n, width]; None if there are none.
        embeddings: the same embeddings in float16 or float32 [n, width]; None if there are none.
        scale: one unit of `embeddings_int8`.
        item_keys: the key of each row's item [n], by which ties are broken; without it, the row itself.
        half_sq_norms: half the squared norm of each quantized vector, float32 [n]; needed to score by codes.
    """

    packed: PackedCodes
    allowed: np.ndarray | None = None
    embeddings_int8: np.ndarray | None = None
    embeddings: np.ndarray | None = None
    scale: float = 1.0
    item_keys: np.ndarray | None = None
    half_sq_norms: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name, array, kinds in (
            ("allowed", self.allowed, "b"),
            ("embeddings_int8", self.embeddings_int8, "i"),
            ("embeddings", self.embeddings, "f"),
            ("item_keys", self.item_keys, "iu"),
            ("half_sq_norms", self.half_sq_norms, "f"),
        ):
            if array is not None and (len(array) != len(self.packed) or array.dtype.kind not in kinds):
                raise InputError(
                    f"{name!r} needs one row for each of {len(self.packed)} items, "
                    f"and it is {array.dtype} {list(array.shape)}"
                )

    def __len__(self) -> int:
        """How many rows there are, allowed or not."""
        return len(self.packed)

    def restricted(self, allowed: np.ndarray) -> SegmentView:
        """The same segment, where only rows may be returned that the mask `allowed` [n] allows too."""
        return replace(self, allowed=allowed if self.allowed is None else allowed & self.allowed)

    def count_allowed(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """How many allowed rows each run has."""
        before = self.allowed_before
        return np.asarray(before[ends].astype(np.int64) - before[starts] if len(before) else ends - starts)

    @cached_property
    def allowed_before(self) -> np.ndarray:
        """How many rows before each are allowed [n + 1]; empty if all are."""
        if self.allowed is None:
            return frozen(np.empty(0, np.uint32))
        dtype = np.uint32 if len(self) <= np.iinfo(np.uint32).max else np.uint64
        counts = np.zeros(len(self) + 1, dtype)
        np.cumsum(self.allowed, out=counts[1:])
        return frozen(counts)

    @cached_property
    def cell_items(self) -> np.ndarray:
        """How many allowed rows each cell has, int64 [cells]."""
        first_rows = self.packed.first_rows_of_cells.astype(np.int64)
        return self.count_allowed(first_rows[:-1], first_rows[1:])

    @cached_property
    def modality_items(self) -> np.ndarray:
        """How many of them each modality code has, int64 [modality codes]."""
        layout = self.packed.layout
        return np.asarray(self.cell_items.reshape(-1, layout.sizes[layout.semantic]).sum(axis=1))

    @cached_property
    def words(self) -> tuple[Any, Any, Any, Any]:
        """`hi`, `lo`, `lo_2` and `lo_3` as kernels take them: an absent `lo` is empty, the others are
        None."""
        words: list[Any] = [frozen(word) for word in self.packed.words]
        hi, lo, lo_2, lo_3 = words + [None] * (len(WORDS) - len(words))
        return hi, frozen(np.empty(0, np.uint16)) if lo is None else lo, lo_2, lo_3

    def level_bits(self, level: int) -> tuple[np.ndarray, np.ndarray, np.uint64, np.uint64, np.uint64]:
        """Where a level's codes are: two words of each row, the first shifted left, the second right, a mask.

        For levels that don't span two words, the first word is shifted out of the mask's way.
        """
        width, word, behind, before = self.packed.layout.places[level]
        high, low = self.words[max(word - 1, 0)], self.words[word]
        mask = np.uint64((1 << width) - 1)
        if not width:
            return high, high, np.uint64(0), np.uint64(0), mask
        return high, low, np.uint64(width - before if before else WORD - 1), np.uint64(behind), mask

    @cached_property
    def all_level_bits(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """`level_bits` of all levels: shifts left, shifts right, masks, and the word that each level ends
        in."""
        levels = [self.level_bits(level) for level in range(len(self.packed.sizes))]
        lefts, rights, masks = (np.array([bits[place] for bits in levels]) for place in (2, 3, 4))
        return lefts, rights, masks, np.array([place.word for place in self.packed.layout.places])

    def child_starts(self, level: int, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The stored first rows of a level's codes (empty if none are stored), and where each run's begin."""
        packed, semantic = self.packed, self.packed.layout.semantic
        bases = np.zeros(len(starts), np.int64)
        if level < semantic:
            assert packed.modality_starts is not None
            return frozen(packed.modality_starts), bases
        if level > semantic or packed.cell_starts is None:
            return frozen(np.empty(0, np.uint32)), bases
        if packed.modality_starts is not None:
            modality = np.searchsorted(packed.modality_starts, starts, side="right") - 1
            bases = modality * packed.sizes[level]
        return frozen(packed.cell_starts), bases

    def all_rows(self) -> tuple[int, int]:
        """The run of all rows; an empty run if none is allowed."""
        return (0, len(self)) if self.count_allowed(np.array(0), np.array(len(self))) else (0, 0)

    def first_level_rows(self, code: int) -> tuple[int, int]:
        """The run of a code of the first level; an empty run if none of its rows is allowed."""
        table, _ = self.child_starts(0, np.empty(0, np.int64))
        start, end = 0, len(self)
        if not 0 <= code < self.packed.sizes[0]:
            return 0, 0
        if len(table):
            start, end = int(table[code]), int(table[code + 1])
        elif width := self.packed.layout.widths[0]:
            bounds = [np.uint64(value << (WORD - width)) for value in (code, code + 1) if value < 1 << width]
            start, *rest = np.searchsorted(self.packed.words[0], np.array(bounds)).tolist()
            end = rest[0] if rest else end
        return (start, end) if self.count_allowed(np.array(start), np.array(end)) else (0, 0)


def int8_scale(largest: float) -> float:
    """The unit of int8 embeddings whose largest absolute value is `largest`."""
    return max(1e-6, largest) / INT8_MAX


def to_int8(embeddings: np.ndarray, scale: float) -> np.ndarray:
    """Embeddings in units of `scale`: int8, of the same shape."""
    return np.asarray(np.rint(embeddings.astype(np.float32) / scale).astype(np.int8))


@dataclass(frozen=True, eq=False)
class Prefixes:
    """Prefixes of one length, of many queries: by query, and in the order of their codes.

    Attributes:
        query_ids: the query of each prefix, int64 [prefixes].
        starts, ends: its run of rows in each segment, int64 [segments, prefixes]; empty where a segment has
            none.
        log_probs: its summed log-probability, float32 [prefixes].
        level_log_probs: what each level added, float32 [prefixes, levels]; NaN for levels that are not
            reached.
    """

    query_ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    log_probs: np.ndarray
    level_log_probs: np.ndarray

    def __len__(self) -> int:
        """How many there are."""
        return len(self.query_ids)

    def __getitem__(self, places: np.ndarray) -> Prefixes:
        """The prefixes at these places, or those of a mask."""
        return Prefixes(
            self.query_ids[places],
            self.starts[:, places],
            self.ends[:, places],
            self.log_probs[places],
            self.level_log_probs[places],
        )


def expand(
    segments: Sequence[SegmentView],
    level: int,
    prefixes: Prefixes,
    log_probs: np.ndarray,
    queries: int,
    beams: int,
) -> tuple[Prefixes, np.ndarray, np.ndarray]:
    """The best `beams` children of each query's prefixes, which have `level` codes; with parents and codes.

    A child's score does not depend on the segment it is found in. So the best of all segments are among the
    best of each segment, and those that are best of all are found in every segment that has them.

    Args:
        segments: what is searched.
        level: how many codes the prefixes have.
        prefixes: of the queries numbered from 0 to `queries` - 1.
        log_probs: log-probabilities of the codes that may follow, float32 [prefixes, codes].
        queries: how many there are.
        beams: how many children go on.
    """
    bounds = np.searchsorted(prefixes.query_ids, np.arange(queries + 1))
    size = log_probs.shape[1]
    by_segment = [
        _children(segment, level, prefixes, number, log_probs, bounds, beams)
        for number, segment in enumerate(segments)
    ]
    best, runs = by_segment[0][0], by_segment[0][1].T[:, None]
    if len(segments) > 1:
        best = _best(np.unique(np.concatenate([keys for keys, _ in by_segment])), prefixes, log_probs, beams)
        runs = np.zeros((2, len(segments), len(best)), np.int64)
        for number, (keys, segment_runs) in enumerate(by_segment):
            _, in_best, in_segment = np.intersect1d(best, keys, assume_unique=True, return_indices=True)
            runs[:, number, in_best] = segment_runs[in_segment].T
    parents, codes = np.divmod(best, size)
    history = prefixes.level_log_probs[parents]
    history[:, level] = log_probs[parents, codes]
    sums = prefixes.log_probs[parents] + history[:, level]
    return Prefixes(prefixes.query_ids[parents], runs[0], runs[1], sums, history), parents, codes


def _children(
    segment: SegmentView,
    level: int,
    prefixes: Prefixes,
    number: int,
    log_probs: np.ndarray,
    bounds: np.ndarray,
    beams: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The best children in one segment: prefix and code as one number, rising, and their runs [n, 2]."""
    # Kernels are compiled once for each kind of array: with one segment these would be strided, with several
    # not.
    starts, ends = np.ascontiguousarray(prefixes.starts[number]), np.ascontiguousarray(prefixes.ends[number])
    table, bases = segment.child_starts(level, starts)
    shape = (len(bounds) - 1, beams)
    parents, codes, scores = np.empty(shape, np.int64), np.empty(shape, np.int64), np.empty(shape, np.float32)
    runs = np.empty((*shape, 2), np.int64)
    counts = kernels.children(
        *segment.level_bits(level),
        table,
        segment.allowed_before,
        starts,
        ends,
        bases,
        prefixes.log_probs,
        np.ascontiguousarray(log_probs, np.float32),
        bounds,
        beams,
        parents,
        codes,
        runs,
        scores,
    )
    filled = np.arange(beams) < counts[:, None]
    return parents[filled] * log_probs.shape[1] + codes[filled], runs[filled]


def _best(keys: np.ndarray, prefixes: Prefixes, log_probs: np.ndarray, beams: int) -> np.ndarray:
    """Of children, prefix and code as one number, the best of each query; of equal ones the smaller."""
    parents, codes = np.divmod(keys, log_probs.shape[1])
    query_ids = prefixes.query_ids[parents]
    order = np.lexsort((keys, -(prefixes.log_probs[parents] + log_probs[parents, codes]), query_ids))
    query_ids = query_ids[order]
    ranks = np.arange(len(keys)) - np.searchsorted(query_ids, query_ids)
    return np.asarray(np.sort(keys[order][ranks < beams]))
