"""An index in SQLite over the records of a feature cache: where a key's record is.

The records are what counts: the index is made of them, says up to which record, and is made again if it is
damaged.
"""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from genius.errors import DiskError, GeniusError
from genius.progress import bar

BUSY_SECONDS = 60
"""How long to wait for another process that changes the index."""
STEP = 1 << 18
"""Keys that are taken in by one transaction at most."""
LOOKED_UP = 512
"""Keys that are looked up by one statement at most."""
CACHED = 16 << 10
"""KiB of the index that a process keeps in memory at most."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS places (key BLOB PRIMARY KEY, place INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS state (indexed INTEGER NOT NULL)",
    "INSERT INTO state SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM state)",
)
_DISK_ERRORS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
    sqlite3.SQLITE_IOERR: errno.EIO,
}
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
"""What SQLite says of a file that is damaged, or is none of ours."""

Result = TypeVar("Result")


class KeyIndex:
    """The index at `path`, which is made if it is not there; any number of processes can have it open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = self._connect()
        self._mended(self._make_tables)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def indexed(self) -> int:
        """How many records it covers."""
        return self._mended(self._indexed)

    def places(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        """The places of those keys that it has."""
        return self._mended(lambda: self._look_up(keys))

    def extend(self, keys: np.ndarray) -> None:
        """Take in the keys of all records, `keys` [n] by place, from the first that it lacks.

        Of equal keys the later counts.
        """
        self._mended(lambda: self._extend(keys))

    def clear(self) -> None:
        """Forget all keys."""
        self._mended(self._clear)

    def _indexed(self) -> int:
        rows = self._connection.execute("SELECT indexed FROM state").fetchall()
        return _numbers([number for (number,) in rows] or [None])[0]

    def _look_up(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        known: dict[bytes, int] = {}
        keys = sorted(keys)  # neighbours share pages
        for start in range(0, len(keys), LOOKED_UP):
            wanted = keys[start : start + LOOKED_UP]
            marks = ",".join("?" * len(wanted))
            sql = f"SELECT key, place FROM places WHERE key IN ({marks})"
            known.update(self._connection.execute(sql, wanted).fetchall())
        _numbers(known.values())
        return known

    def _extend(self, keys: np.ndarray) -> None:
        todo = len(keys) - self.indexed()
        with bar("indexing cached features", total=todo, unit="records", silent=todo <= STEP) as shown:
            while todo > 0:
                taken, todo = self._extend_by_step(keys)
                shown.advance(taken)

    def _extend_by_step(self, keys: np.ndarray) -> tuple[int, int]:
        """Take in the next keys, by one transaction; returns how many these were, and how many are left."""
        with self._transaction():
            first = self.indexed()
            block = np.array(keys[first : first + STEP])
            if not len(block):  # others were quicker
                return 0, 0
            parts = block.view(">u8").reshape(len(block), -1)
            # Neighbours share pages; of equal keys the later is last.
            order = np.lexsort(parts.T[::-1]).tolist()
            self._connection.executemany(
                "INSERT OR REPLACE INTO places VALUES (?, ?)",
                ((block[row].tobytes(), first + row) for row in order),
            )
            self._connection.execute("UPDATE state SET indexed = max(indexed, ?)", (first + len(block),))
        return len(block), len(keys) - first - len(block)

    def _clear(self) -> None:
        with self._transaction():
            self._connection.execute("DELETE FROM places")
            self._connection.execute("UPDATE state SET indexed = 0")

    def _make_tables(self) -> None:
        # What a power loss takes is taken in again from the records, so commits need not wait for the disk.
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute(f"PRAGMA cache_size = -{CACHED}")
        with self._transaction():
            for sql in _TABLES:
                self._connection.execute(sql)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise

    def _connect(self) -> sqlite3.Connection:
        with self._translated():
            return sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )

    def _mended(self, work: Callable[[], Result]) -> Result:
        """The result of some work; a damaged file is removed before, and covers no record then."""
        with self._translated():
            try:
                return work()
            except UnicodeDecodeError:
                pass  # SQLite's own words, about a damaged table
            except sqlite3.DatabaseError as error:
                ours = isinstance(error, sqlite3.ProgrammingError)  # a bug, and no damage
                if ours or (_code(error) or sqlite3.SQLITE_CORRUPT) not in _DAMAGE:
                    raise
            self._connection.close()
            for ending in ("", "-wal", "-shm"):
                self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
            self._connection = self._connect()
            self._make_tables()
            return work()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Within, SQLite's errors are raised as ours."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            number = _DISK_ERRORS.get(_code(error))
            if number is not None:
                raise DiskError(self.path, number, "used", str(error)) from error
            raise GeniusError(f"{self.path} can't be used now: {error}; try again in a moment") from error


def _numbers(values: Collection[object]) -> list[int]:
    """Values that are numbers. Raises sqlite3.DatabaseError, without a code, for damage."""
    if not all(isinstance(value, int) for value in values):
        raise sqlite3.DatabaseError("a number is none")
    return list(values)  # type: ignore[arg-type]


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary code of an error; 0 if it has none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
