"""Commits to an index: a segment is written, then the catalogue names it, then what it replaced goes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from genius.errors import DamagedError, GeniusError
from genius.index.catalogue import Catalogue, SegmentEntry
from genius.index.entries import Entry
from genius.index.leftovers import remove_leftovers
from genius.index.merging import Merged, merge, taken_in, together
from genius.index.segments import Block, Coding, open_segment, segment_path, write_segment

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
