"""The base of all readers: they stream items, record failures without stopping, and keep ids unique."""

from __future__ import annotations

import abc
import copy
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from genius.data.file_kinds import UnreadKind, skipped_notes
from genius.data.records import Item
from genius.errors import InputError

Report = Callable[[InputError], None]
"""Receives the error of a line or file that can't be read: records it, or raises it in a strict reader."""

Located = tuple[Path, int | None, Item]
"""The file and the line that an item was read from, and the item."""

BLOCK = 1024


@dataclass
class Failures:
    """The number of lines and files that could not be read, and the first errors.

    All errors go to `listener`, if there is one, as they come.
    """

    count: int = 0
    first: list[InputError] = field(default_factory=list)
    listener: Report | None = None

    KEPT: ClassVar[int] = 1000

    def add(self, error: InputError) -> None:
        """Record an error."""
        self.count += 1
        if len(self.first) < self.KEPT:
            self.first.append(error)
        if self.listener is not None:
            self.listener(error)


class Collection(abc.ABC):
    """A stream of items that can be iterated over any number of times, in constant memory.

    (Apart from eight bytes per id, to detect duplicates.) A line or file that can't be read is skipped and
    recorded in `failures`, which belongs to the latest pass; with `strict` it is raised. A source without a
    single readable item raises InputError. Files of kinds that are not read are counted in `skipped`.
    """

    kind: ClassVar[str]
    failure_listener: Report | None = None
    """Receives every error of the passes that begin from now on."""
    may_be_empty: bool = False
    """Whether it is no error that there is no readable item."""

    def __init__(self, path: Path, *, root: Path | None = None, strict: bool = False) -> None:
        self.path = path
        self.root = path if path.is_dir() else path.parent
        if root is not None:
            self.root = root
        self.strict = strict
        self.failures = Failures()
        self.skipped: Counter[UnreadKind] = Counter()

    @abc.abstractmethod
    def _located_items(self, report: Report) -> Iterator[Located]:
        """The items in order, with their places; errors go to `report`."""

    def __iter__(self) -> Iterator[Item]:
        self.failures = Failures(listener=self.failure_listener)
        self.skipped = Counter()
        return unique_items(self._located_items(self._report), self._report, self._refuse_empty)

    def without_exif(self) -> Collection:
        """The same items, to be looked through: without what cameras wrote into images, and unheard."""
        twin = copy.copy(self)
        twin.failure_listener = None
        return twin

    @property
    def place(self) -> str:
        """What an index knows the collection by: its full path."""
        return str(self.path.resolve())

    @property
    def notes(self) -> list[str]:
        """What was skipped in the latest pass, a sentence a kind of file."""
        return skipped_notes(self.skipped)

    def _report(self, error: InputError) -> None:
        if self.strict:
            raise error
        self.failures.add(error)

    def _refuse_empty(self) -> None:
        if self.may_be_empty:
            return
        if self.failures.first:
            raise self.failures.first[0]
        raise InputError("; ".join(["holds no item", *self.notes]), path=self.path)


def unique_items(
    located: Iterator[Located], report: Report, when_empty: Callable[[], None]
) -> Iterator[Item]:
    """The items without their places; repeated ids go to `report`, and `when_empty` is called without any."""
    empty = True
    for _, _, item in unique_located(located, report):
        empty = False
        yield item
    if empty:
        when_empty()


def unique_located(located: Iterator[Located], report: Report) -> Iterator[Located]:
    """The items whose ids have not occurred before; the others go to `report`."""
    seen = SeenIds()
    while block := list(itertools.islice(located, BLOCK)):
        repeated = seen.add([item.id for _, _, item in block])
        for position, (path, line, item) in enumerate(block):
            if position in repeated:
                report(repeated_id(item.id, path, line))
            else:
                yield path, line, item


def repeated_id(id: str, path: Path, line: int | None) -> InputError:
    """The error of an item whose id an earlier one has."""
    return InputError(f"id {id!r} was used before: ids must be unique", path=path, line=line)


class SeenIds:
    """The set of ids that have occurred, in eight bytes per id.

    Only Python's keyed 64-bit hash of an id is kept: among a hundred million ids, the chance that any two
    different ones are taken for equal is less than one in three thousand.
    """

    def __init__(self) -> None:
        self._runs: list[np.ndarray] = []  # sorted, each at least twice as long as the next

    def add(self, ids: list[str]) -> set[int]:
        """Add ids; returns the positions of those that repeat an earlier one, in this call or before."""
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
