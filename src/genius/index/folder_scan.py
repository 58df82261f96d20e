"""A scan of a folder: its files by size and time, and what could not be looked at."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from genius.data.records import Item
from genius.index.entries import image_hash_of

Signature = tuple[int, int, int, int]
"""Size, time of change, time of change of the inode, and its number: equal as long as a file is the same."""


@dataclass(frozen=True)
class FolderScan:
    """The files of a folder at one moment, hidden ones left out, by their paths with forward slashes.

    Attributes:
        exists: whether the folder is there.
        files: the signature of each file.
        blocked: what could not be looked at, with the reason: links that are not followed, folders that may
            not be read. Nothing can be told of what they hold.
    """

    exists: bool
    files: Mapping[str, Signature]
    blocked: Mapping[str, str]

    @classmethod
    def at(cls, folder: Path, leave_out: Path | None = None) -> FolderScan:
        """Scan a folder, but not below `leave_out`."""
        files: dict[str, Signature] = {}
        blocked: dict[str, str] = {}
        try:
            folder.stat()
        except (FileNotFoundError, NotADirectoryError):
            return cls(False, files, blocked)
        except OSError as error:
            return cls(True, files, {"": error.strerror or str(error)})
        folders = [""]
        while folders:
            below = folders.pop()
            try:
                with os.scandir(folder / below) as entries:
                    for entry in entries:
                        if not entry.name.startswith(".") and Path(entry.path) != leave_out:
                            _place(entry, below + entry.name, folders, files, blocked)
            except OSError as error:
                blocked[below.removesuffix("/")] = error.strerror or str(error)
        return cls(True, files, blocked)

    def blocked_by(self, path: str) -> str | None:
        """What keeps a file of this path from being seen: itself, a folder above it, or None."""
        if "" in self.blocked:
            return ""
        parts = path.split("/")
        above = ("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
        return next((place for place in above if place in self.blocked), None)

    def unsettled(self, before: FolderScan) -> frozenset[str]:
        """The files that are not as they were in a scan before: they may still be written to."""
        return frozenset(
            path for path, signature in self.files.items() if before.files.get(path) != signature
        )


def _place(
    entry: os.DirEntry[str],
    path: str,
    folders: list[str],
    files: dict[str, Signature],
    blocked: dict[str, str],
) -> None:
    """Put an entry where it belongs."""
    try:
        status = entry.stat()
        if stat.S_ISREG(status.st_mode):
            files[path] = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        elif entry.is_symlink():
            blocked[path] = "is a link to a folder, which is not followed"
        elif stat.S_ISDIR(status.st_mode):
            folders.append(f"{path}/")
    except OSError as error:
        reason = error.strerror or str(error)
        blocked[path] = f"is a link that leads nowhere: {reason}" if entry.is_symlink() else reason


@dataclass
class ImageHashes:
    """The hashes of images; those of files that have not changed from one scan to the next are kept."""

    known: dict[str, tuple[Signature, bytes | None]] = field(default_factory=dict)

    def hash_of(self, item: Item, path: str, signature: Signature | None, *, settled: bool) -> bytes | None:
        """The hash of an item's image, at a path of the folder. Raises InputError if it can't be read."""
        if signature is not None and self.known.get(path, (None, None))[0] == signature:
            return self.known[path][1]
        image_hash = image_hash_of(item)
        # Two writes can't be told apart if they are closer than the file system's clock: so not at once.
        if settled and signature is not None:
            self.known[path] = (signature, image_hash)
        return image_hash


@dataclass(frozen=True)
class WatchedFolder:
    """What is known of a folder that is scanned again and again: a scan, the files that may still be
    written to, and the hashes of images."""

    scan: FolderScan
    unsettled: frozenset[str]
    hashes: ImageHashes
