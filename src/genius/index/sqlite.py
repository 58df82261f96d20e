"""One SQLite file for any number of threads, each with its own connection; SQLite's errors as ours."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from genius.errors import DamagedError, DiskError, FilterTimeoutError, GeniusError, InputError

BUSY_SECONDS = 60
"""How long a connection waits for another one that writes."""
WAL_BYTES = 16 << 20
"""From this size of the write-ahead log on, a commit is followed by a checkpoint,"""
CHECKPOINT_SECONDS = 5
"""which waits so long for readers of older versions."""
DEADLINE_STEPS = 1000
"""How many steps SQLite's virtual machine does between two looks at the clock, where there is a deadline."""
LISTED = "IN (SELECT value FROM json_each(?))"
"""A condition: among the values of a list in JSON."""

_DISK_ERRORS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_PERM: errno.EACCES,
    sqlite3.SQLITE_IOERR: errno.EIO,
}

Connections = list[tuple[threading.Thread, sqlite3.Connection]]


class Database:
    """The SQLite file at `path`, which exists."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._thread = threading.local()
        self._connections: Connections = []
        self._connections_lock = threading.Lock()
        self._checkpoint_at = WAL_BYTES
        self._closing = weakref.finalize(self, _close, self._connections)

    def close(self) -> None:
        """Close all connections."""
        self._closing()

    @property
    def _connection(self) -> sqlite3.Connection:
        if not self._closing.alive:
            raise self._closed()
        connection: sqlite3.Connection | None = getattr(self._thread, "connection", None)
        if connection is not None and not connection.in_transaction and self._is_another_file():
            self._forget_connection(connection)
            connection = None
        if connection is None:
            try:
                self._thread.file = self._file()
            except FileNotFoundError:
                raise self._damaged("it is gone") from None
            connection = self._thread.connection = self._connect()
            with self._connections_lock:
                _close(self._connections, ended=True)
                self._connections.append((threading.current_thread(), connection))
        return connection

    def _file(self) -> tuple[float, ...]:
        """What tells the file from one that took its place; where SQLite does not look for changes, also what
        tells its contents from others."""
        status = self.path.stat()
        if os.access(self.path.parent, os.W_OK):
            return status.st_dev, status.st_ino
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, _has_log(self.path)

    def _is_another_file(self) -> bool:
        """Whether this thread's connection is to a file that was replaced, as that of a copy is."""
        with contextlib.suppress(OSError):
            return bool(self._file() != self._thread.file)
        return False  # what is gone can be read as long as it is open

    def _forget_connection(self, connection: sqlite3.Connection) -> None:
        with self._connections_lock:
            self._connections[:] = [pair for pair in self._connections if pair[1] is not connection]
        connection.close()

    def _connect(self) -> sqlite3.Connection:
        return self._connect_to(database_uri(self.path))

    def _connect_to(self, uri: str) -> sqlite3.Connection:
        if not self._closing.alive:
            raise self._closed()
        with self._translated():
            # Threads don't share it, but closing the catalogue closes all.
            connection = sqlite3.connect(
                uri, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True
            )
            connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _query(self, sql: str, *values: Any) -> list[Any]:
        with self._translated():
            return self._connection.execute(sql, values).fetchall()

    def _execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        with self._translated():
            self._connection.executemany(sql, rows)

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        self._query(begin)
        try:
            yield
            self._query("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error, GeniusError):
                self._connection.execute("ROLLBACK")
            raise

    def _checkpoint_if_large(self) -> None:
        """SQLite checkpoints by itself only in a moment without readers, which may never come."""
        # What was committed stays committed, whether this works or not.
        with contextlib.suppress(OSError, GeniusError):
            written = self.path.with_name(f"{self.path.name}-wal").stat().st_size
            if written >= self._checkpoint_at:
                # Not with every commit, if somebody reads for long.
                self._checkpoint_at = WAL_BYTES if self._checkpoint() else 2 * written

    def _checkpoint(self) -> bool:
        """Move the write-ahead log into the database and truncate it, if no reader is in the way.

        Readers that begin meanwhile read the database itself, and are not in the way.
        """
        self._query(f"PRAGMA busy_timeout = {1000 * CHECKPOINT_SECONDS}")
        try:
            return not self._query("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
        finally:
            self._query(f"PRAGMA busy_timeout = {1000 * BUSY_SECONDS}")

    @contextlib.contextmanager
    def _deadline(self, seconds: float) -> Iterator[None]:
        """Within, queries of this thread are interrupted after this time, with a FilterTimeoutError."""
        connection, end = self._connection, time.monotonic() + seconds
        connection.set_progress_handler(lambda: time.monotonic() >= end, DEADLINE_STEPS)
        try:
            yield
        finally:
            connection.set_progress_handler(None, 0)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Within, SQLite's errors are raised as ours."""
        try:
            yield
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", None)
            # Without a code it is Python's own: a text that is none.
            if code is None or str(error).startswith("no such"):
                raise self._damaged(error) from error
            if code == sqlite3.SQLITE_INTERRUPT:
                raise FilterTimeoutError(f"{self.path} was queried for too long: ask for less") from error
            raise _disk_error(self.path, error) or GeniusError(
                f"{self.path} can't be used now: {error}; try again in a moment"
            ) from error
        except UnicodeDecodeError as error:  # SQLite's own words, about a damaged definition
            raise self._damaged("a table's definition is not what was written") from error
        except sqlite3.ProgrammingError as error:
            if self._closing.alive:
                raise  # a bug of ours, and no fault of the file
            raise self._closed() from error
        except sqlite3.DatabaseError as error:
            raise _disk_error(self.path, error) or self._damaged(error) from error

    def _closed(self) -> GeniusError:
        return GeniusError(f"{self.path.parent} was closed: open the index again")

    def _damaged(self, why: object) -> DamagedError:
        return DamagedError(f"{self.path} is damaged: {why}; make the index again, or take a copy of it")


def _close(connections: Connections, *, ended: bool = False) -> None:
    """Close connections, all of them or those of threads that have ended."""
    for pair in list(connections):
        thread, connection = pair
        if not (ended and thread.is_alive()):
            with contextlib.suppress(ValueError):  # another thread closes it
                connections.remove(pair)
            connection.close()


def _disk_error(path: Path, error: sqlite3.Error) -> DiskError | None:
    """An error of SQLite as a DiskError, if the disk caused it."""
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_CANTOPEN and not os.access(path.parent, os.W_OK):
        needed = "its folder can't be written to, which is needed to read it too"
        return DiskError(path, errno.EACCES, "used", needed)
    number = None if code is None else _DISK_ERRORS.get(code & 0xFF)
    return None if number is None else DiskError(path, number, "used", str(error))


def database_uri(path: Path) -> str:
    """How SQLite is told to open a file.

    Where nobody can write, and nobody has a write-ahead log open, SQLite need not look for changes: it could
    not, as it would have to write beside the file.
    """
    uri = path.absolute().as_uri()
    if os.access(path.parent, os.W_OK):
        return uri
    return f"{uri}?mode=ro" + ("" if _has_log(path) else "&immutable=1")


def _has_log(path: Path) -> bool:
    return path.with_name(f"{path.name}-wal").exists()


def ids_to_json(ids: Iterable[str]) -> str:
    """Ids as JSON. SQLite ends a text in JSON at a zero byte, which no item's id has."""
    try:
        return to_json(id for id in ids if "\0" not in id)
    except TypeError as error:
        raise InputError(f"an id is a text of whole Unicode: {error}") from None


def to_json(values: Iterable[Any]) -> str:
    """Values as a list in JSON."""
    return orjson.dumps(list(values)).decode()
