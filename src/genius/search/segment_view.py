"""Pools that are searched as one: packed codes with what is known of their rows.

An index that lives has several: a large one, small ones with what was added since, and rows that were removed
or that a filter leaves out. A prefix exists if any part has an allowed row below it, so all of that meets in
`expand`: a prefix is a run of rows in each part, and its children are found part by part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from genius.errors import InputError
from genius.jit import frozen
from genius.search import kernels
from genius.search.codes import WORD, PackedCodes


@dataclass(frozen=True, eq=False)
class Part:
    """Packed codes, and for each sorted row what a search may need of it.

    Attributes:
        packed: the codes.
        allowed: which rows may be found, bool [n]; None for all.
        coarse: embeddings in bytes, int8 [n, width], in units of `scale`; None if there are none.
        exact: the same embeddings as they are, float16 or float32 [n, width]; None if there are none.
        scale: one unit of `coarse`.
        numbers: what each row is called [n], by which equal items are ordered; without it, its place.
        halves: half the squared length of quantized vectors, float32 [n]; needed to compare codes.
    """

    packed: PackedCodes
    allowed: np.ndarray | None = None
    coarse: np.ndarray | None = None
    exact: np.ndarray | None = None
    scale: float = 1.0
    numbers: np.ndarray | None = None
    halves: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name, array, kinds in (
            ("allowed", self.allowed, "b"),
            ("coarse", self.coarse, "i"),
            ("exact", self.exact, "f"),
            ("numbers", self.numbers, "iu"),
            ("halves", self.halves, "f"),
        ):
            if array is not None and (len(array) != len(self.packed) or array.dtype.kind not in kinds):
                raise InputError(
                    f"{name!r} needs one row for each of {len(self.packed)} items, "
                    f"and it is {array.dtype} {list(array.shape)}"
                )

    def __len__(self) -> int:
        """How many rows there are, allowed or not."""
        return len(self.packed)

    def restricted(self, allowed: np.ndarray) -> Part:
        """The same part, where only rows may be found that `allowed` [n] allows too."""
        return replace(self, allowed=allowed if self.allowed is None else allowed & self.allowed)

    def under(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """How many allowed rows each run has."""
        counts = self.counts
        return np.asarray(counts[ends].astype(np.int64) - counts[starts] if len(counts) else ends - starts)

    @cached_property
    def counts(self) -> np.ndarray:
        """How many rows before each are allowed [n + 1]; nothing if all are."""
        if self.allowed is None:
            return frozen(np.empty(0, np.uint32))
        number = np.uint32 if len(self) <= np.iinfo(np.uint32).max else np.uint64
        counts = np.zeros(len(self) + 1, number)
        np.cumsum(self.allowed, out=counts[1:])
        return frozen(counts)

    @cached_property
    def words(self) -> tuple[np.ndarray, np.ndarray]:
        """`hi` and `lo`, which has no elements if it is absent."""
        lo = self.packed.lo
        return frozen(self.packed.hi), frozen(np.empty(0, np.uint16) if lo is None else lo)

    def bits(self, level: int) -> tuple[np.ndarray, np.ndarray, np.uint64, np.uint64, np.uint64]:
        """Where a level's codes are: two words of each row, the first shifted left, the second right, a mask.

        Only one level can be in both words; for the others the first is shifted out of the mask's way.
        """
        hi, lo = self.words
        width, end = self.packed.layout.widths[level], self.packed.layout.ends[level]
        mask = np.uint64((1 << width) - 1)
        if not width:
            return hi, hi, np.uint64(0), np.uint64(0), mask
        if end <= WORD:
            return hi, hi, np.uint64(WORD - 1), np.uint64(WORD - end), mask
        left = end - WORD if end - width < WORD else WORD - 1
        return hi, lo, np.uint64(left), np.uint64(8 * lo.itemsize - (end - WORD)), mask

    @cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Of all levels, as `bits` says: shifts left and right, masks, and which levels end in `lo`."""
        levels = [self.bits(level) for level in range(len(self.packed.sizes))]
        lefts, rights, masks = (np.array([bits[place] for bits in levels]) for place in (2, 3, 4))
        return lefts, rights, masks, np.array([bits[1] is not bits[0] for bits in levels])

    def table(self, level: int, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where a level's first rows are kept: all of them, and the place of each run's first child."""
        packed, semantic = self.packed, self.packed.layout.semantic
        bases = np.zeros(len(starts), np.int64)
        if level < semantic:
            assert packed.firsts is not None
            return frozen(packed.firsts), bases
        if level > semantic or packed.cells is None:
            return frozen(np.empty(0, np.uint32)), bases
        if packed.firsts is not None:
            bases = (np.searchsorted(packed.firsts, starts, side="right") - 1) * packed.sizes[level]
        return frozen(packed.cells), bases

    def run(self) -> tuple[int, int]:
        """All rows; an empty run if none is allowed."""
        return (0, len(self)) if self.under(np.array(0), np.array(len(self))) else (0, 0)

    def first_run(self, code: int) -> tuple[int, int]:
        """The rows of a code of the first level; an empty run if none is allowed."""
        table, _ = self.table(0, np.empty(0, np.int64))
        start, end = 0, len(self)
        if not 0 <= code < self.packed.sizes[0]:
            return 0, 0
        if len(table):
            start, end = int(table[code]), int(table[code + 1])
        elif width := self.packed.layout.widths[0]:
            bounds = [np.uint64(value << (WORD - width)) for value in (code, code + 1) if value < 1 << width]
            start, *rest = np.searchsorted(self.packed.hi, np.array(bounds)).tolist()
            end = rest[0] if rest else end
        return (start, end) if self.under(np.array(start), np.array(end)) else (0, 0)


@dataclass(frozen=True, eq=False)
class Prefixes:
    """Prefixes of one length, of many queries: by query, and in the order of their codes.

    Attributes:
        queries: whose each is, int64 [prefixes].
        starts, ends: its run of rows in each part, int64 [parts, prefixes]; empty where a part has none.
        totals: its score, float32 [prefixes].
        gains: what each level added, float32 [prefixes, levels]; NaN for levels that are not reached.
    """

    queries: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    totals: np.ndarray
    gains: np.ndarray

    def __len__(self) -> int:
        """How many there are."""
        return len(self.queries)

    def __getitem__(self, some: np.ndarray) -> Prefixes:
        """Some of them."""
        return Prefixes(
            self.queries[some], self.starts[:, some], self.ends[:, some], self.totals[some], self.gains[some]
        )


def expand(
    parts: Sequence[Part], level: int, prefixes: Prefixes, gains: np.ndarray, queries: int, beams: int
) -> tuple[Prefixes, np.ndarray, np.ndarray]:
    """The best `beams` children of each query's prefixes, which have `level` codes; with parents and codes.

    A child's score does not depend on the part it is found in. So the best of all parts are among the best of
    each part, and those that are best of all are found in every part that has them.

    Args:
        parts: what is searched.
        level: how many codes the prefixes have.
        prefixes: of the queries numbered from 0 to `queries` - 1.
        gains: log-probabilities of the codes that may follow, float32 [prefixes, codes].
        queries: how many there are.
        beams: how many children go on.
    """
    bounds = np.searchsorted(prefixes.queries, np.arange(queries + 1))
    size = gains.shape[1]
    found = [
        _children(part, level, prefixes, number, gains, bounds, beams) for number, part in enumerate(parts)
    ]
    best, runs = found[0][0], found[0][1].T[:, None]
    if len(parts) > 1:
        best = _best(np.unique(np.concatenate([keys for keys, _ in found])), prefixes, gains, beams)
        runs = np.zeros((2, len(parts), len(best)), np.int64)
        for number, (keys, some) in enumerate(found):
            _, here, there = np.intersect1d(best, keys, assume_unique=True, return_indices=True)
            runs[:, number, here] = some[there].T
    parents, codes = np.divmod(best, size)
    history = prefixes.gains[parents]
    history[:, level] = gains[parents, codes]
    totals = prefixes.totals[parents] + history[:, level]
    return Prefixes(prefixes.queries[parents], runs[0], runs[1], totals, history), parents, codes


def _children(
    part: Part,
    level: int,
    prefixes: Prefixes,
    number: int,
    gains: np.ndarray,
    bounds: np.ndarray,
    beams: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The best children in one part: prefix and code as one number, rising, and their runs [n, 2]."""
    # Loops are compiled once for each kind of array: with one part these would be strided, with several not.
    starts, ends = np.ascontiguousarray(prefixes.starts[number]), np.ascontiguousarray(prefixes.ends[number])
    table, bases = part.table(level, starts)
    shape = (len(bounds) - 1, beams)
    parents, codes, scores = np.empty(shape, np.int64), np.empty(shape, np.int64), np.empty(shape, np.float32)
    runs = np.empty((*shape, 2), np.int64)
    counts = kernels.children(
        *part.bits(level),
        table,
        part.counts,
        starts,
        ends,
        bases,
        prefixes.totals,
        np.ascontiguousarray(gains, np.float32),
        bounds,
        beams,
        parents,
        codes,
        runs,
        scores,
    )
    there = np.arange(beams) < counts[:, None]
    return parents[there] * gains.shape[1] + codes[there], runs[there]


def _best(keys: np.ndarray, prefixes: Prefixes, gains: np.ndarray, beams: int) -> np.ndarray:
    """Of children, prefix and code as one number, the best of each query; of equal ones the smaller."""
    parents, codes = np.divmod(keys, gains.shape[1])
    queries = prefixes.queries[parents]
    order = np.lexsort((keys, -(prefixes.totals[parents] + gains[parents, codes]), queries))
    queries = queries[order]
    ranks = np.arange(len(keys)) - np.searchsorted(queries, queries)
    return np.asarray(np.sort(keys[order][ranks < beams]))
