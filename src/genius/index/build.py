"""Adding items to an index: coded a few hundred at a time, committed in blocks, each with its own segment.

What is committed stays, whatever happens later. Added again, an item that is there as it is costs a look;
so a build that was stopped goes on with the same source.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Generator, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from genius.data.collection import Failures
from genius.data.records import Item
from genius.errors import GeniusError, InputError
from genius.index import committing
from genius.index.catalogue import Catalogue
from genius.index.changes import Change, changed, id_of
from genius.index.coding import CodedItems, Coder
from genius.index.committing import Committer
from genius.index.disk import disk_said
from genius.index.entries import Entry, entry_of, item_of, must_be_kept, picture_key
from genius.index.segments import Block
from genius.index.waiting import Waiting
from genius.progress import bar

CHUNK = 512
"""How many items are coded at a time."""


class ItemError(InputError):
    """What is wrong with one of several items."""

    def __init__(self, id: str, error: InputError) -> None:
        super().__init__(f"item {id!r}: {error}")
        self.id, self.why = id, error.reason
        self.reason = f"item {id!r}: {error.reason}"  # without where its file is, for who should not know


@dataclass
class Added:
    """What became of items: added anew, put in the place of older ones, known as they are, or failed."""

    added: int = 0
    replaced: int = 0
    known: int = 0
    failures: Failures = field(default_factory=Failures)

    def fail(self, id: str, error: InputError, *, strict: bool) -> None:
        """Report what is wrong with an item, or raise it if `strict`."""
        named = ItemError(id, error)
        if strict:
            raise named from error
        self.failures.add(named)

    def add(self, other: Added) -> None:
        """Count what became of others too."""
        self.added += other.added
        self.replaced += other.replaced
        self.known += other.known
        self.failures.count += other.failures.count - len(other.failures.first)
        for error in other.failures.first:
            self.failures.add(error)


@contextlib.contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Be the one process that writes to an index; a crash lets go of it.

    Raises GeniusError if another one does, DiskError if the disk can't take what is written.
    """
    with disk_said(path), (path / "writer.lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise GeniusError(
                f"{path} is being written to by another process: wait until it is done"
            ) from None
        yield


class Builder:
    """Adds and changes items; the caller is the only writer of the index."""

    def __init__(self, catalogue: Catalogue, committer: Committer, code: Coder, *, strict: bool) -> None:
        self._catalogue, self._committer, self._code, self._strict = catalogue, committer, code, strict
        self._report = Added()
        self._touched: set[str] = set()
        self._pending: dict[str, Entry] = {}
        self._replaced: list[int] = []
        self._revised: dict[int, Entry] = {}
        self._blocks: list[CodedItems] = []
        self._embeddings = Waiting(committer.path)

    def add(self, items: Iterable[Item], total: int | None = None) -> Added:
        """Add items; what is committed stays when this is stopped."""
        with contextlib.closing(self._chunks(items, "indexing", total)) as chunks:
            for chunk in chunks:
                if not all(isinstance(item, Item) for item in chunk):
                    raise InputError("an index takes items, and this is a mapping: give it to update")
                fine = [item for item in chunk if self._can_be_kept(item)]
                self._take(fine, self._catalogue.stored(item.id for item in fine))
        return self._report

    def update(self, changes: Iterable[Change], total: int | None = None) -> Added:
        """Change items that are there; see `genius.index.changes`. What is committed stays."""
        with contextlib.closing(self._chunks(changes, "updating", total)) as chunks:
            for chunk in chunks:
                stored = self._catalogue.stored(id for id in map(id_of, chunk) if _is_unicode(id))
                items = [item for change in chunk if (item := self._changed(change, stored)) is not None]
                self._take(items, stored)
        return self._report

    def _chunks(
        self, things: Iterable[Any], doing: str, total: int | None
    ) -> Generator[list[Any], None, None]:
        """Things in lists in which no id occurs twice, each taken up when the next is asked for."""
        self._committer.clear()
        if total is None and isinstance(things, Sized):
            total = len(things)
        with contextlib.closing(self._embeddings), bar(doing, total=total) as shown:
            for chunk in _chunks(things):
                if not self._touched.isdisjoint(map(id_of, chunk)):
                    self._commit()  # an id that comes again takes the place of what it stood for
                yield chunk
                if len(self._touched) >= max(committing.BLOCK, min(self._report.added, committing.LARGEST)):
                    self._commit()
                shown.advance(len(chunk))
            self._commit()

    def _changed(self, change: Change, stored: Mapping[str, tuple[int, Entry]]) -> Item | None:
        """The item after a change, if it must be looked at again; its picture may be gone, if it need not."""
        id = id_of(change)
        try:
            if id not in stored:
                raise InputError("is not in the index: add it")
            row, entry = stored[id]
            old = item_of(entry, self._catalogue.path)
            new = changed(old, change)
            same = new.image is old.image and self._settled(entry_of(new, entry.picture), row, entry)
        except InputError as error:
            self._fail(id, error)
            return None
        return new if not same and self._can_be_kept(new) else None

    def _take(self, items: list[Item], stored: Mapping[str, tuple[int, Entry]]) -> None:
        """Code the items that are not known as they are; for new metadata alone, codes stay."""
        fresh = [item for item in items if item.id not in stored or not self._known(item, *stored[item.id])]
        if not fresh:
            return
        coded = self._code(fresh)
        for id, error in coded.failed.items():
            self._fail(id, error)
        kept = []
        for place in coded.places:
            item = fresh[place]
            picture = coded.pictures.get(item.id)
            self._pending[item.id] = entry_of(item, picture)
            if item.id in stored:
                self._replaced.append(stored[item.id][0])
            if item.image is not None and picture is not None and must_be_kept(item.image):
                kept.append((picture, item.image.read()))
        self._touched.update(self._pending)
        if kept:
            self._catalogue.keep_pictures(kept)
        if len(coded.places):
            self._embeddings.append(coded.joined)
            self._blocks.append(replace(coded, joined=coded.joined[:0]))

    def _can_be_kept(self, item: Item) -> bool:
        """Whether an item can be written; a text may hold half a character, as Python reads broken names."""
        try:
            entry_of(item, None)
        except InputError as error:
            self._fail(item.id, error)
            return False
        return True

    def _known(self, item: Item, row: int, old: Entry) -> bool:
        """Whether an item need not be coded: it is there, as it is or but for its metadata."""
        try:
            entry = entry_of(item, picture_key(item.image))
        except InputError:
            return False  # coding it will say what is wrong
        return self._settled(entry, row, old)

    def _settled(self, entry: Entry, row: int, old: Entry) -> bool:
        if entry.content == old.content:
            self._report.known += 1
        elif replace(entry, metadata=old.metadata, content=old.content) == old:
            self._revised[row] = entry
            self._touched.add(entry.id)
        else:
            return False
        return True

    def _fail(self, id: str, error: InputError) -> None:
        self._report.fail(id, error, strict=self._strict)

    def _commit(self) -> None:
        if not self._touched:
            return
        entries, block = list(self._pending.values()), None
        if self._blocks:
            block = Block(
                codes=np.concatenate([coded.codes for coded in self._blocks]),
                modality=np.concatenate([coded.modality for coded in self._blocks]),
                joined=self._embeddings.all(),
                rows=self._catalogue.state().next_row + np.arange(len(entries)),
                halves=np.concatenate([coded.halves for coded in self._blocks]),
            )
        self._committer.commit(entries, block, self._replaced, self._revised)
        self._report.added += len(entries) - len(self._replaced)
        self._report.replaced += len(self._replaced) + len(self._revised)
        self._touched, self._pending, self._replaced, self._revised, self._blocks = set(), {}, [], {}, []
        self._embeddings.close()


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _chunks(things: Iterable[Any]) -> Iterator[list[Any]]:
    """Items, or changes, in lists in which no id occurs twice."""
    chunk: dict[str, Any] = {}
    for thing in things:
        id = id_of(thing)
        if id in chunk or len(chunk) == CHUNK:
            yield list(chunk.values())
            chunk = {}
        chunk[id] = thing
    if chunk:
        yield list(chunk.values())
