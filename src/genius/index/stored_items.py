"""All that one version of an index holds, item by item: entries, codes, embeddings. It takes no model."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from genius.errors import DamagedError, InputError
from genius.index.catalogue import Catalogue
from genius.index.entries import Entry
from genius.index.locks import opening_segments
from genius.index.provenance import Addition
from genius.index.segments import (
    Segment,
    SegmentFormat,
    gather_codes,
    gather_embeddings,
    open_segment,
)
from genius.index.shard_catalogue import open_catalogue

CHUNK = 1000
"""How many items are read at a time."""


@dataclass(frozen=True, eq=False)
class StoredItems:
    """The items of one version.

    Attributes:
        path: the index.
        catalogue: reads the version as long as this is open.
        settings: what the index was made with.
        segments: open.
        keys: the items' keys, int64, rising: the order in which they were added.
        rows: the row of each key, those of all segments numbered one after another.
    """

    path: Path
    catalogue: Catalogue
    settings: Mapping[str, Any]
    segments: Sequence[Segment]
    keys: np.ndarray
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def format(self) -> SegmentFormat:
        """What codes are made of, and which embeddings are kept."""
        return SegmentFormat.read(self.settings["codes"])

    def rows_of(self, keys: np.ndarray) -> np.ndarray:
        """The rows of some of the keys."""
        return self.rows[np.searchsorted(self.keys, keys)]

    def codes(self, keys: np.ndarray) -> np.ndarray:
        """Their codes uint16 [n, levels]."""
        return gather_codes(self.segments, self.rows_of(keys))

    def embeddings(self, keys: np.ndarray) -> np.ndarray:
        """Their embeddings float32 [n, width]."""
        return gather_embeddings(self.segments, self.rows_of(keys))

    def entries(self, keys: np.ndarray) -> Iterator[tuple[np.ndarray, list[Entry]]]:
        """Keys with their entries, some at a time. Raises DamagedError if the catalogue lacks one."""
        for start in range(0, len(keys), CHUNK):
            chunk = keys[start : start + CHUNK]
            stored = self.catalogue.entries(chunk.tolist())
            if len(stored) < len(chunk):
                raise DamagedError(
                    f"{self.path}: a segment holds items that the catalogue lacks: make the index again"
                )
            yield chunk, [stored[key] for key in chunk.tolist()]

    def time_of(self, key: int) -> datetime.datetime:
        """When an item was added, or got another text or image; if that is not recorded, when the index was
        made."""
        number = int(self.addition_numbers(np.array([key]))[0])
        if number >= 0:
            return self._additions[number][1]
        return datetime.datetime.fromisoformat(self.settings.get("made_at", "0001-01-01T00:00:00+00:00"))

    def addition_numbers(self, keys: np.ndarray) -> np.ndarray:
        """Which addition each item came with [n]; items of one number have one time, -1 is not recorded."""
        first_keys = np.array([first for first, _ in self._additions], np.int64)
        return np.searchsorted(first_keys, keys, side="right") - 1

    @cached_property
    def _additions(self) -> list[Addition]:
        return self.catalogue.additions()


@contextlib.contextmanager
def open_stored_items(path: Path | str) -> Iterator[StoredItems]:
    """The newest version of the index at `path`, which may be changed meanwhile.

    Raises InputError (no index), MismatchError (another format) or DamagedError.
    """
    path = Path(path).absolute()
    if not path.exists():
        raise InputError("there is nothing here", path=path)
    catalogue = open_catalogue(path)
    try:
        with contextlib.ExitStack() as stack:
            with opening_segments(*catalogue.folders):
                stack.enter_context(catalogue.reading())
                settings = catalogue.settings()
                format = SegmentFormat.read(settings["codes"])
                segments = [
                    open_segment(catalogue.segment_path(entry.number), format, entry.fingerprint)
                    for entry in catalogue.segments()
                ]
            keys = np.concatenate([np.zeros(0, np.int64), *(segment.item_keys for segment in segments)])
            live = np.flatnonzero(~np.isin(keys, catalogue.tombstones()))
            rows = live[np.argsort(keys[live], kind="stable")]
            yield StoredItems(path, catalogue, settings, segments, keys[rows].astype(np.int64), rows)
    finally:
        catalogue.close()
