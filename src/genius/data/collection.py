"""What every reader shares: streaming, failures that are recorded and don't stop it, ids that occur once."""

from __future__ import annotations

import abc
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from genius.data.records import Item
from genius.errors import InputError

Report = Callable[[InputError], None]
"""Where a reader takes what it can't read: recorded, or raised when the reader is strict."""

Located = tuple[Path, int | None, Item]
"""An item with the file and the line that it was read from."""

BLOCK = 1024


@dataclass
class Failures:
    """What could not be read: how many, and the first ones in full."""

    count: int = 0
    first: list[InputError] = field(default_factory=list)

    KEPT: ClassVar[int] = 1000

    def add(self, error: InputError) -> None:
        """Record one more."""
        self.count += 1
        if len(self.first) < self.KEPT:
            self.first.append(error)


class Collection(abc.ABC):
    """Items that can be read any number of times, one after the other, in constant memory.

    (But for eight bytes an id, by which an id that occurs twice is noticed.) A line or file that can't be
    read is recorded in `failures`, which belongs to the latest pass, and left out; with `strict` it is
    raised. A source without a single readable item is an InputError.
    """

    kind: ClassVar[str]

    def __init__(self, path: Path, *, root: Path | None = None, strict: bool = False) -> None:
        self.path = path
        self.root = path if path.is_dir() else path.parent
        if root is not None:
            self.root = root
        self.strict = strict
        self.failures = Failures()

    @abc.abstractmethod
    def _located_items(self, report: Report) -> Iterator[Located]:
        """The items as they come, with their places; what can't be read goes to `report`."""

    def __iter__(self) -> Iterator[Item]:
        self.failures = Failures()
        return unique_items(self._located_items(self._report), self._report, self._refuse_empty)

    def _report(self, error: InputError) -> None:
        if self.strict:
            raise error
        self.failures.add(error)

    def _refuse_empty(self) -> None:
        if self.failures.first:
            raise self.failures.first[0]
        raise InputError("holds no item", path=self.path)


def unique_items(
    located: Iterator[Located], report: Report, when_empty: Callable[[], None]
) -> Iterator[Item]:
    """The items without their places; an id's second occurrence goes to `report`."""
    seen = SeenIds()
    empty = True
    while block := list(itertools.islice(located, BLOCK)):
        repeated = seen.add([item.id for _, _, item in block])
        for position, (path, line, item) in enumerate(block):
            if position in repeated:
                report(
                    InputError(f"id {item.id!r} was used before: ids must be unique", path=path, line=line)
                )
            else:
                empty = False
                yield item
    if empty:
        when_empty()


class SeenIds:
    """Which ids have occurred, at eight bytes an id.

    Python's keyed 64-bit hash stands for the id: among a hundred million ids, two different ones are
    taken for equal with a chance of less than one in three thousand.
    """

    def __init__(self) -> None:
        self._runs: list[np.ndarray] = []  # sorted, each at least twice as long as the next

    def add(self, ids: list[str]) -> set[int]:
        """Add ids; returns the positions of those that had occurred, here or before."""
        if not ids:
            return set()
        hashes = np.fromiter(map(hash, ids), np.int64, len(ids))
        values, first = np.unique(hashes, return_index=True)
        repeated = set(range(len(ids))) - set(first.tolist()) if len(values) < len(ids) else set()
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, values), len(run) - 1)
            known = run[places] == values
            if known.any():
                repeated.update(first[known].tolist())
        self._runs.append(values)
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            merged = np.concatenate([self._runs.pop(), self._runs.pop()])
            merged.sort(kind="stable")  # two sorted runs: a merge
            self._runs.append(merged)
        return repeated
