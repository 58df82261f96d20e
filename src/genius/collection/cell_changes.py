"""Cells of codes that have another share of new items than of old ones, by more than chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from genius.collection.count_tests import Tails, corrected, homogeneity

RATIO = 1.5
"""A cell is named if its share has grown, or shrunk, by this factor at least."""
STRAY = 0.1
"""A cell appeared, or emptied, if it had, or has, at most this part of its share: a few strays."""
FEWEST, CELLS = 8, 2000
"""A cell that is tested has so many items at least, or one of `CELLS` parts of them, if that is more."""
COARSE_CELLS = 100
"""All cells are tested at a depth at which there are about so many."""

ChangeKind = Literal["appeared", "grew", "shrank", "emptied"]


@dataclass(frozen=True)
class CellChange:
    """A cell with its counts, what became of it, and the corrected p-value."""

    prefix: tuple[int, ...]
    kind: ChangeKind
    old: int
    new: int
    p_value: float


@dataclass(frozen=True, eq=False)
class CellTable:
    """All items in the order of their codes [n, levels], and which of them are new [n]."""

    codes: np.ndarray
    is_new: np.ndarray

    @classmethod
    def of(cls, old: np.ndarray, new: np.ndarray) -> CellTable:
        """From the codes of old and of new items, in any order."""
        codes = np.concatenate([old, new]).astype(np.int64)
        is_new = np.repeat([False, True], [len(old), len(new)])
        order = np.lexsort(codes.T[::-1])
        return cls(codes[order], is_new[order])

    def cells(self, depth: int, fewest: int) -> list[tuple[tuple[int, ...], int, int]]:
        """The prefixes of a depth that so many items have at least, with the number of old and new ones."""
        starts = self._starts(depth)
        ends = np.append(starts[1:], len(self.codes))
        before = np.concatenate([[0], np.cumsum(self.is_new)])
        new = before[ends] - before[starts]
        return [
            (tuple(self.codes[start, :depth].tolist()), int(end - start - count), int(count))
            for start, end, count in zip(starts, ends, new, strict=True)
            if fewest <= end - start < len(self.codes)
        ]

    def _starts(self, depth: int) -> np.ndarray:
        differs = (self.codes[1:, :depth] != self.codes[:-1, :depth]).any(1)
        return np.concatenate([[0], 1 + np.flatnonzero(differs)])

    def without(self, prefixes: Sequence[tuple[int, ...]]) -> CellTable:
        """The items that are in none of these cells."""
        kept = np.ones(len(self.codes), bool)
        for prefix in prefixes:
            kept &= (self.codes[:, : len(prefix)] != prefix).any(1)
        return CellTable(self.codes[kept], self.is_new[kept])

    def drifted(self, level: float) -> list[CellChange]:
        """The cells that have grown by more than chance, and of the rest those that have shrunk.

        Where much is new, the shares of all others shrink: so these are compared among themselves.
        """
        grown = self._changes(level, grew=True)
        rest = self.without([change.prefix for change in grown])
        return [*grown, *rest._changes(level, grew=False)]

    def _changes(self, level: float, *, grew: bool) -> list[CellChange]:
        count, new = len(self.codes), int(self.is_new.sum())
        if not 0 < new < count:
            return []
        fewest = max(FEWEST, count // CELLS)
        tested = [cell for depth in range(1, self.codes.shape[1] + 1) for cell in self.cells(depth, fewest)]
        tails = Tails(count, new)
        tail = tails.at_least if grew else tails.at_most
        p_values = corrected(np.array([tail(cell[1] + cell[2], cell[2]) for cell in tested]))
        changes: list[CellChange] = []
        for place in np.argsort(p_values, kind="stable").tolist():
            prefix, of_old, of_new = tested[place]
            if p_values[place] > level:
                break
            old_share, new_share = of_old / (count - new), of_new / new
            large = new_share >= RATIO * old_share if grew else old_share >= RATIO * new_share
            # The prefix that tells most stands for those above and below it.
            if large and not any(_nested(prefix, change.prefix) for change in changes):
                kind: ChangeKind = "grew" if old_share > STRAY * new_share else "appeared"
                if not grew:
                    kind = "shrank" if new_share > STRAY * old_share else "emptied"
                changes.append(CellChange(prefix, kind, of_old, of_new, float(p_values[place])))
        return changes

    def shift(self, random: np.random.Generator) -> tuple[float, float]:
        """How far the shares of all cells differ, and the p-value of that."""
        cells = self._coarse_starts()
        ends = np.append(cells[1:], len(self.codes))
        before = np.concatenate([[0], np.cumsum(self.is_new)])
        new = before[ends] - before[cells]
        return homogeneity(ends - cells - new, new, random)

    def _coarse_starts(self) -> np.ndarray:
        """Where about `COARSE_CELLS` cells begin, at most a fifth as many as items: prefixes, or where these
        are too many, neighbouring ones together."""
        wanted = max(1, min(COARSE_CELLS, len(self.codes) // 5))
        starts = np.zeros(1, np.int64)
        for depth in range(1, self.codes.shape[1] + 1):
            starts = self._starts(depth)
            if len(starts) > wanted:
                _, first = np.unique(starts * wanted // len(self.codes), return_index=True)
                return starts[first]
        return starts


def _nested(prefix: tuple[int, ...], other: tuple[int, ...]) -> bool:
    shorter = min(len(prefix), len(other))
    return prefix[:shorter] == other[:shorter]
