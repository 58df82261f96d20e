"""The codes of a pool, sorted and packed: what is searched, and what an index keeps on disk.

Items stand in the order of their codes, so all items that share a prefix are one run of rows, and the tree of
codes needs no nodes. A row's codes are one string of bits, each level as many as its size needs, from the
high bits down, in words of 64: `hi`, `lo`, `lo_2` and `lo_3`. A modality code is not stored: the row's
position tells it.

array              type                          what
`hi`               uint64 [n]                    the first 64 bits
`lo`               uint16, 32 or 64 [n]          the bits behind them; absent if there are none
`lo_2`, `lo_3`     uint16, 32 or 64 [n]          the same for codes of more than 128 and of more than 192 bits
`modality_starts`  uint32 (64) [modalities + 1]  the first row of each modality code; absent without one
`cell_starts`      uint32 (64) [cells + 1]       the first row of each cell (modality code and first semantic
                                                 code); only in large pools

At 3 + 8 × 4096 codes that is 12 bytes an item and 48 KB for the cells: 13.1 bytes an item at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from genius.errors import DamagedError, InputError
from genius.quantize.quantizer import MAX_CODE_BITS, code_bits

MIN_ITEMS_FOR_CELLS = 45_000
"""Smaller pools keep no `cell_starts`: bisection finds their cells quickly."""

MAX_CELL_BYTES = 1.1
"""Bytes an item that `cell_starts` may take; a pool that would need more keeps none."""

MAX_CODEBOOK_SIZE = 1 << 16
"""The most codes that a level may have: a code that is not packed is uint16."""

WORD = 64
WORDS = ("hi", "lo", "lo_2", "lo_3")
"""The arrays of a row's words; only the last of those that a code needs may be narrower than 64 bits."""

ARRAYS = (*WORDS, "modality_starts", "cell_starts")
"""All arrays that there may be."""


class LevelPlace(NamedTuple):
    """Where the bits of a level are."""

    width: int
    """How many there are."""
    word: int
    """The word that they end in."""
    behind: int
    """How many bits of that word are behind them."""
    before: int
    """How many of them are in the word before."""


@dataclass(frozen=True)
class CodeLayout:
    """Where the codes of each level stand in a row's bits.

    Attributes:
        sizes: how many codes each level has.
        semantic: the first semantic level: 1 behind a modality code, 0 without one.
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
        if self.total_bits > MAX_CODE_BITS:
            raise InputError(
                f"codes of {self.total_bits} bits can't be searched, only {MAX_CODE_BITS}: "
                "use fewer or smaller levels"
            )

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Bits of each level; 0 for the modality code, which is not stored."""
        semantic_sizes = self.sizes[self.semantic :]
        return (0,) * self.semantic + tuple(code_bits([size]) for size in semantic_sizes)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """For each level, the number of bits up to its end."""
        return tuple(np.cumsum(self.widths).tolist())

    @cached_property
    def total_bits(self) -> int:
        """Bits of a row."""
        return sum(self.widths)

    @cached_property
    def word_dtypes(self) -> tuple[np.dtype[Any], ...]:
        """The types of a row's words: the last one is as narrow as its bits allow, `hi` is not."""
        full, rest = divmod(self.total_bits, WORD)
        words = [np.dtype(np.uint64)] * max(full, 1)
        if full and rest:
            words.append(np.dtype(f"u{next(size for size in (2, 4, 8) if 8 * size >= rest)}"))
        return tuple(words)

    @cached_property
    def places(self) -> tuple[LevelPlace, ...]:
        """Where each level's bits are."""
        places = []
        for width, end in zip(self.widths, self.ends, strict=True):
            word = max(end - 1, 0) // WORD
            behind = 8 * self.word_dtypes[word].itemsize - (end - word * WORD)
            places.append(LevelPlace(width, word, behind, max(0, word * WORD - (end - width))))
        return tuple(places)

    @cached_property
    def num_cells(self) -> int:
        """How many cells there may be: pairs of a modality code and a first semantic code."""
        return int(np.prod(self.sizes[: self.semantic + 1]))

    def arrays(self, count: int) -> dict[str, tuple[np.dtype[Any], int]]:
        """The type and length of each array that holds the codes of `count` items."""
        row_dtype = np.dtype(np.uint32 if count <= np.iinfo(np.uint32).max else np.uint64)
        arrays = {name: (dtype, count) for name, dtype in zip(WORDS, self.word_dtypes, strict=False)}
        if self.semantic:
            arrays["modality_starts"] = row_dtype, self.sizes[0] + 1
        cell_bytes = (self.num_cells + 1) * row_dtype.itemsize
        if count >= MIN_ITEMS_FOR_CELLS and cell_bytes <= MAX_CELL_BYTES * count:
            arrays["cell_starts"] = row_dtype, self.num_cells + 1
        return arrays


@dataclass(frozen=True, eq=False)
class PackedCodes:
    """Sorted codes; `build` makes them and `from_arrays` opens them again.

    Attributes:
        layout: where each level's bits are.
        words: `hi`, and as many of the other words as the codes need.
        modality_starts, cell_starts: the arrays described above; None for those that are absent.
    """

    layout: CodeLayout
    words: tuple[np.ndarray, ...]
    modality_starts: np.ndarray | None
    cell_starts: np.ndarray | None

    @classmethod
    def build(cls, codes: np.ndarray, sizes: Sequence[int], semantic: int) -> tuple[PackedCodes, np.ndarray]:
        """Sort and pack codes [items, levels]; items with equal codes keep their order.

        Args:
            codes: integers below the size of their level.
            sizes: how many codes each level has.
            semantic: the first semantic level: 1 behind a modality code, 0 without one.

        Returns the packed codes and the item of each sorted row, uint32 (or 64) [items].
        """
        layout = CodeLayout(tuple(int(size) for size in sizes), semantic)
        _check(codes, layout)
        words = _pack(codes, layout)
        modality = codes[:, 0].astype(np.uint16) if semantic else np.zeros(len(codes), np.uint16)
        order = _sort_order(modality, words)
        shapes = layout.arrays(len(codes))
        modality_starts = cell_starts = None
        if "modality_starts" in shapes:
            modality_starts = _group_starts(modality, *shapes["modality_starts"])
        if "cell_starts" in shapes:
            cell = codes[:, semantic].astype(np.int64)
            cell = modality * np.int64(sizes[1]) + cell if semantic else cell
            cell_starts = _group_starts(cell, *shapes["cell_starts"])
        packed = cls(layout, tuple(word[order] for word in words), modality_starts, cell_starts)
        return packed, order.astype(np.uint32 if len(codes) <= np.iinfo(np.uint32).max else np.uint64)

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, np.ndarray], sizes: Sequence[int], semantic: int, n: int
    ) -> PackedCodes:
        """The codes of `n` items from what `arrays()` returned; they may be memory maps.

        Raises DamagedError when an array is missing or does not fit.
        """
        layout = CodeLayout(tuple(int(size) for size in sizes), semantic)
        shapes = layout.arrays(n)
        if set(arrays) != set(shapes):
            raise DamagedError(
                f"the codes of {n} items need the arrays {sorted(shapes)}, not {sorted(arrays)}"
            )
        for name, (dtype, length) in shapes.items():
            array = arrays[name]
            if array.dtype != dtype or array.shape != (length,):
                raise DamagedError(
                    f"the array {name!r} of the codes must be {dtype} [{length}], "
                    f"and it is {array.dtype} {list(array.shape)}"
                )
            if name in ("modality_starts", "cell_starts") and (
                array[0] != 0 or array[-1] != n or (array[1:] < array[:-1]).any()
            ):
                raise DamagedError(f"the array {name!r} of the codes does not rise from 0 to {n}")
        words = tuple(arrays[name] for name in WORDS if name in arrays)
        return cls(layout, words, arrays.get("modality_starts"), arrays.get("cell_starts"))

    def arrays(self) -> dict[str, np.ndarray]:
        """What has to be kept to open the codes again, by name."""
        starts = {"modality_starts": self.modality_starts, "cell_starts": self.cell_starts}
        present = {name: array for name, array in starts.items() if array is not None}
        return dict(zip(WORDS, self.words, strict=False)) | present

    def __len__(self) -> int:
        """How many items there are."""
        return len(self.words[0])

    @property
    def nbytes(self) -> int:
        """How many bytes the arrays take."""
        return sum(array.nbytes for array in self.arrays().values())

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codes each level has."""
        return self.layout.sizes

    @cached_property
    def first_rows_of_cells(self) -> np.ndarray:
        """The first row of each cell, then the number of rows, [cells + 1]: `cell_starts`, or the same made
        now."""
        if self.cell_starts is not None:
            return self.cell_starts
        semantic, size = self.layout.semantic, self.sizes[self.layout.semantic]
        cells = _unpack_level(self.words, self.layout.places[semantic]).astype(np.int64)
        if self.modality_starts is not None:
            counts = np.diff(self.modality_starts.astype(np.int64)).astype(np.int64)
            cells += np.repeat(np.arange(self.sizes[0]) * size, counts)
        return _group_starts(cells, np.dtype(np.int64), self.layout.num_cells + 1)

    def codes(self, rows: np.ndarray) -> np.ndarray:
        """The codes of sorted rows [n]: uint16 [n, levels]."""
        rows = np.asarray(rows)
        codes = np.empty((len(rows), len(self.sizes)), np.uint16)
        words = [word[rows] for word in self.words]
        for level, place in enumerate(self.layout.places):
            if level < self.layout.semantic:
                assert self.modality_starts is not None
                codes[:, level] = np.searchsorted(self.modality_starts, rows, side="right") - 1
            else:
                codes[:, level] = _unpack_level(words, place)
        return codes


def _check(codes: np.ndarray, layout: CodeLayout) -> None:
    if codes.ndim != 2 or not len(codes) or codes.shape[1] != len(layout.sizes):
        raise InputError(
            f"a search needs the codes of at least one item in {len(layout.sizes)} levels, "
            f"not the shape {codes.shape}"
        )
    if not np.issubdtype(codes.dtype, np.integer):
        raise InputError(f"codes must be integers, not {codes.dtype}")
    if codes.min() < 0 or (codes.max(axis=0) >= layout.sizes).any():
        raise InputError(f"codes must be from 0 up to the sizes of their levels, {list(layout.sizes)}")


def _pack(codes: np.ndarray, layout: CodeLayout) -> list[np.ndarray]:
    """The words of each row."""
    words = [np.zeros(len(codes), dtype) for dtype in layout.word_dtypes]
    for level, (width, word, behind, before) in enumerate(layout.places):
        if not width:
            continue
        code = codes[:, level].astype(np.uint64)
        if before:
            words[word - 1] |= code >> np.uint64(width - before)
        # What is in the word before is shifted out of this one.
        words[word] |= (code << np.uint64(behind)).astype(words[word].dtype)
    return words


def _unpack_level(words: Sequence[np.ndarray], place: LevelPlace) -> np.ndarray:
    """The codes of the level that is at this place."""
    width, word, behind, before = place
    if not width:
        return np.zeros(len(words[0]), np.uint64)
    codes = words[word].astype(np.uint64, copy=False) >> np.uint64(behind)
    if before:
        codes |= words[word - 1] << np.uint64(width - before)
    return np.asarray(codes & np.uint64((1 << width) - 1))


def _sort_order(modality: np.ndarray, words: Sequence[np.ndarray]) -> np.ndarray:
    """The rows sorted by modality code and words; equal rows keep their order.

    Sorting by one number is several times as fast as by several, so only rows that share the first word are
    sorted by the others.
    """
    hi, others = words[0], words[1:]
    order = np.argsort(modality, kind="stable")
    changes = np.flatnonzero(np.diff(modality[order])) + 1
    for start, end in pairwise([0, *changes, len(order)]):
        rows = order[start:end]
        rows = rows[np.argsort(hi[rows])]
        same = hi[rows[1:]] == hi[rows[:-1]]
        tied = np.zeros(len(rows), bool)
        tied[1:] |= same
        tied[:-1] |= same
        tied_rows = rows[tied]
        keys = [tied_rows, *(word[tied_rows] for word in reversed(others)), hi[tied_rows]]
        rows[tied] = tied_rows[np.lexsort(keys)]
        order[start:end] = rows
    return order


def _group_starts(groups: np.ndarray, dtype: np.dtype[Any], length: int) -> np.ndarray:
    """The first sorted row of each group, then the number of rows."""
    return np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=length - 1))]).astype(dtype)
