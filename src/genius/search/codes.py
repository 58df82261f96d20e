"""The codes of a pool, sorted and packed: what is searched, and what an index keeps on disk.

Items stand in the order of their codes, so that all items that share a prefix are one run of rows, and a tree
needs no nodes. A row's codes are one string of bits, each level as many as its size needs, from the high bits
down: the first 64 are `hi`, the rest `lo`. A modality's code is not stored: it is told by the row's position.

array     type                          what
`hi`      uint64 [n]                    the first 64 bits
`lo`      uint16, 32 or 64 [n]          the bits behind them, absent if there are none
`firsts`  uint32 (64) [modalities + 1]  the first row of each modality's code; absent without such a level
`cells`   uint32 (64) [cells + 1]       the same for its first semantic codes; only in large pools

At 3 + 8 × 4096 codes that is 12 bytes an item and 48 KB for the cells: 13.1 bytes at the most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from genius.errors import DamagedError, InputError

FEWEST = 45_000
"""From how many items on the first rows of cells are kept; in fewer they are found quickly by bisection."""

SHARE = 1.1
"""How many bytes an item the first rows of cells may take; if there were more, they are not kept either."""

MAX_CODEBOOK_SIZE = 1 << 16
"""The most codes that a level may have: a code that is not packed is uint16."""

WORD = 64
BITS = 2 * WORD


@dataclass(frozen=True)
class Layout:
    """Where the codes of each level stand in a row's bits.

    Attributes:
        sizes: how many codes each level has.
        semantic: how many levels come before the semantic ones: 1 with a modality's code, 0 without.
    """

    sizes: tuple[int, ...]
    semantic: int

    def __post_init__(self) -> None:
        if not self.sizes or not all(1 <= size <= MAX_CODEBOOK_SIZE for size in self.sizes):
            raise InputError(
                f"the sizes of levels must be from 1 to {MAX_CODEBOOK_SIZE}, not {list(self.sizes)}"
            )
        if self.semantic not in (0, 1) or self.semantic >= len(self.sizes):
            raise InputError(
                f"semantic codes begin at the first or the second of several levels, "
                f"not behind {self.semantic} of {len(self.sizes)}"
            )
        if self.total > BITS:
            raise InputError(
                f"codes of {self.total} bits can't be searched, only {BITS}: use fewer or smaller levels"
            )

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """How many bits each level takes; a level that is not stored takes none."""
        return tuple(
            0 if level < self.semantic else (size - 1).bit_length() for level, size in enumerate(self.sizes)
        )

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """How many bits a row has up to and with each level."""
        return tuple(np.cumsum(self.widths).tolist())

    @cached_property
    def total(self) -> int:
        """How many bits a row has."""
        return sum(self.widths)

    @cached_property
    def rest(self) -> np.dtype[Any] | None:
        """The type of `lo`, or none."""
        behind = self.total - WORD
        return None if behind <= 0 else np.dtype(f"u{next(size for size in (2, 4, 8) if 8 * size >= behind)}")

    @cached_property
    def cells(self) -> int:
        """How many cells there may be: a modality's code and the first semantic one."""
        return int(np.prod(self.sizes[: self.semantic + 1]))

    def arrays(self, count: int) -> dict[str, tuple[np.dtype[Any], int]]:
        """The type and the length of each array that holds the codes of `count` items."""
        number = np.dtype(np.uint32 if count <= np.iinfo(np.uint32).max else np.uint64)
        arrays: dict[str, tuple[np.dtype[Any], int]] = {"hi": (np.dtype(np.uint64), count)}
        if self.rest is not None:
            arrays["lo"] = self.rest, count
        if self.semantic:
            arrays["firsts"] = number, self.sizes[0] + 1
        if count >= FEWEST and (self.cells + 1) * number.itemsize <= SHARE * count:
            arrays["cells"] = number, self.cells + 1
        return arrays


@dataclass(frozen=True, eq=False)
class PackedCodes:
    """Sorted codes; `build` makes them and `from_arrays` opens them again.

    Attributes:
        layout: where each level's bits are.
        hi, lo, firsts, cells: the arrays, as the module says; None for those that are absent.
    """

    layout: Layout
    hi: np.ndarray
    lo: np.ndarray | None
    firsts: np.ndarray | None
    cells: np.ndarray | None

    @classmethod
    def build(cls, codes: np.ndarray, sizes: Sequence[int], semantic: int) -> tuple[PackedCodes, np.ndarray]:
        """Sort and pack codes [items, levels]; of equal ones the item that came first stays first.

        Args:
            codes: integers, of which each level has as many as `sizes` says.
            sizes: how many codes each level has.
            semantic: how many levels come before the semantic ones: 1 with a modality's code, 0 without.

        Returns the packed codes and the item of each sorted row, uint32 (or 64) [items].
        """
        layout = Layout(tuple(int(size) for size in sizes), semantic)
        _check(codes, layout)
        hi, lo = _packed(codes, layout)
        first = codes[:, 0].astype(np.uint16) if semantic else np.zeros(len(codes), np.uint16)
        order = _order(first, hi, lo)
        shapes = layout.arrays(len(codes))
        firsts = _offsets(first, *shapes["firsts"]) if "firsts" in shapes else None
        cells = None
        if "cells" in shapes:
            cell = codes[:, semantic].astype(np.int64)
            cells = _offsets(first * np.int64(sizes[1]) + cell if semantic else cell, *shapes["cells"])
        packed = cls(layout, hi[order], None if lo is None else lo[order], firsts, cells)
        return packed, order.astype(np.uint32 if len(codes) <= np.iinfo(np.uint32).max else np.uint64)

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, np.ndarray], sizes: Sequence[int], semantic: int, n: int
    ) -> PackedCodes:
        """The codes of `n` items whose `arrays()` were kept; they may be memory maps.

        Raises DamagedError when an array is missing or does not fit.
        """
        layout = Layout(tuple(int(size) for size in sizes), semantic)
        shapes = layout.arrays(n)
        if set(arrays) != set(shapes):
            raise DamagedError(
                f"the codes of {n} items need the arrays {sorted(shapes)}, not {sorted(arrays)}"
            )
        for name, (number, length) in shapes.items():
            array = arrays[name]
            if array.dtype != number or array.shape != (length,):
                raise DamagedError(
                    f"the array {name!r} of the codes must be {number} [{length}], "
                    f"and it is {array.dtype} {list(array.shape)}"
                )
            if name in ("firsts", "cells") and (
                array[0] != 0 or array[-1] != n or (array[1:] < array[:-1]).any()
            ):
                raise DamagedError(f"the array {name!r} of the codes does not rise from 0 to {n}")
        return cls(layout, arrays["hi"], arrays.get("lo"), arrays.get("firsts"), arrays.get("cells"))

    def arrays(self) -> dict[str, np.ndarray]:
        """What has to be kept to open the codes again, by name."""
        named = {"hi": self.hi, "lo": self.lo, "firsts": self.firsts, "cells": self.cells}
        return {name: array for name, array in named.items() if array is not None}

    def __len__(self) -> int:
        """How many items there are."""
        return len(self.hi)

    @property
    def nbytes(self) -> int:
        """How many bytes the arrays take."""
        return sum(array.nbytes for array in self.arrays().values())

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codes each level has."""
        return self.layout.sizes

    def codes(self, rows: np.ndarray) -> np.ndarray:
        """The codes of sorted rows [n]: uint16 [n, levels]."""
        rows = np.asarray(rows)
        codes = np.empty((len(rows), len(self.sizes)), np.uint16)
        hi = self.hi[rows]
        lo = None if self.lo is None else self.lo[rows]
        for level, (width, end) in enumerate(zip(self.layout.widths, self.layout.ends, strict=True)):
            if level < self.layout.semantic:
                assert self.firsts is not None
                codes[:, level] = np.searchsorted(self.firsts, rows, side="right") - 1
            else:
                codes[:, level] = _column(hi, lo, width, end)
        return codes


def _check(codes: np.ndarray, layout: Layout) -> None:
    if codes.ndim != 2 or not len(codes) or codes.shape[1] != len(layout.sizes):
        raise InputError(
            f"a search needs the codes of at least one item in {len(layout.sizes)} levels, "
            f"not the shape {codes.shape}"
        )
    if not np.issubdtype(codes.dtype, np.integer):
        raise InputError(f"codes must be integers, not {codes.dtype}")
    if codes.min() < 0 or (codes.max(axis=0) >= layout.sizes).any():
        raise InputError(f"codes must be from 0 up to the sizes of their levels, {list(layout.sizes)}")


def _packed(codes: np.ndarray, layout: Layout) -> tuple[np.ndarray, np.ndarray | None]:
    """The two words of each row."""
    hi = np.zeros(len(codes), np.uint64)
    lo = None if layout.rest is None else np.zeros(len(codes), layout.rest)
    for level, (width, end) in enumerate(zip(layout.widths, layout.ends, strict=True)):
        if not width:
            continue
        code = codes[:, level].astype(np.uint64)
        if end <= WORD:
            hi |= code << np.uint64(WORD - end)
            continue
        assert lo is not None
        if end - width < WORD:
            hi |= code >> np.uint64(end - WORD)
            code &= np.uint64((1 << (end - WORD)) - 1)
        lo |= (code << np.uint64(8 * lo.itemsize - (end - WORD))).astype(lo.dtype)
    return hi, lo


def _column(hi: np.ndarray, lo: np.ndarray | None, width: int, end: int) -> np.ndarray:
    """The codes of the level whose bits end at `end`."""
    mask = np.uint64((1 << width) - 1)
    if not width:
        return np.zeros(len(hi), np.uint64)
    if end <= WORD:
        return (hi >> np.uint64(WORD - end)) & mask
    assert lo is not None
    below = lo.astype(np.uint64) >> np.uint64(8 * lo.itemsize - (end - WORD))
    if end - width >= WORD:
        return below & mask
    return ((hi << np.uint64(end - WORD)) | below) & mask


def _order(first: np.ndarray, hi: np.ndarray, lo: np.ndarray | None) -> np.ndarray:
    """The rows sorted by first code, `hi` and `lo`; equal ones keep their order.

    Sorting by one number alone is several times as quick as by three; so only rows that share it are sorted
    by the others.
    """
    order = np.argsort(first, kind="stable")
    bounds = np.searchsorted(first[order], np.arange(int(first.max()) + 2))
    for start, end in pairwise(bounds):
        rows = order[start:end]
        rows = rows[np.argsort(hi[rows])]
        same = hi[rows[1:]] == hi[rows[:-1]]
        tied = np.zeros(len(rows), bool)
        tied[1:] |= same
        tied[:-1] |= same
        some = rows[tied]
        keys = (some, hi[some]) if lo is None else (some, lo[some], hi[some])
        rows[tied] = some[np.lexsort(keys)]
        order[start:end] = rows
    return order


def _offsets(groups: np.ndarray, number: np.dtype[Any], length: int) -> np.ndarray:
    """The first sorted row of each group, and behind them how many rows there are."""
    return np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=length - 1))]).astype(number)
