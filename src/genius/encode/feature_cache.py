"""The feature cache: features by a hash of the content they were made of, so that nothing is encoded twice.

Two files per encoder and kind, in the user's cache folder, which any number of processes share:

- `images.cache` holds whole records (key, checksum, features) and only grows. A lock is held while a batch is
  appended, and never while one is encoded. A killed process loses no more than the batch that it was writing,
  and the next one to append cuts off an incomplete tail. A record whose checksum does not match counts as
  missing.
- `images.keys` is an index over it in SQLite (`key_index`), which is made again if it is gone or damaged.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from genius.data.content_key import KEY_BYTES
from genius.encode.direct import as_stored
from genius.encode.key_index import KeyIndex
from genius.errors import translate_disk_errors

BLOCK = 4096
"""Records that are checked or read together."""
RECENT = 1 << 14
"""From so many records on that the index lacks, it takes them in; until then their keys are in memory."""
MOST_CHECKED = 1 << 20
"""Places of checked records that are kept in memory at most."""


class FeatureCache:
    """Features of images, or of texts, by one encoder; any number of processes can have it open."""

    def __init__(self, path: Path, width: int) -> None:
        self.width = width
        self._path = path
        self._record = np.dtype([("key", f"V{KEY_BYTES}"), ("check", "<u4"), ("row", "<f2", (width,))])
        with translate_disk_errors(path, "opened"):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b", buffering=0)
        self._records = np.zeros(0, self._record)
        self._index = KeyIndex(path.with_suffix(".keys"))
        self._indexed = self._index.indexed()
        if self._indexed > self._complete():  # records are gone, so places are wrong
            self._index.clear()
            self._indexed = 0
        self._known = self._indexed
        self._recent: dict[bytes, int] = {}
        """Places of records between `_indexed` and `_known`."""
        self._checked: dict[bytes, int] = {}
        """Places of records that were found undamaged."""

    def add(self, keys: Sequence[bytes], rows: np.ndarray) -> None:
        """Store features [n, width] under their keys; they are on the disk when this returns.

        Raises InputError for features that float16 can't hold, and DiskError if they can't be stored.
        """
        records = np.zeros(len(keys), self._record)
        records["row"] = as_stored(rows)
        records["key"] = np.frombuffer(b"".join(keys), self._record["key"])
        records["check"] = [
            _checksum(key, row.tobytes()) for key, row in zip(keys, records["row"], strict=True)
        ]
        with translate_disk_errors(self._path):
            start = self._append(records)
            os.fsync(self._file.fileno())
        self._checked.update(zip(keys, range(start, start + len(keys)), strict=True))

    def missing(self, keys: Sequence[bytes]) -> list[int]:
        """The positions of keys without (undamaged) features; a repeated key counts once."""
        absent: list[int] = []
        seen: set[bytes] = set()
        for start in range(0, len(keys), BLOCK):
            block = keys[start : start + BLOCK]
            places = self._places(block)
            for position, (key, place) in enumerate(zip(block, places, strict=True), start):
                if place is None and key not in seen:
                    seen.add(key)
                    absent.append(position)
        return absent

    def rows(self, keys: Sequence[bytes]) -> np.ndarray:
        """Features float16 [n, width] of keys, all of which must be in the cache."""
        rows = np.empty((len(keys), self.width), np.float16)
        for start in range(0, len(keys), BLOCK):
            block = keys[start : start + BLOCK]
            places = [place for place in self._places(block) if place is not None]
            if len(places) < len(block):
                raise KeyError(f"{self._path} lacks the features of {len(block) - len(places)} keys")
            rows[start : start + BLOCK] = self._records["row"][places]
        return rows

    def close(self) -> None:
        """Close the files."""
        self._index.close()
        self._file.close()

    def __enter__(self) -> FeatureCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, records: np.ndarray) -> int:
        """Write records after the last complete one; returns the place of the first."""
        descriptor = self._file.fileno()
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # a killed process lets go of it
        try:
            start = self._complete()
            self._file.truncate(start * self._record.itemsize)
            content = memoryview(records.tobytes())
            while content:
                content = content[os.write(descriptor, content) :]
            return start
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _places(self, keys: Sequence[bytes]) -> list[int | None]:
        """The places of keys; None for those without an undamaged record."""
        places = list(map(self._checked.get, keys))
        if None in places:
            if len(self._checked) > MOST_CHECKED:
                self._checked.clear()
            self._check([key for key in dict.fromkeys(keys) if key not in self._checked])
            places = list(map(self._checked.get, keys))
        self._map()
        return places

    def _check(self, keys: Sequence[bytes]) -> None:
        """Find the undamaged records of keys."""
        while True:
            self._catch_up()
            places = self._index.places([key for key in keys if key not in self._recent])
            if self._index.indexed() >= self._indexed:
                break  # otherwise it was damaged, and made anew
        places.update((key, self._recent[key]) for key in keys if key in self._recent)
        complete = len(self._records)
        places = {key: place for key, place in places.items() if 0 <= place < complete}
        for key in self._damaged(places):
            del places[key]  # it will be encoded again
        self._checked.update(places)

    def _damaged(self, places: dict[bytes, int]) -> list[bytes]:
        """The keys that have other records at their places, or records whose checksums don't match."""
        records = self._records[list(places.values())]
        checks, content = records["check"].tolist(), records.view(np.uint8).data
        damaged, start = [], 0
        for key, check in zip(places, checks, strict=True):
            end = start + self._record.itemsize
            row = content[end - 2 * self.width : end]
            if content[start : start + KEY_BYTES] != key or check != _checksum(key, row):
                damaged.append(key)
            start = end
        return damaged

    def _catch_up(self) -> None:
        """See what other processes and this one have added, and have the index take it in if it is much."""
        if (indexed := self._index.indexed()) < self._indexed:
            self._indexed = self._known = indexed
        self._map()
        complete = len(self._records)
        if complete - self._indexed >= RECENT:
            self._index.extend(self._records["key"])
            self._indexed = self._known = complete
            self._recent.clear()
        new = self._records["key"][self._known : complete]
        self._recent.update((key.tobytes(), place) for place, key in enumerate(new, self._known))
        self._known = complete

    def _map(self) -> None:
        """Map the records that were added since the file was last mapped."""
        complete = self._complete()
        if complete > len(self._records):
            self._records = np.asarray(np.memmap(self._file, self._record, "r", shape=(complete,)))

    def _complete(self) -> int:
        """How many whole records the file has."""
        return os.fstat(self._file.fileno()).st_size // self._record.itemsize


def _checksum(key: bytes, row: bytes | memoryview) -> int:
    return zlib.crc32(row, zlib.crc32(key))
