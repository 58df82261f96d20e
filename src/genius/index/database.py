"""One SQLite file for any number of threads, each with a connection of its own; its errors as ours."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from genius.errors import DamagedError, GeniusError

PATIENCE = 60
"""How many seconds a connection waits for another one that writes."""


class Database:
    """The file at `path`, which is there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._own = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._closing = weakref.finalize(self, _close, self._connections)

    def close(self) -> None:
        """Let go of the file."""
        self._closing()

    @property
    def _connection(self) -> sqlite3.Connection:
        if not self._closing.alive:
            raise GeniusError(f"{self.path.parent} was closed: open the index again")
        connection: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            # Threads don't share it, but whoever closes the catalogue closes all.
            connection = sqlite3.connect(
                self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            self._connections.append(connection)
            self._own.connection = connection
            self._ask("PRAGMA synchronous = FULL")
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
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        """SQLite's errors as ours."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise GeniusError(f"{self.path} can't be used now: {error}") from error
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error

    def _damaged(self, why: object) -> DamagedError:
        return DamagedError(f"{self.path} is damaged: {why}; make the index again, or take a copy of it")


def _close(connections: list[sqlite3.Connection]) -> None:
    for connection in connections:
        connection.close()
    connections.clear()
