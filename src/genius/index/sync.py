"""A folder that stays in step with an index: a plan is carried out, once or again and again.

Moved items come first, in one transaction; then new and changed ones are encoded and committed as ever; what
is gone is removed last. So a run that is stopped leaves each item as it was or as it is to be, and the next
one goes on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from genius.data.collection import Failures
from genius.data.records import ImageFile, Item
from genius.errors import GeniusError, InputError
from genius.index.catalogue import Catalogue
from genius.index.entries import Entry, ReadValues, entry_of, item_of
from genius.index.folder_scan import FolderScan, ImageHashes, WatchedFolder
from genius.index.ingest import Added, Ingest
from genius.index.sources import keep_source
from genius.index.sync_plan import Move, SyncPlan, merged

if TYPE_CHECKING:
    from genius.index.index import Index

ALL_GONE = "more than half of the folder's items are gone: is its disk mounted?"


@dataclass(frozen=True)
class Synced:
    """What was done to bring an index in step with a folder.

    Attributes:
        plan: what was to be done.
        added: how many items are new.
        updated: how many were changed.
        moved: how many are at another place, and were not encoded again for that.
        removed: how many were removed.
        kept: how many are gone but were not removed; `why_kept` says why.
        failures: the files that could not be read.
    """

    plan: SyncPlan
    added: int = 0
    updated: int = 0
    moved: int = 0
    removed: int = 0
    kept: int = 0
    why_kept: str = ""
    failures: Failures = field(default_factory=Failures)

    @property
    def changed_something(self) -> bool:
        """Whether the index is another one now."""
        return bool(self.added or self.updated or self.moved or self.removed)


def synced_to_dict(synced: Synced) -> dict[str, Any]:
    """What was done, as JSON."""
    counts = {name: getattr(synced, name) for name in ("added", "updated", "moved", "removed", "kept")}
    failed = [str(error) for error in synced.failures.first]
    return {**counts, "why_kept": synced.why_kept, "failed": failed, "notes": synced.plan.notes}


class _Execution:
    """Carries out a plan; the caller is the only writer of the index."""

    def __init__(self, catalogue: Catalogue, plan: SyncPlan, *, exif: bool) -> None:
        self._catalogue, self._plan, self._exif = catalogue, plan, exif

    def move(self) -> int:
        """Give moved items their new ids and places; returns how many have other ids."""
        plan, moves = self._plan, [*self._plan.moved, *self._plan.repointed]
        if plan.former is not None or not plan.in_step:
            keep_source(self._catalogue, plan.source, plan.former)
        entries = self._catalogue.entries([*(move.item_key for move in moves), *plan.overwritten])
        overwritten = [key for key in plan.overwritten if key in entries]
        possible = self._possible(moves, entries, overwritten)
        if possible:
            by_key = {move.item_key: self._moved_entry(entries[move.item_key], move.new) for move in possible}
            arrived = {entry.id for entry in by_key.values()}
            doomed = [key for key in overwritten if entries[key].id in arrived]
            self._catalogue.relocate(by_key, doomed)
        return sum(move.old != move.new for move in possible)

    def _possible(
        self, moves: Sequence[Move], entries: dict[int, Entry], overwritten: Sequence[int]
    ) -> list[Move]:
        """The moves of items that are as they were when the plan was made, to ids that are free then."""
        possible = [
            move for move in moves if move.item_key in entries and entries[move.item_key].id == move.old
        ]
        taken = self._catalogue.keys_of(move.new for move in possible)
        while True:
            leaving = {*overwritten, *(move.item_key for move in possible)}
            free = [move for move in possible if move.new not in taken or taken[move.new] in leaving]
            if len(free) == len(possible):
                return possible
            possible = free

    def _moved_entry(self, entry: Entry, id: str) -> Entry:
        item = item_of(entry, self._catalogue.path)
        image = item.image
        if image is not None:
            image = ImageFile(self._plan.source.path, id.removeprefix(self._plan.source.prefix))
        return entry_of(replace(item, id=id, image=image), entry.image_hash)

    def add(self, ingest: Ingest) -> None:
        """Add what is new and update what has changed, also of moved items."""
        plan = self._plan
        wanted = {*plan.new, *plan.changed, *(move.new for move in plan.moved)}
        texts = [*plan.adopted]
        if wanted:
            read_values: dict[str, ReadValues] = {}
            ingest.add(self._items(wanted, texts, read_values), len(wanted), read_values)
        if texts or plan.former is not None:
            self._catalogue.keep_text_files(plan.source.path, texts, plan.former)

    def _items(
        self, wanted: set[str], texts: list[str], read_values: dict[str, ReadValues]
    ) -> Iterator[Item]:
        """The items of files, with what `update` changed in the index."""
        files = [id.removeprefix(self._plan.prefix) for id in wanted]
        for item in self._plan.collection(exif=self._exif, files=files):
            if item.image is None:
                texts.append(item.id)
            stored = self._catalogue.stored([item.id])
            if item.id in stored:
                key, entry = stored[item.id]
                read = self._catalogue.read_values([key]).get(key)
                kept = merged(item, entry, read, self._catalogue.path)
                if kept != item:
                    metadata = orjson.dumps(dict(item.metadata), option=orjson.OPT_SORT_KEYS).decode()
                    read_values[item.id] = ReadValues(item.text, metadata)
                yield kept
            else:
                yield item

    def remove(self) -> int:
        """Remove what is gone and has not come back; returns how many items."""
        plan = self._plan
        keys = self._catalogue.keys_of(plan.gone)
        planned = dict(zip(plan.gone, plan.gone_keys, strict=True))
        doomed = [
            key
            for id, key in keys.items()
            if planned[id] == key and not os.path.lexists(plan.folder / id.removeprefix(plan.prefix))
        ]
        if doomed:
            self._catalogue.remove(doomed)
        return len(doomed)


def carry_out(
    catalogue: Catalogue, plan: SyncPlan, ingest: Ingest, report: Added, why_kept: str, *, exif: bool
) -> Synced:
    """Do what a plan says; the caller is the only writer of the index, and `ingest` adds to `report`."""
    execution = _Execution(catalogue, plan, exif=exif)
    moved = execution.move()
    execution.add(ingest)
    removed = 0 if why_kept else execution.remove()
    kept = len(plan.gone) - removed
    return Synced(plan, report.added, report.replaced, moved, removed, kept, why_kept, report.failures)


def why_kept(plan: SyncPlan, *, remove: bool, all_gone: bool) -> str:
    """Why items that are gone may not be removed; empty if they may."""
    if not plan.gone:
        return ""
    if plan.mostly_gone and not all_gone:
        return ALL_GONE
    if plan.waiting:
        return "files are still being written to, and may be these"
    return "" if remove else "nobody said that they may be removed"


@dataclass
class FolderWatch:
    """Keeps an index in step with a folder, round by round.

    A file that has changed since the round before waits for the next one: it may still be written to. A round
    in which nothing has changed costs a walk through the folder.
    """

    index: Index
    folder: Path
    remove: bool = False
    all_gone: bool = False
    exif: bool = True
    cache: Path | None = None
    workers: int = 1
    _before: FolderScan | None = None
    _done: tuple[FolderScan, int] | None = None
    _hashes: ImageHashes = field(default_factory=ImageHashes)

    def round(self) -> Synced | None:
        """Look at the folder once and do what is to be done; None if nothing has changed since the last."""
        # Two scans in a row tell a file that grows, but two writes between them may have the same time.
        first = self._before is None
        before = self._before or self._scan()
        scan = self._before = self._scan()
        if self._done == (scan, self.index.version):
            return None
        unsettled = scan.unsettled(before)
        watched = WatchedFolder(scan, unsettled, ImageHashes() if first else self._hashes)
        plan = self.index.plan_sync(self.folder, exif=self.exif, watched=watched)
        synced = self.index.sync(
            plan,
            remove=self.remove,
            all_gone=self.all_gone,
            exif=self.exif,
            cache=self.cache,
            workers=self.workers,
        )
        if not unsettled and not first:
            self._done = (scan, self.index.version)
        return synced

    def _scan(self) -> FolderScan:
        return FolderScan.at(self.folder, self.index.path)


def watch_folder(
    watch: FolderWatch,
    every: float,
    wait: Callable[[float], object] = time.sleep,
    on_error: Callable[[GeniusError], None] | None = None,
) -> Iterator[Synced]:
    """What each round did that did something, or tells something new; rounds go on for ever.

    An error of a round, such as another process that writes to the index, is given to `on_error`, and the
    next round tries again; without `on_error` it is raised. Raises InputError for a time that is none.
    """
    if not every > 0:
        raise InputError(f"the time between two scans must be above 0 seconds, not {every:g}")
    last = None
    while True:
        try:
            synced = watch.round()
        except GeniusError as error:
            if on_error is None or (isinstance(error, InputError) and last is None):
                raise
            on_error(error)
            synced = None
        if synced is not None:
            state = (synced.kept, synced.why_kept, synced.plan.notes, synced.failures.count)
            if synced.changed_something or state != last:
                yield synced
            last = state
        wait(every)
