"""Thumbnails in the user's cache folder, where the processes of a service share them and the next one finds
them: an image need not be decoded again."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from pathlib import Path

import platformdirs

CHECK_BYTES = 16
"""Before a thumbnail stands its checksum: what is damaged counts as missing."""
TRIMMED_EVERY = 256
"""So many files are added by a process before it looks whether there are too many."""
TRIMMED_TO = 0.8
"""The share of the most bytes that is kept then."""


class ThumbnailFiles:
    """Thumbnails by their names, in a folder of about `max_bytes` at most, which processes share."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder, self._max_bytes, self._added = folder, max_bytes, 0

    def get(self, name: str) -> bytes | None:
        """A thumbnail, if it is there and whole."""
        path = self._path(name)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        check, thumbnail = content[:CHECK_BYTES], content[CHECK_BYTES:]
        if _checksum(thumbnail) != check:
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # those that are asked for stay
        return thumbnail

    def add(self, name: str, thumbnail: bytes) -> None:
        """Keep a thumbnail. What can't be written, say on a full disk, is made again when it is asked for."""
        path = self._path(name)
        own = path.with_name(f"{path.stem}.{os.getpid()}-{threading.get_ident()}.webp")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # they may be private
            path.parent.mkdir(exist_ok=True)
            own.write_bytes(_checksum(thumbnail) + thumbnail)
            own.replace(path)  # not synced: the checksum tells what a power loss has left
            if self._added % TRIMMED_EVERY == 0:
                self.trim()
            self._added += 1
        except OSError:
            with contextlib.suppress(OSError):
                own.unlink(missing_ok=True)

    def trim(self) -> None:
        """Delete those that were not asked for longest, if there are too many."""
        files = []
        for path in self._folder.glob("*/*.webp"):
            with contextlib.suppress(OSError):  # another process deletes, too
                status = path.stat()
                files.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in files)
        if total <= self._max_bytes:
            return
        for _, size, path in sorted(files):
            if total <= TRIMMED_TO * self._max_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / f"{name}.webp"


def default_folder() -> Path:
    """The user's folder for thumbnails."""
    return platformdirs.user_cache_path("genius") / "thumbnails"


def _checksum(thumbnail: bytes) -> bytes:
    return hashlib.blake2b(thumbnail, digest_size=CHECK_BYTES).digest()
