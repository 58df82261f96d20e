"""Commits to an index: a segment is written, then the catalogue names it, then orphaned segments are removed.

Many small segments would make every search slow, so they are merged as they come (the merge policy). A new
segment absorbs the newest ones before it, as long as the next is at most twice as large as all that it has
absorbed by then, and has less than a full block of items. Of those that stay, each is then more than twice as
large as the next: there are never more than 17 segments of less than a block, however items were added. And
an item that is rewritten finds itself among at least half as many more: that happens at most 29 times until
it is in a full block, and ten thousand single additions write each item fewer than 23 times.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from genius.errors import DamagedError, GeniusError
from genius.index.catalogue import Catalogue, SegmentEntry
from genius.index.entries import Entry, ReadValues
from genius.index.locks import remove_orphaned_segments
from genius.index.segments import (
    Block,
    Segment,
    SegmentFormat,
    gather_embeddings,
    open_segment,
    segment_path,
    write_segment,
)

log = logging.getLogger(__name__)

FULL_BLOCK = 1 << 17
"""Items of the first commits of a build, in one segment; a segment of so many is not absorbed any more."""
LARGEST_BLOCK = 1 << 19
"""Items of a commit at most: blocks grow with what was added, as few large segments are searched faster."""
QUICK_MERGE = 1 << 12
"""Up to so many items, older segments are merged in the same commit; more wait until it is done."""
MERGE_RATIO = 2
"""A segment is absorbed if it is at most so many times as large as what absorbs it."""


@dataclass(frozen=True)
class Compacted:
    """What `compact` did: the number of segments before and after, and of removed items that were purged."""

    before: int
    after: int
    dropped: int


@dataclass(frozen=True)
class Revision:
    """What one commit changes.

    Attributes:
        entries: new items, and those that replace others.
        block: their codes and embeddings, under the next keys; None if there are none.
        replaced: keys of the items that `entries` replace.
        revised: by key, items of which all but code and embedding changes.
        read_values: by id, what was read of an item's source.
    """

    entries: Sequence[Entry]
    block: Block | None
    replaced: Sequence[int]
    revised: Mapping[int, Entry]
    read_values: Mapping[str, ReadValues]


class SegmentWriter:
    """Writes to the index at `path`; the caller is its only writer."""

    def __init__(self, path: Path, catalogue: Catalogue, format: SegmentFormat, model: str) -> None:
        self.path, self._catalogue, self._format, self._model = path, catalogue, format, model

    def remove_orphans(self) -> None:
        """Remove segments that a crash, or a merge while a reader was opening them, has left."""
        remove_orphaned_segments(self.path, self._catalogue)

    def commit(self, revision: Revision) -> None:
        """Commit what a revision changes."""
        block, entries = revision.block, revision.entries
        if block is None:
            self._catalogue.commit(revised=revision.revised, read_values=revision.read_values)
            return
        keys, older = block.item_keys.tolist(), self._segments_to_absorb(len(entries))
        quick = sum(segment.items for segment in older) + len(entries) <= QUICK_MERGE
        merged = self._merge(older, revision.replaced) if older and quick else None
        if merged is not None:
            block = concatenate(merged.block, block)
        segment = self._write(block)
        self._catalogue.commit(
            entries,
            segment,
            revision.replaced,
            item_keys=keys,
            revised=revision.revised,
            merged=[entry.number for entry in older] if merged is not None else [],
            dropped=[] if merged is None else merged.dropped.tolist(),
            read_values=revision.read_values,
        )
        if older and not quick:
            self._replace_if_possible([*older, segment])
        if older:
            self.remove_orphans()

    def compact(self) -> Compacted:
        """Merge all segments, purge removed items, and free the space of what nothing refers to."""
        segments, tombstones = self._catalogue.segments(), self._catalogue.tombstones()
        if len(segments) > 1 or len(tombstones):
            self._replace(segments)
        self._catalogue.shrink()
        self.remove_orphans()
        return Compacted(len(segments), len(self._catalogue.segments()), len(tombstones))

    def settle(self) -> None:
        """Merge what the newest segment absorbs, for what was committed without that."""
        segments = self._catalogue.segments()
        if segments:
            sizes = [segment.items for segment in segments]
            count = count_to_absorb(sizes[:-1], sizes[-1], FULL_BLOCK)
            if count:
                self._replace(segments[-count - 1 :])
        self.remove_orphans()

    def next_number(self) -> int:
        """The number of the next segment, at whose place nothing stands."""
        number = self._catalogue.state().next_segment
        while segment_path(self.path, number).exists():  # an orphan that a reader may be opening
            number += 1
        return number

    def _segments_to_absorb(self, new: int) -> list[SegmentEntry]:
        segments = self._catalogue.segments()
        count = count_to_absorb([segment.items for segment in segments], new, FULL_BLOCK)
        return segments[len(segments) - count :]

    def _replace_if_possible(self, segments: Sequence[SegmentEntry]) -> None:
        """Merge for the sake of later searches; what was added is committed already, whether this works or
        not."""
        try:
            self._replace(segments)
        except DamagedError:
            raise
        except (OSError, GeniusError) as error:
            log.warning("%s: segments were not merged now, but will be later: %s", self.path, error)

    def _replace(self, segments: Sequence[SegmentEntry]) -> None:
        merged = self._merge(segments)
        written = self._write(merged.block) if len(merged.block.item_keys) else None
        numbers = [segment.number for segment in segments]
        self._catalogue.commit((), written, merged=numbers, dropped=merged.dropped.tolist())

    def _merge(self, segments: Sequence[SegmentEntry], replaced: Sequence[int] = ()) -> Merged:
        opened = [
            open_segment(segment_path(self.path, entry.number), self._format, entry.fingerprint)
            for entry in segments
        ]
        tombstones = np.concatenate([self._catalogue.tombstones(), np.array(replaced, np.int64)])
        return merge(opened, tombstones)

    def _write(self, block: Block) -> SegmentEntry:
        number = self.next_number()
        fingerprint = write_segment(segment_path(self.path, number), block, self._format, self._model)
        return SegmentEntry(number, len(block.item_keys), fingerprint)


def count_to_absorb(sizes: Sequence[int], new: int, full: int) -> int:
    """How many of the newest segments, by their sizes, a new one of `new` items absorbs."""
    count = 0
    for size in reversed(sizes):
        if size > MERGE_RATIO * new or size >= full:
            break
        new += size
        count += 1
    return count


@dataclass(frozen=True, eq=False)
class Merged:
    """The live items of some segments, and the keys of those that were dropped."""

    block: Block
    dropped: np.ndarray


def merge(segments: Sequence[Segment], tombstones: np.ndarray) -> Merged:
    """The items of segments in the order of their keys, without removed ones."""
    keys = np.concatenate([segment.item_keys for segment in segments]).astype(np.int64)
    live = ~np.isin(keys, tombstones)
    order = np.flatnonzero(live)[np.argsort(keys[live], kind="stable")]
    return Merged(gather_block(segments, order, keys[order]), keys[~live])


def gather_block(segments: Sequence[Segment], rows: np.ndarray, item_keys: np.ndarray) -> Block:
    """The items of some rows, those of all segments numbered one after another, under these keys."""
    return Block(
        codes=np.concatenate([segment.codes for segment in segments])[rows],
        modality=np.concatenate([segment.modality for segment in segments])[rows],
        embeddings=_GatheredEmbeddings(segments, rows),
        item_keys=item_keys,
        half_sq_norms=np.concatenate([segment.half_sq_norms for segment in segments])[rows],
    )


def concatenate(older: Block, newer: Block) -> Block:
    """The items of both blocks, one after another."""
    blocks = (older, newer)
    # An index that keeps no embeddings has none of the older items.
    width = older.embeddings.shape[1]
    embeddings = [block.embeddings[np.arange(len(block.item_keys))][:, :width] for block in blocks]
    return Block(
        codes=np.concatenate([block.codes for block in blocks]),
        modality=np.concatenate([block.modality for block in blocks]),
        embeddings=np.concatenate(embeddings),
        item_keys=np.concatenate([block.item_keys for block in blocks]),
        half_sq_norms=np.concatenate([block.half_sq_norms for block in blocks]),
    )


class _GatheredEmbeddings:
    """The embeddings of items that are spread over some segments, read when they are needed."""

    def __init__(self, segments: Sequence[Segment], rows: np.ndarray) -> None:
        self._segments, self._rows = segments, rows
        self.shape = len(rows), segments[0].embeddings.shape[1]

    def __getitem__(self, places: np.ndarray) -> np.ndarray:
        return gather_embeddings(self._segments, self._rows[places])


class SpillFile:
    """Embeddings that wait for their commit, in a file of an index's folder: in memory they would take half a
    gigabyte."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._rows, self._dtype, self._width = 0, np.dtype(np.float16), 0

    def append(self, embeddings: np.ndarray) -> None:
        """Append rows [n, width]."""
        if self._file is None:
            # It has no name, so that a crash leaves nothing behind.
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        self._file.write(np.ascontiguousarray(embeddings).data)
        self._rows, self._dtype = self._rows + len(embeddings), embeddings.dtype
        self._width = embeddings.shape[1]

    def read(self) -> np.ndarray:
        """All rows, mapped from the file."""
        assert self._file is not None
        self._file.flush()
        return np.memmap(self._file, self._dtype, "r", shape=(self._rows, self._width))

    def close(self) -> None:
        """Forget the rows."""
        if self._file is not None:
            self._file.close()
        self._file, self._rows = None, 0
