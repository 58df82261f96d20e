"""What would bring an index in step with a folder: which items are new, changed, moved and gone.

`genius.index.folder_comparison` makes a plan, `genius.index.sync` carries it out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from genius.data.collection import Failures
from genius.data.folder import Folder
from genius.data.records import Item
from genius.index.catalogue import Catalogue
from genius.index.entries import Entry, ReadValues, item_of
from genius.index.sources import Source, SourceItems, image_root

CHUNK = 512
"""How many files are compared with the catalogue at a time."""


@dataclass(frozen=True)
class Move:
    """An item that is at another place now: its item key, its id before and now."""

    item_key: int
    old: str
    new: str


@dataclass(frozen=True)
class SyncPlan:
    """What would bring an index in step with a folder.

    Attributes:
        folder: the folder.
        source: the source of the index that it is.
        inner: where it is within the source's folder, as a prefix of paths; usually empty.
        former: where the source's folder was before it was moved, if it was.
        count: how many items came from the folder.
        new: ids of files that are not in the index.
        changed: ids of files that are in it with other contents, captions or metadata.
        moved: items whose files were moved or renamed.
        gone: ids of items whose files are gone.
        gone_keys: their item keys.
        overwritten: keys of items whose files were replaced by moved ones.
        repointed: the items whose files are at the same place of a folder that was moved.
        adopted: ids of texts that are files of the folder, which was not recorded.
        unchanged: how many items are as they were.
        waiting: ids of files that are still being written to.
        unseen: ids of items whose files can't be looked at now, which are no reason to remove them.
        failures: the files that can't be read.
        notes: what the reader should know.
    """

    folder: Path
    source: Source
    inner: str = ""
    former: str | None = None
    count: int = 0
    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    moved: tuple[Move, ...] = ()
    gone: tuple[str, ...] = ()
    gone_keys: tuple[int, ...] = ()
    overwritten: tuple[int, ...] = ()
    repointed: tuple[Move, ...] = ()
    adopted: tuple[str, ...] = ()
    unchanged: int = 0
    waiting: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    failures: Failures = field(default_factory=Failures)
    notes: tuple[str, ...] = ()

    @property
    def mostly_gone(self) -> bool:
        """Whether more than half of the items are gone: a disk may not be mounted."""
        return 2 * len(self.gone) > self.count

    @property
    def in_step(self) -> bool:
        """Whether there is nothing to do."""
        changes = self.new or self.changed or self.moved or self.gone or self.repointed or self.adopted
        return not changes and self.former is None

    @property
    def prefix(self) -> str:
        """What ids of the folder begin with."""
        return self.source.prefix + self.inner

    def collection(self, *, exif: bool, files: Iterable[str] | None = None) -> SourceItems:
        """The folder's items under their ids in the index; all, or those of some files.

        A folder within a source is read as a part of that, whose table may have its captions.
        """
        folder = Folder(Path(self.source.path) if self.inner else self.folder, exif=exif)
        folder.may_be_empty = True
        if files is not None:
            folder = folder.restricted(self.inner + file for file in files)
        return SourceItems(folder, self.source)


def plan_to_dict(plan: SyncPlan) -> dict[str, Any]:
    """A plan as JSON."""
    return {
        "folder": str(plan.folder),
        "new": plan.new,
        "changed": plan.changed,
        "moved": [{"from": move.old, "to": move.new} for move in plan.moved],
        "gone": plan.gone,
        "unchanged": plan.unchanged,
        "mostly_gone": plan.mostly_gone,
        "waiting": plan.waiting,
        "failed": [str(error) for error in plan.failures.first],
        "notes": plan.notes,
    }


def owned_items(catalogue: Catalogue, plan: SyncPlan) -> Iterator[tuple[int, Entry]]:
    """The items that came from a plan's folder, with their keys."""
    entries = catalogue.entries_with_prefix(plan.prefix)
    while chunk := list(itertools.islice(entries, CHUNK)):
        texts = catalogue.text_folders(key for key, entry in chunk if entry.image is None)
        yield from ((key, entry) for key, entry in chunk if is_owned(entry, plan, texts.get(key)))


def is_owned(entry: Entry, plan: SyncPlan, text_folder: str | None) -> bool:
    """Whether an item came from a plan's folder; `text_folder` is the one that a text is a file of."""
    folders = {plan.source.path, plan.former}
    if entry.image is None:
        return text_folder is not None and text_folder in folders
    if image_root(entry) not in folders:
        return False
    return bool(plan.source.prefix + orjson.loads(entry.image)["path"] == entry.id)


def merged(item: Item, entry: Entry, read_values: ReadValues | None, catalogue: Path) -> Item:
    """A file's item with what `update` changed in the index.

    What was read and has not changed since gives way to what the index has.
    """
    if read_values is None:
        return item
    stored, before = item_of(entry, catalogue), orjson.loads(read_values.metadata)
    text = stored.text if item.text == read_values.text else item.text
    metadata: dict[str, Any] = dict(item.metadata)
    for key in before.keys() | stored.metadata.keys():
        if before.get(key) != stored.metadata.get(key):  # set by update, or taken away
            metadata.pop(key, None)
            if key in stored.metadata:
                metadata[key] = stored.metadata[key]
    return replace(item, text=text, metadata=metadata)
