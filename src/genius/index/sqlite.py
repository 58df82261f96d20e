"""One SQLite file for any number of threads, each with a connection of its own; its errors as ours."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from genius.errors import DamagedError, FilterTimeoutError, GeniusError
from genius.index.disk import of_sqlite

PATIENCE = 60
"""How many seconds a connection waits for another one that writes."""
WAL_BYTES = 16 << 20
"""From this size on, what was written is carried over into the database itself when a commit is done;"""
READERS = 5
"""so many seconds are waited for those who still read what was before."""
STEPS = 1000
"""After how many steps of SQLite's machine it is looked at the clock, where there is a deadline."""

Connections = list[tuple[threading.Thread, sqlite3.Connection]]


class Database:
    """The file at `path`, which is there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._own = threading.local()
        self._connections: Connections = []
        self._opening = threading.Lock()
        self._carried_at = WAL_BYTES
        self._closing = weakref.finalize(self, _close, self._connections)

    def close(self) -> None:
        """Let go of the file."""
        self._closing()

    @property
    def _connection(self) -> sqlite3.Connection:
        if not self._closing.alive:
            raise self._closed()
        connection: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = self._connect()
            with self._opening:
                _close(self._connections, ended=True)
                self._connections.append((threading.current_thread(), connection))
        return connection

    def _connect(self) -> sqlite3.Connection:
        if not self._closing.alive:
            raise self._closed()
        with self._said():
            # Threads don't share it, but whoever closes the catalogue closes all.
            connection = sqlite3.connect(
                self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _ask(self, sql: str, *values: Any) -> list[Any]:
        with self._said():
            return self._connection.execute(sql, values).fetchall()

    def _many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        with self._said():
            self._connection.executemany(sql, rows)

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        self._ask(begin)
        try:
            yield
            self._ask("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error, GeniusError):
                self._connection.execute("ROLLBACK")
            raise

    def _carry_over_if_much(self) -> None:
        """SQLite does it by itself only in a moment when nobody reads, which may never come."""
        # What was committed is there, whatever comes of this.
        with contextlib.suppress(OSError, GeniusError):
            written = self.path.with_name(f"{self.path.name}-wal").stat().st_size
            if written >= self._carried_at:
                # Not with every commit, if somebody reads for long.
                self._carried_at = WAL_BYTES if self._carry_over() else 2 * written

    def _carry_over(self) -> bool:
        """Bring what was written into the database, and begin its log anew, if readers get out of the way.

        Whoever begins to read meanwhile reads the database itself, and is not in the way.
        """
        self._ask(f"PRAGMA busy_timeout = {1000 * READERS}")
        try:
            return not self._ask("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
        finally:
            self._ask(f"PRAGMA busy_timeout = {1000 * PATIENCE}")

    @contextlib.contextmanager
    def _deadline(self, seconds: float) -> Iterator[None]:
        """What this thread asks within is broken off after so many seconds, as a FilterTimeoutError."""
        connection, end = self._connection, time.monotonic() + seconds
        connection.set_progress_handler(lambda: time.monotonic() >= end, STEPS)
        try:
            yield
        finally:
            connection.set_progress_handler(None, 0)

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        """SQLite's errors as ours."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                raise FilterTimeoutError(
                    f"{self.path} was asked for what takes too long: ask for less"
                ) from error
            raise of_sqlite(self.path, error) or GeniusError(
                f"{self.path} can't be used now: {error}; try again in a moment"
            ) from error
        except sqlite3.ProgrammingError as error:
            if self._closing.alive:
                raise  # a fault of ours, and none of the file
            raise self._closed() from error
        except sqlite3.DatabaseError as error:
            raise of_sqlite(self.path, error) or self._damaged(error) from error

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
