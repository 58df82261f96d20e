"""Errors of the disk as one sentence with a way out: it is full, may not be written to, or fails."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from genius.errors import DISK_ADVICE, WRITTEN, DiskError

_OF_SQLITE = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_PERM: errno.EACCES,
    sqlite3.SQLITE_IOERR: errno.EIO,
}


@contextlib.contextmanager
def translate_disk_errors(path: Path, doing: str = WRITTEN) -> Iterator[None]:
    """Within, an error of the disk is raised as a DiskError; `doing` says what failed, as in "opened"."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_ADVICE:
            raise
        raise DiskError(error.filename or path, error.errno, doing) from error


def disk_error_of_sqlite(path: Path, error: sqlite3.Error) -> DiskError | None:
    """The same for an error of SQLite, if the disk caused it."""
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_CANTOPEN and not os.access(path.parent, os.W_OK):
        needed = "its folder can't be written to, which is needed to read it too"
        return DiskError(path, errno.EACCES, "used", needed)
    number = None if code is None else _OF_SQLITE.get(code & 0xFF)
    return None if number is None else DiskError(path, number, "used", str(error))
