"""The feature cache: features by a hash of the content they were made of, so that nothing is encoded twice.

One file per encoder and kind, in the user's cache folder. It only grows, by whole records (key, checksum,
features): a killed process loses no more than the record that it was writing, and the incomplete tail is cut
off when the file is next opened. A record whose checksum does not match counts as missing.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from genius.encode.direct import as_stored

log = logging.getLogger(__name__)

KEY_BYTES = 16


def content_key(content: bytes) -> bytes:
    """The key of a content: a hash of 16 bytes."""
    return hashlib.blake2b(content, digest_size=KEY_BYTES).digest()


class FeatureCache:
    """Features of images, or of texts, by one encoder; one process at a time can have it open."""

    def __init__(self, path: Path, width: int) -> None:
        self.width = width
        self._record = np.dtype([("key", f"V{KEY_BYTES}"), ("check", "<u4"), ("row", "<f2", (width,))])
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b")
        self._lock()
        complete = path.stat().st_size // self._record.itemsize
        self._file.truncate(complete * self._record.itemsize)
        self._places: dict[bytes, int] = {}
        self._records = self._mapped(complete)
        for place, key in enumerate(self._records["key"]):
            self._places[key.tobytes()] = place

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: bytes) -> bool:
        return key in self._places

    def add(self, keys: Sequence[bytes], rows: np.ndarray) -> None:
        """Store features [n, width] under their keys; they are on the disk when this returns.

        Raises InputError for features that float16 can't hold.
        """
        records = np.zeros(len(keys), self._record)
        records["row"] = as_stored(rows)
        for place, key in enumerate(keys):
            records[place]["key"] = np.frombuffer(key, f"V{KEY_BYTES}")[0]
            records[place]["check"] = _checksum(key, records[place]["row"])
        start = self._file.seek(0, os.SEEK_END) // self._record.itemsize
        self._file.write(records.tobytes())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._places.update({key: start + place for place, key in enumerate(keys)})

    def missing(self, keys: Sequence[bytes]) -> list[int]:
        """The positions of keys without (undamaged) features; a repeated key counts once."""
        wanted: dict[bytes, int] = {}
        for position, key in enumerate(keys):
            wanted.setdefault(key, position)
        return [position for key, position in wanted.items() if not self._is_sound(key)]

    def rows(self, keys: Sequence[bytes]) -> np.ndarray:
        """Features float16 [n, width] of keys, all of which must be in the cache."""
        self._refresh()
        places = np.fromiter((self._places[key] for key in keys), np.int64, len(keys))
        return np.asarray(self._records["row"][places])

    def close(self) -> None:
        """Close the file, so that another process can open it."""
        fcntl.flock(self._file, fcntl.LOCK_UN)  # closing is not enough while the file is still mapped
        self._file.close()

    def __enter__(self) -> FeatureCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _lock(self) -> None:
        """Wait until no other process uses the file; the lock of a crashed process is released."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.warning("waiting for another process that uses %s", self._file.name)
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def _is_sound(self, key: bytes) -> bool:
        if key not in self._places:
            return False
        self._refresh()
        record = self._records[self._places[key]]
        if int(record["check"]) == _checksum(key, record["row"]):
            return True
        del self._places[key]  # damaged: it will be encoded again
        return False

    def _refresh(self) -> None:
        """Map the records that were written since the file was last mapped."""
        complete = os.fstat(self._file.fileno()).st_size // self._record.itemsize
        if complete != len(self._records):
            self._records = self._mapped(complete)

    def _mapped(self, records: int) -> np.ndarray:
        if records == 0:
            return np.zeros(0, self._record)
        return np.memmap(self._file, self._record, "r", shape=(records,))


def _checksum(key: bytes, row: np.ndarray) -> int:
    return zlib.crc32(row.tobytes(), zlib.crc32(key))
