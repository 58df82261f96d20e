"""What can be looked up in an index without a query: items, their codes, and what lies under a code.

Codes are a catalogue from coarse to fine. Segments are sorted by code, so what shares a prefix is one run of
rows in each of them, found by bisection.
"""

from __future__ import annotations

import contextlib
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from genius.data.records import Item
from genius.errors import InputError
from genius.index.catalogue import Catalogue
from genius.index.entries import item_of
from genius.index.segments import Coding, Segment
from genius.index.snapshot import View
from genius.search.codes import PackedCodes

AT_ONCE = 1 << 16
"""How many codes are unpacked at a time."""

Prefix = tuple[int | None, ...]
"""The first codes of an identifier, from the first level on; None, only in front, stands for any."""


@dataclass(frozen=True)
class Cell:
    """What lies under a prefix.

    Attributes:
        count: how many items there are.
        children: the codes that follow, with how many items each has, the largest first; none below a code.
        items: some of the items, spread evenly over their codes.
    """

    prefix: Prefix
    count: int
    children: tuple[tuple[int, int], ...]
    items: tuple[Item, ...]


class Here(threading.local):
    """The version that a thread is reading, if it is, and whether it is writing."""

    view: View | None = None
    writing: bool = False


class Browsing:
    """The part of an index that looks things up."""

    _catalogue: Catalogue
    _coding: Coding
    _here: Here

    def _reading(self) -> AbstractContextManager[View]:
        raise NotImplementedError

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Within, all that this thread asks of the index is of one version; it can't change it meanwhile."""
        with self._reading():
            yield

    def __len__(self) -> int:
        """How many items there are."""
        return len(self._catalogue)

    def __contains__(self, id: str) -> bool:
        return bool(self._catalogue.known([id]))

    def __iter__(self) -> Iterator[Item]:
        """All items, in the order in which they were added, of the version of when it began."""
        rows = self._catalogue.snapshot() if self._here.view is None else self._catalogue.walk()
        return (item_of(entry, self._catalogue.path) for _, entry in rows)

    def page(self, after: int = 0, most: int = 100) -> list[tuple[int, Item]]:
        """The next items behind a row, which is 0 at first, each with its own row."""
        return [
            (row, item_of(entry, self._catalogue.path)) for row, entry in self._catalogue.after(after, most)
        ]

    @property
    def filter_seconds(self) -> float:
        """How long a filter may take; one that takes longer is an error. It can be set."""
        return self._catalogue.filter_seconds

    @filter_seconds.setter
    def filter_seconds(self, seconds: float) -> None:
        self._catalogue.filter_seconds = seconds

    @property
    def version(self) -> int:
        """It goes up with every change of the index."""
        return self._catalogue.state().version

    @property
    def coding(self) -> Coding:
        """What codes are made of."""
        return self._coding

    def get(self, id: str) -> Item | None:
        """The item with this id, if there is one."""
        found = self._catalogue.stored([id])
        return item_of(found[id][1], self._catalogue.path) if id in found else None

    def code(self, id: str) -> tuple[int, ...] | None:
        """The code of the item with this id, if there is one."""
        with self._reading() as view:
            row = self._catalogue.known([id]).get(id)
            return None if row is None else tuple(view.stored(row)[0].tolist())

    def cell(self, prefix: Sequence[int | None] = (), items: int = 0) -> Cell:
        """What lies under a prefix of codes, with so many of its items; the empty prefix is everything.

        Raises InputError for more levels than there are, and for codes that can't be.
        """
        wanted = tuple(prefix)
        self._check(wanted)
        with self._reading() as view:
            rows, counts = self._under(view, wanted)
            chosen = rows[np.arange(min(items, len(rows))) * len(rows) // max(1, min(items, len(rows)))]
            order = np.argsort(-counts, kind="stable")
            children = tuple((int(code), int(counts[code])) for code in order if counts[code])
            return Cell(wanted, len(rows), children, tuple(self._found(chosen.tolist())))

    def _found(self, rows: list[int]) -> list[Item]:
        entries = self._catalogue.entries(rows)
        return [item_of(entries[row], self._catalogue.path) for row in rows if row in entries]

    def _under(self, view: View, prefix: Prefix) -> tuple[np.ndarray, np.ndarray]:
        """The live rows under a prefix in the order of codes, and how many have each code that follows."""
        depth, sizes = len(prefix), self._coding.sizes
        counts = np.zeros(sizes[depth] if depth < len(sizes) else 0, np.int64)
        found = [np.zeros(0, np.int64)]
        for segment in view.segments.values():
            for start, end in _runs(segment, prefix, sizes):
                rows = segment.rows[start:end].astype(np.int64)
                live = ~np.isin(rows, view.removed) if len(view.removed) else np.ones(len(rows), bool)
                found.append(rows[live])
                if len(counts):
                    codes = segment.packed.codes(np.arange(start, end))[live, depth]
                    counts += np.bincount(codes, minlength=len(counts))
        return np.concatenate(found), counts

    def _check(self, prefix: Prefix) -> None:
        sizes = self._coding.sizes
        if len(prefix) > len(sizes):
            raise InputError(f"codes have {len(sizes)} levels, and this prefix {len(prefix)}")
        if None in prefix[1:] or (prefix[:1] == (None,) and not self._coding.semantic):
            raise InputError("only a first code that tells the modality can stand for any")
        for level, (code, size) in enumerate(zip(prefix, sizes, strict=False), 1):
            if code is not None and not 0 <= code < size:
                raise InputError(f"level {level} has codes from 0 to {size - 1}, and not {code}")


def _runs(segment: Segment, prefix: Prefix, sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The rows of a segment under a prefix, in runs that are not too long: first, and behind the last."""
    firsts = range(sizes[0]) if prefix[:1] == (None,) else prefix[:1]
    for wanted in [(first, *prefix[1:]) for first in firsts] or [()]:
        key = _beginning(segment.packed, len(wanted))
        start = bisect_left(range(len(segment)), wanted, key=key)
        end = bisect_right(range(len(segment)), wanted, lo=start, key=key)
        yield from ((first, min(first + AT_ONCE, end)) for first in range(start, end, AT_ONCE))


def _beginning(packed: PackedCodes, depth: int) -> Callable[[int], tuple[int, ...]]:
    """What tells the first codes of a sorted row."""
    return lambda row: tuple(packed.codes(np.array([row]))[0, :depth].tolist())
