"""Embeddings that wait for their commit, in a file: a block of them would take half a gigabyte of memory."""

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
from genius.index.entries import Entry
from genius.index.locks import remove_leftovers
from genius.index.segments import Block, Coding, Segment, gather, open_segment, segment_path, write_segment


class Waiting:
    """The embeddings of a block, in the folder where its index is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._rows, self._kind, self._width = 0, np.dtype(np.float16), 0

    def append(self, rows: np.ndarray) -> None:
        """Put more rows [n, width] behind the others."""
        if self._file is None:
            # It has no name, so that a crash leaves nothing behind.
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        self._file.write(np.ascontiguousarray(rows).data)
        self._rows, self._kind, self._width = self._rows + len(rows), rows.dtype, rows.shape[1]

    def all(self) -> np.ndarray:
        """All rows, mapped from the file."""
        assert self._file is not None
        self._file.flush()
        return np.memmap(self._file, self._kind, "r", shape=(self._rows, self._width))

    def close(self) -> None:
        """Forget the rows."""
        if self._file is not None:
            self._file.close()
        self._file, self._rows = None, 0


RATIO = 2
"""A segment is taken in if it is at most so many times as large as what takes it in."""


def taken_in(sizes: Sequence[int], new: int, full: int) -> int:
    """How many of the newest of segments, by their sizes, a new one of `new` items takes in."""
    count = 0
    for size in reversed(sizes):
        if size > RATIO * new or size >= full:
            break
        new += size
        count += 1
    return count


@dataclass(frozen=True, eq=False)
class Merged:
    """The live items of some segments, and the rows that were left behind."""

    block: Block
    dropped: np.ndarray


def merge(segments: Sequence[Segment], removed: np.ndarray) -> Merged:
    """The items of segments, in the order of their rows, but for those of `removed` rows."""
    rows = np.concatenate([segment.rows for segment in segments]).astype(np.int64)
    live = ~np.isin(rows, removed)
    order = np.flatnonzero(live)[np.argsort(rows[live], kind="stable")]

    def column(name: str) -> np.ndarray:
        return np.asarray(np.concatenate([getattr(segment, name) for segment in segments])[order])

    embeddings = Gathered(segments, order)
    block = Block(column("codes"), column("modality"), embeddings, rows[order], column("halves"))
    return Merged(block, rows[~live])


class Gathered:
    """The embeddings of items that are all over some segments, read when they are asked for."""

    def __init__(self, segments: Sequence[Segment], numbers: np.ndarray) -> None:
        self._segments, self._numbers = segments, numbers
        self.shape = len(numbers), segments[0].exact.shape[1]

    def __getitem__(self, places: np.ndarray) -> np.ndarray:
        return gather(self._segments, self._numbers[places])


def together(older: Block, newer: Block) -> Block:
    """The items of both blocks, one after another."""
    every = [
        np.concatenate([block.embeddings[np.arange(len(block.rows))] for block in (older, newer)]),
        *(
            np.concatenate([getattr(block, name) for block in (older, newer)])
            for name in ("codes", "modality", "rows", "halves")
        ),
    ]
    embeddings, codes, modality, rows, halves = every
    return Block(codes, modality, embeddings, rows, halves)


log = logging.getLogger(__name__)

BLOCK = 1 << 17
"""How many items are committed at a time at first, in one segment; such a one is not taken into another."""
LARGEST = 1 << 19
"""How many are at most: blocks grow with what was added, as few large segments are searched more quickly."""
QUICK = 1 << 12
"""Up to so many items, older segments are taken in by the same commit; more wait until it is done."""


@dataclass(frozen=True)
class Compacted:
    """What `compact` did: how many segments there were and are, and how many removed rows have gone."""

    before: int
    after: int
    dropped: int


class Committer:
    """Writes to the index at `path`; the caller is its only writer."""

    def __init__(self, path: Path, catalogue: Catalogue, coding: Coding, model: str) -> None:
        self.path, self._catalogue, self._coding, self._model = path, catalogue, coding, model

    def clear(self) -> None:
        """Remove segments that a crash, or a merge while a reader was opening them, has left."""
        remove_leftovers(self.path, self._catalogue)

    def commit(
        self,
        entries: Sequence[Entry],
        block: Block | None,
        replaced: Sequence[int],
        revised: Mapping[int, Entry],
    ) -> None:
        """Commit items with their codes, which have the next rows, and what else they change."""
        if block is None:
            self._catalogue.commit(revised=revised)
            return
        older = self._taken_in(len(entries))
        quick = sum(segment.items for segment in older) + len(entries) <= QUICK
        taken = self._merged(older, replaced) if older and quick else None
        if taken is not None:
            block = together(taken.block, block)
        segment = self._write(block)
        self._catalogue.commit(
            entries,
            segment,
            replaced,
            revised=revised,
            merged=[one.number for one in older] if taken is not None else [],
            dropped=[] if taken is None else taken.dropped.tolist(),
        )
        if older and not quick:
            self._replace_if_possible([*older, segment])
        if older:
            self.clear()

    def _replace_if_possible(self, segments: Sequence[SegmentEntry]) -> None:
        """Merge for the sake of later searches; what was added is there by now, whatever comes of this."""
        try:
            self._replace(segments)
        except DamagedError:
            raise
        except (OSError, GeniusError) as error:
            log.warning("%s: segments were not merged now, but will be later: %s", self.path, error)

    def compact(self) -> Compacted:
        """Make all segments one, without removed items; and let go of all that nobody names."""
        segments, removed = self._catalogue.segments(), self._catalogue.removed()
        if len(segments) > 1 or len(removed):
            self._replace(segments)
        self._catalogue.shrink()
        self.clear()
        return Compacted(len(segments), len(self._catalogue.segments()), len(removed))

    def _taken_in(self, new: int) -> list[SegmentEntry]:
        segments = self._catalogue.segments()
        count = taken_in([segment.items for segment in segments], new, BLOCK)
        return segments[len(segments) - count :]

    def _replace(self, segments: Sequence[SegmentEntry]) -> None:
        merged = self._merged(segments)
        written = self._write(merged.block) if len(merged.block.rows) else None
        numbers = [segment.number for segment in segments]
        self._catalogue.commit((), written, merged=numbers, dropped=merged.dropped.tolist())

    def _merged(self, segments: Sequence[SegmentEntry], replaced: Sequence[int] = ()) -> Merged:
        opened = [
            open_segment(segment_path(self.path, one.number), self._coding, one.fingerprint)
            for one in segments
        ]
        return merge(opened, np.concatenate([self._catalogue.removed(), np.array(replaced, np.int64)]))

    def _write(self, block: Block) -> SegmentEntry:
        number = self._catalogue.state().next_segment
        while segment_path(self.path, number).exists():  # a leftover that a reader may be opening
            number += 1
        fingerprint = write_segment(segment_path(self.path, number), block, self._coding, self._model)
        return SegmentEntry(number, len(block.rows), fingerprint)
