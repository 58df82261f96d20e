"""A new index of items that other indexes hold: entries, codes and embeddings are copied, nothing is encoded.

It is written beside its place and moved there at the end: a crash leaves all of it or nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from genius import __version__, atomic
from genius.data.content_key import content_key
from genius.errors import InputError, translate_disk_errors
from genius.index.catalogue import INSERT_ITEM, LINEAGE, Catalogue, SegmentEntry, item_row, now
from genius.index.entries import Entry
from genius.index.provenance import Addition
from genius.index.segments import FOLDER, Segment, segment_path, write_segment
from genius.index.stored_items import StoredItems
from genius.index.writer import gather_block
from genius.progress import bar

_SETTINGS = ("model", "codes", "width", "sources", LINEAGE)
"""What a new index takes over."""


@dataclass(frozen=True, eq=False)
class ChosenItems:
    """Some items of an index, by their keys, int64, rising."""

    source: StoredItems
    keys: np.ndarray


@contextlib.contextmanager
def new_index_folder(out: Path) -> Iterator[Path]:
    """A folder to write an index into, which is at `out` when the block ends well.

    Raises InputError if something stands there.
    """
    refuse_existing(out)
    with translate_disk_errors(out, "made"), atomic.write_folder(out) as folder:
        yield folder
        refuse_existing(out)  # what came meanwhile is not replaced


def refuse_existing(*paths: Path | None) -> None:
    """Raise InputError if something stands where something is to be written."""
    for path in paths:
        if path is not None and (path.exists() or path.is_symlink()):
            raise InputError("exists already: choose another name, or remove it first", path=path)


def write_index(folder: Path, chosen: Sequence[ChosenItems], settings: Mapping[str, Any]) -> None:
    """Write an index of these items, whose ids differ, into an empty folder.

    Items are in the order in which they are given, or if all were split off one index, in the order that they
    had there.
    """
    kept = {name: settings[name] for name in _SETTINGS if name in settings}
    if not keeps_keys(chosen):
        kept.pop(LINEAGE, None)
    Catalogue.create(
        folder, {**kept, "made_by": f"genius {__version__}", "made_at": now().isoformat(timespec="seconds")}
    )
    (folder / FOLDER).mkdir()
    new_keys = _new_keys(chosen)
    catalogue = _NewCatalogue(folder)
    try:
        _copy_entries(catalogue, chosen, new_keys)
        for part in chosen:
            catalogue.add_instructions(part.source.catalogue.instructions() | catalogue.instructions())
        segment = _write_segment(folder, chosen, new_keys, settings["model"]["fingerprint"])
        catalogue.finish(segment, _next_key(chosen), _additions(chosen, new_keys))
    finally:
        catalogue.close()
    atomic.sync(folder / FOLDER)
    atomic.sync(folder)


def lineage_of(items: StoredItems) -> str:
    """By what parts of this version, or of the one that it was split off, know each other."""
    fingerprints = [segment.fingerprint for segment in items.segments]
    state = items.catalogue.state()
    own = content_key(orjson.dumps([state.next_key, fingerprints])).hex()
    return str(items.settings.get(LINEAGE, own))


def keeps_keys(chosen: Sequence[ChosenItems]) -> bool:
    """Whether items keep their keys, and so their order: parts of one index do, if no two share a key."""
    lineages = {part.source.settings.get(LINEAGE) for part in chosen}
    keys = np.concatenate([part.keys for part in chosen])
    related = len(chosen) == 1 or (len(lineages) == 1 and None not in lineages)
    return related and len(np.unique(keys)) == len(keys)


def _new_keys(chosen: Sequence[ChosenItems]) -> list[np.ndarray]:
    """The key that each item gets."""
    if keeps_keys(chosen):
        return [part.keys for part in chosen]
    ends = np.cumsum([len(part.keys) for part in chosen])
    return np.split(np.arange(1, 1 + ends[-1]), ends[:-1])


def _next_key(chosen: Sequence[ChosenItems]) -> int:
    """The key that the next item will get."""
    if keeps_keys(chosen):
        return max(part.source.catalogue.state().next_key for part in chosen)
    return 1 + sum(len(part.keys) for part in chosen)


def _copy_entries(
    catalogue: _NewCatalogue, chosen: Sequence[ChosenItems], new_keys: Sequence[np.ndarray]
) -> None:
    with bar("copying", total=sum(map(len, new_keys))) as shown:
        for part, numbers in zip(chosen, new_keys, strict=True):
            done = 0
            for keys, entries in part.source.entries(part.keys):
                new = dict(zip(keys.tolist(), numbers[done : done + len(keys)].tolist(), strict=True))
                catalogue.insert(list(new.values()), entries)
                catalogue.copy_provenance(part.source.catalogue, new)
                catalogue.keep_images(_kept_images(part.source.catalogue, entries))
                done += len(keys)
                shown.advance(len(keys))


def _kept_images(catalogue: Catalogue, entries: Iterable[Entry]) -> Iterator[tuple[str, bytes, bytes]]:
    """The images that a catalogue itself keeps of these items."""
    for entry in entries:
        if entry.image is not None and entry.image_hash is not None:
            content = None
            if orjson.loads(entry.image)["kind"] == "kept":
                content = catalogue.image_content(entry.image_hash)
            if content is not None:
                yield entry.id, entry.image_hash, content


def _write_segment(
    folder: Path, chosen: Sequence[ChosenItems], new_keys: Sequence[np.ndarray], model: str
) -> SegmentEntry | None:
    """One segment of all; as in every segment, items of equal codes are in the order of their keys."""
    segments: list[Segment] = []
    rows = [np.zeros(0, np.int64)]
    for part in chosen:
        rows.append(sum(map(len, segments)) + part.source.rows_of(part.keys))
        segments += part.source.segments
    keys, all_rows = np.concatenate(new_keys), np.concatenate(rows)
    if not len(keys):
        return None
    order = np.argsort(keys, kind="stable")
    block = gather_block(segments, all_rows[order], keys[order])
    fingerprint = write_segment(segment_path(folder, 1), block, chosen[0].source.format, model)
    return SegmentEntry(1, len(keys), fingerprint)


def _additions(chosen: Sequence[ChosenItems], new_keys: Sequence[np.ndarray]) -> list[Addition]:
    """When the items were added, by their new keys."""
    keys = np.concatenate(new_keys)
    owner = np.repeat(np.arange(len(chosen)), [len(part.keys) for part in chosen])
    old_keys = np.concatenate([part.keys for part in chosen])
    numbers = np.concatenate([part.source.addition_numbers(part.keys) for part in chosen])
    order = np.argsort(keys, kind="stable")
    changes = (np.diff(owner[order], prepend=-1) != 0) | (np.diff(numbers[order], prepend=-2) != 0)
    return [
        (int(keys[place]), chosen[owner[place]].source.time_of(int(old_keys[place])))
        for place in order[changes].tolist()
    ]


class _NewCatalogue(Catalogue):
    """The catalogue of an index that nobody reads yet, filled some items at a time."""

    def insert(self, keys: Sequence[int], entries: Sequence[Entry]) -> None:
        """Add items under these keys."""
        rows = [item_row(key, entry) for key, entry in zip(keys, entries, strict=True)]
        with self._changing():
            self._execute_many(INSERT_ITEM, rows)
        self._checkpoint_if_large()

    def copy_provenance(self, source: Catalogue, new_keys: Mapping[int, int]) -> None:
        """Take over where items of another catalogue are from, by their keys there and here."""
        folders, read = source.text_folders(new_keys), source.read_values(new_keys)
        with self._changing():
            self._add_text_folders({new_keys[key]: folder for key, folder in folders.items()})
            self._add_read_values({new_keys[key]: values for key, values in read.items()})

    def finish(self, segment: SegmentEntry | None, next_key: int, additions: Sequence[Addition]) -> None:
        """Name the segment, and record when items were added and which key is the next."""
        with self._changing():
            self._add_additions(additions)
            self._query("UPDATE state SET next_key = ?", next_key)
        if segment is not None:
            self.commit((), segment)
        self._checkpoint()
