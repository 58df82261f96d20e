"""Adding and changing items: encoded a few hundred at a time, committed in blocks, each with its own segment.

What is committed stays, whatever happens later. Unchanged items are recognised by content hash and skipped,
so a build that was stopped goes on with the same source.

A change gives what is new, the rest stays. An `Item` changes what it has: its text, its image, and the
metadata it has values for. To change metadata alone, or to take something away, a mapping says exactly what
is meant: `{"id": "42", "metadata": {"price": 30}}`, `{"id": "42", "text": None}`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from genius.data.collection import Failures
from genius.data.images import image_source
from genius.data.records import Item
from genius.errors import InputError, ItemError
from genius.index import writer as segment_writer
from genius.index.catalogue import Catalogue
from genius.index.entries import Entry, ReadValues, entry_of, image_hash_of, item_of, must_be_kept
from genius.index.folder_comparison import gone_items
from genius.index.item_encoder import EncodedItems, EncodeItems
from genius.index.segments import Block
from genius.index.sources import FolderItems, SourceItems, drop_former_items
from genius.index.writer import Revision, SegmentWriter, SpillFile
from genius.progress import bar

Change = Item | Mapping[str, Any]

CHANGE_FIELDS = ("id", "text", "image", "metadata")
CHUNK = 512
"""How many items are encoded at a time."""


@dataclass
class Added:
    """What became of items: how many were added, replaced, known before (unchanged), and which failed.

    The ids of a source may have got a `prefix`, to tell them from those of another source. `gone` is how many
    items of a folder that was added have no file there any more; they stay.
    """

    added: int = 0
    replaced: int = 0
    known: int = 0
    failures: Failures = field(default_factory=Failures)
    prefix: str = ""
    gone: int = 0

    def fail(self, id: str, error: InputError, *, strict: bool) -> None:
        """Record what is wrong with an item, or raise it if `strict`."""
        named = ItemError(id, error)
        if strict:
            raise named from error
        self.failures.add(named)

    def add(self, other: Added) -> None:
        """Add another report to this one."""
        self.added += other.added
        self.replaced += other.replaced
        self.known += other.known
        self.failures.count += other.failures.count - len(other.failures.first)
        for error in other.failures.first:
            self.failures.add(error)


class Ingest:
    """Adds and changes items; the caller is the only writer of the index."""

    def __init__(
        self,
        catalogue: Catalogue,
        writer: SegmentWriter,
        encode: EncodeItems,
        *,
        strict: bool,
        report: Added | None = None,
    ) -> None:
        self._catalogue, self._writer, self._encode, self._strict = catalogue, writer, encode, strict
        self._report = report or Added()
        self._touched: set[str] = set()
        self._pending: dict[str, Entry] = {}
        self._replaced: list[int] = []
        self._revised: dict[int, Entry] = {}
        self._blocks: list[EncodedItems] = []
        self._embeddings = SpillFile(writer.path)
        self._read_values: dict[str, ReadValues] = {}

    def add(
        self,
        items: Iterable[Item],
        total: int | None = None,
        read_values: dict[str, ReadValues] | None = None,
    ) -> Added:
        """Add items; what is committed stays when this is stopped.

        `read_values` is what was read of those that have other values, by id; it may grow with the items.
        """
        self._read_values = {} if read_values is None else read_values
        texts: list[str] = []
        source = items if isinstance(items, SourceItems) else None
        self._report.prefix = source.prefix if source else ""
        with contextlib.closing(self._chunks(items, "indexing", total)) as chunks:
            for chunk in chunks:
                if not all(isinstance(item, Item) for item in chunk):
                    raise InputError("an index takes items, and this is a mapping: give it to update")
                valid = [item for item in chunk if self._can_be_stored(item)]
                stored = self._catalogue.stored(item.id for item in valid)
                if source is not None:
                    valid = [item for item in valid if self._may_replace(item, stored, source)]
                self._take(valid, stored)
                if source is not None and source.is_folder:  # others may have more texts than memory holds
                    texts += [item.id for item in valid if item.image is None]
        if source is not None:
            drop_former_items(self._catalogue, source)
            source.keep_text_files(self._catalogue, texts)
            one_index = len(self._catalogue.folders) == 1  # shards are not kept in step with a folder
            if source.is_whole_folder and one_index and len(self._catalogue) > self._report.added:
                self._report.gone = len(gone_items(self._catalogue, source))
        return self._report

    def update(self, changes: Iterable[Change], total: int | None = None) -> Added:
        """Change items of the index. What is committed stays when this is stopped."""
        folder_items = FolderItems(self._catalogue)
        with contextlib.closing(self._chunks(changes, "updating", total)) as chunks:
            for chunk in chunks:
                stored = self._catalogue.stored(id for id in map(id_of, chunk) if _is_unicode(id))
                self._read_values.update(folder_items.read_values(stored))
                items = [item for change in chunk if (item := self._changed(change, stored)) is not None]
                self._take(items, stored)
        return self._report

    def _chunks(
        self, things: Iterable[Any], doing: str, total: int | None
    ) -> Generator[list[Any], None, None]:
        """Items or changes in lists without repeated ids; each list is processed before the next is made."""
        self._writer.remove_orphans()
        if total is None and isinstance(things, Sized):
            total = len(things)
        with contextlib.closing(self._embeddings), bar(doing, total=total) as shown:
            for chunk in _chunks(things):
                if not self._touched.isdisjoint(map(id_of, chunk)):
                    self._commit()  # an id that comes again replaces what it stood for
                yield chunk
                largest = min(self._report.added, segment_writer.LARGEST_BLOCK)
                if len(self._touched) >= max(segment_writer.FULL_BLOCK, largest):
                    self._commit()
                shown.advance(len(chunk))
            self._commit()

    def _changed(self, change: Change, stored: Mapping[str, tuple[int, Entry]]) -> Item | None:
        """The item after a change, if it must be encoded again; otherwise its image is not even read."""
        id = id_of(change)
        try:
            if id not in stored:
                raise InputError("is not in the index: add it")
            key, entry = stored[id]
            old = item_of(entry, self._catalogue.path)
            new = apply_change(old, change)
            same = new.image is old.image and self._needs_no_encoding(
                entry_of(new, entry.image_hash), key, entry
            )
        except InputError as error:
            self._fail(id, error)
            return None
        return new if not same and self._can_be_stored(new) else None

    def _take(self, items: list[Item], stored: Mapping[str, tuple[int, Entry]]) -> None:
        """Encode the items that are new or changed; for new metadata alone, codes stay."""
        fresh = [
            item for item in items if item.id not in stored or not self._is_known(item, *stored[item.id])
        ]
        if not fresh:
            return
        encoded = self._encode(fresh)
        for id, error in encoded.failed.items():
            self._fail(id, error)
        kept = []
        for place in encoded.places:
            item = fresh[place]
            image_hash = encoded.image_hashes.get(item.id)
            self._pending[item.id] = entry_of(item, image_hash)
            if item.id in stored:
                self._replaced.append(stored[item.id][0])
            if item.image is not None and image_hash is not None and must_be_kept(item.image):
                kept.append((item.id, image_hash, item.image.read()))
        self._touched.update(self._pending)
        if kept:
            self._catalogue.keep_images(kept)
        if len(encoded.places):
            self._embeddings.append(encoded.embeddings)
            self._blocks.append(replace(encoded, embeddings=encoded.embeddings[:0]))

    def _can_be_stored(self, item: Item) -> bool:
        """Whether an item can be written: a text may hold half a character, as Python reads broken names."""
        try:
            entry_of(item, None)
        except InputError as error:
            self._fail(item.id, error)
            return False
        return True

    def _may_replace(self, item: Item, stored: Mapping[str, tuple[int, Entry]], source: SourceItems) -> bool:
        """Whether an item's id is free for it; an item of another source is not replaced by the way."""
        conflict = None
        if item.id in stored:
            conflict = source.conflict(item, stored[item.id][1], self._catalogue.path)
        if conflict is not None:
            self._fail(item.id, conflict)
        return conflict is None

    def _is_known(self, item: Item, item_key: int, old: Entry) -> bool:
        """Whether an item need not be encoded: it is stored, unchanged or with other metadata."""
        try:
            entry = entry_of(item, image_hash_of(item))
        except InputError:
            return False  # encoding it will say what is wrong
        return self._needs_no_encoding(entry, item_key, old)

    def _needs_no_encoding(self, entry: Entry, item_key: int, old: Entry) -> bool:
        if entry.content_hash == old.content_hash:
            self._report.known += 1
        elif replace(entry, metadata=old.metadata, content_hash=old.content_hash) == old:
            self._revised[item_key] = entry
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
                codes=np.concatenate([encoded.codes for encoded in self._blocks]),
                modality=np.concatenate([encoded.modality for encoded in self._blocks]),
                embeddings=self._embeddings.read(),
                item_keys=self._catalogue.state().next_key + np.arange(len(entries)),
                half_sq_norms=np.concatenate([encoded.half_sq_norms for encoded in self._blocks]),
            )
        read = {id: self._read_values.pop(id) for id in self._touched & self._read_values.keys()}
        self._writer.commit(Revision(entries, block, self._replaced, self._revised, read))
        self._report.added += len(entries) - len(self._replaced)
        self._report.replaced += len(self._replaced) + len(self._revised)
        self._touched, self._pending, self._replaced, self._revised, self._blocks = set(), {}, [], {}, []
        self._embeddings.close()


def id_of(change: Change) -> str:
    """The id that a change is for. Raises InputError for what is no change."""
    if isinstance(change, Item):
        return change.id
    if not isinstance(change, Mapping):
        raise InputError(f"an index takes items, and this is a {type(change).__name__}")
    id = change.get("id")
    if not isinstance(id, str) or not id:
        raise InputError(f"a change needs the id of an item, a text, and this has {id!r}")
    return id


def apply_change(old: Item, change: Change) -> Item:
    """The item after a change. Raises InputError for a change that can't be made."""
    if isinstance(change, Item):
        text, image = change.text or old.text, change.image or old.image
        return Item(old.id, text, image, {**old.metadata, **change.metadata})
    unknown = sorted(set(change) - set(CHANGE_FIELDS), key=str)
    if unknown:
        raise InputError(f"unknown field {unknown[0]!r}: a change has {', '.join(CHANGE_FIELDS)}")
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


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _chunks(things: Iterable[Any]) -> Iterator[list[Any]]:
    """Items or changes in lists in which no id occurs twice."""
    chunk: dict[str, Any] = {}
    for thing in things:
        id = id_of(thing)
        if id in chunk or len(chunk) == CHUNK:
            yield list(chunk.values())
            chunk = {}
        chunk[id] = thing
    if chunk:
        yield list(chunk.values())
