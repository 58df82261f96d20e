"""Atomic, durable changes on disk: they happen completely or not at all, and survive a power loss."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from genius.errors import MissingError

try:
    import fcntl
except ImportError:  # Windows has neither these locks nor atomic exchanges of folders
    raise MissingError("genius needs Linux or macOS: on Windows, run it in WSL") from None

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # Linux renameat2
_RENAME_SWAP = 2  # macOS renamex_np


def sync(path: Path) -> None:
    """Wait until the file or folder at `path` is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(paths: list[Path]) -> None:
    """Wait until all of them are on disk; many with one call where the system can."""
    if len(paths) > 256 and sys.platform == "linux":
        os.sync()  # on Linux it returns when all is written; elsewhere it may return before
        return
    for path in paths:
        sync(path)


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a lock on a draft, so that others can tell it from one that a crash left behind."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Remove drafts that no living process holds."""
    for path in parent.glob(f"{glob.escape(prefix)}*"):
        with contextlib.suppress(OSError):  # somebody is writing it, or has just finished
            descriptor = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            finally:
                os.close(descriptor)


@contextlib.contextmanager
def write_file(path: Path | str) -> Iterator[BinaryIO]:
    """Write the file at `path` anew: it is replaced when the block ends well, and untouched otherwise."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{path.name}.part-"
    remove_abandoned(path.parent, prefix)
    descriptor, name = tempfile.mkstemp(prefix=prefix, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file, held(Path(name)):
            yield file
            file.flush()
            os.fsync(descriptor)
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
        sync(path.parent)
    finally:
        Path(name).unlink(missing_ok=True)


@contextlib.contextmanager
def write_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which replaces `path` when the block ends well.

    The block must have synced what it wrote.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{path.name}.part-"
    remove_abandoned(path.parent, prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=path.parent))
    with held(folder):
        try:
            yield folder
            replace_folder(folder, path)
        finally:
            # What is left here is the unfinished folder, or the one that was replaced.
            shutil.rmtree(folder, ignore_errors=True)


def replace_folder(new: Path, path: Path) -> None:
    """Put the folder `new` in the place of `path` atomically; what stood there is then at `new`."""
    mask = os.umask(0)
    os.umask(mask)
    new.chmod(0o777 & ~mask)
    if path.exists():
        _exchange(new, path)
    else:
        new.rename(path)
    sync(path.parent)


def _exchange(new: Path, old: Path) -> None:
    """Swap two folders in a single step of the file system."""
    libc = ctypes.CDLL(None, use_errno=True)
    first, second = os.fsencode(new), os.fsencode(old)
    if sys.platform == "darwin":
        failed = libc.renamex_np(first, second, _RENAME_SWAP)
    else:
        failed = libc.renameat2(_AT_FDCWD, first, _AT_FDCWD, second, _RENAME_EXCHANGE)
    if not failed:
        return
    code = ctypes.get_errno()
    if code not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        raise OSError(code, os.strerror(code), str(old))
    # A file system that can't swap (some network mounts): two renames, and for a moment nothing is there.
    # The old folder keeps a name that `recover_folder` knows, so a crash in between loses nothing.
    aside = old.with_name(f".{old.name}.replaced")
    old.rename(aside)
    new.rename(old)
    aside.rename(new)


def recover_folder(path: Path) -> None:
    """Undo a replacement that was cut off in the moment when nothing stood at `path`."""
    path = path.absolute()  # `.` has no name of its own
    aside = path.with_name(f".{path.name}.replaced")
    if not path.exists() and aside.exists():
        aside.rename(path)
