"""Changes to items that are in an index: what is given changes, the rest stays.

An `Item` changes what it has: its text, its image, and the metadata it has values for. To change metadata
alone, or to take something away, a mapping says exactly what is meant: `{"id": "42", "metadata": {"price":
30}}`, `{"id": "42", "text": None}`.
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
from genius.data.images import image_source
from genius.data.records import Item
from genius.errors import GeniusError, InputError, ItemError
from genius.index import writer as committing
from genius.index.catalogue import Catalogue
from genius.index.disk import disk_said
from genius.index.entries import Entry, entry_of, item_of, must_be_kept, picture_key
from genius.index.item_encoder import CodedItems, Coder
from genius.index.segments import Block
from genius.index.writer import Committer, Waiting
from genius.progress import bar

Change = Item | Mapping[str, Any]

FIELDS = ("id", "text", "image", "metadata")


def id_of(change: Change) -> str:
    """Whose change it is. Raises InputError for what is no change."""
    if isinstance(change, Item):
        return change.id
    if not isinstance(change, Mapping):
        raise InputError(f"an index takes items, and this is a {type(change).__name__}")
    id = change.get("id")
    if not isinstance(id, str) or not id:
        raise InputError(f"a change needs the id of an item, a text, and this has {id!r}")
    return id


def changed(old: Item, change: Change) -> Item:
    """The item after a change. Raises InputError for a change that can't be made."""
    if isinstance(change, Item):
        text, image = change.text or old.text, change.image or old.image
        return Item(old.id, text, image, {**old.metadata, **change.metadata})
    unknown = sorted(set(change) - set(FIELDS), key=str)
    if unknown:
        raise InputError(f"unknown field {unknown[0]!r}: a change has {', '.join(FIELDS)}")
    text = change.get("text", old.text)
    if text is not None and not isinstance(text, str):
        raise InputError(f"a text should be a text, and is a {type(text).__name__}")
    image = old.image
    if "image" in change:
        image = None if change["image"] is None else image_source(change["image"])
    metadata = change.get("metadata", {})
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InputError(f"metadata should be a mapping or None, and is a {type(metadata).__name__}")
    return Item(old.id, text, image, {} if metadata is None else {**old.metadata, **metadata})


CHUNK = 512
"""How many items are coded at a time."""


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
        """Change items that are there; see `genius.index.ingest`. What is committed stays."""
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
            self._embeddings.append(coded.embeddings)
            self._blocks.append(replace(coded, embeddings=coded.embeddings[:0]))

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
                embeddings=self._embeddings.all(),
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
