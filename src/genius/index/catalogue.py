"""The catalogue of an index: its items, and which segments hold their codes, in one SQLite file.

Its transaction is the commit: what a segment holds exists once the catalogue names it. A row number stands
for an item in the segments; it is never used twice, so an item that is replaced or removed leaves a number in
`removed` behind, until its segment is written anew. Metadata is JSON, for filters by `json_extract`.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from genius.errors import DamagedError, GeniusError, InputError, MismatchError
from genius.index.entries import COLUMNS, Entry

FILE = "catalogue.sqlite"
FORMAT = 1
APPLICATION = 0x67656E69  # by which `file` and we know whose database it is

_SCHEMA = f"""
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE state (
    version INTEGER NOT NULL, next_row INTEGER NOT NULL, next_segment INTEGER NOT NULL
) STRICT;
CREATE TABLE segments (
    number INTEGER PRIMARY KEY, items INTEGER NOT NULL, fingerprint TEXT NOT NULL
) STRICT;
CREATE TABLE items (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, modality INTEGER NOT NULL, text TEXT, image TEXT,
    picture BLOB, metadata TEXT NOT NULL, content BLOB NOT NULL
) STRICT;
CREATE TABLE removed (row INTEGER PRIMARY KEY) STRICT;
CREATE TABLE pictures (picture BLOB PRIMARY KEY, content BLOB NOT NULL) STRICT;
CREATE TABLE instructions (text TEXT PRIMARY KEY, want INTEGER NOT NULL) STRICT;
INSERT INTO state VALUES (0, 1, 1);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORMAT};
"""
_ENTRY = ", ".join(COLUMNS)
_LISTED = "IN (SELECT value FROM json_each(?))"


@dataclass(frozen=True)
class State:
    """Where the index is: its version goes up with every commit."""

    version: int
    next_row: int
    next_segment: int


@dataclass(frozen=True)
class SegmentEntry:
    """A segment that the catalogue names."""

    number: int
    items: int
    fingerprint: str


class Catalogue:
    """The catalogue in a folder, for any number of threads; each has a connection of its own."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        if not self.path.is_file():
            raise InputError(f"is no index: it has no {FILE}", path=folder)
        self._own = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._closing = weakref.finalize(self, _close, self._connections)
        self._check_format()

    @staticmethod
    def create(folder: Path, settings: Mapping[str, Any]) -> None:
        """Write an empty catalogue into a folder."""
        connection = sqlite3.connect(folder / FILE, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
            rows = [(name, orjson.dumps(value).decode()) for name, value in settings.items()]
            connection.executemany("INSERT INTO settings VALUES (?, ?)", rows)
        finally:
            connection.close()

    def close(self) -> None:
        """Let go of the file."""
        self._closing()

    # --- reading

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Everything that this thread reads within is of one version."""
        with self._transaction("BEGIN"):
            self.state()  # the first look is what fixes the version
            yield

    def settings(self) -> dict[str, Any]:
        """What the index was made with."""
        return {name: orjson.loads(value) for name, value in self._ask("SELECT * FROM settings")}

    def state(self) -> State:
        """The version, and the next numbers to be given."""
        return State(*self._ask("SELECT version, next_row, next_segment FROM state")[0])

    def segments(self) -> list[SegmentEntry]:
        """The segments that are live, oldest first."""
        rows = self._ask("SELECT number, items, fingerprint FROM segments ORDER BY number")
        return [SegmentEntry(*row) for row in rows]

    def removed(self) -> np.ndarray:
        """The rows of segments that no longer stand for an item: int64, sorted."""
        return np.array([row for (row,) in self._ask("SELECT row FROM removed ORDER BY row")], np.int64)

    def __len__(self) -> int:
        """How many items there are, without a look at them."""
        counted = "SELECT (SELECT total(items) FROM segments) - (SELECT count(*) FROM removed)"
        return int(self._ask(counted)[0][0])

    def modalities(self) -> dict[int, int]:
        """How many items there are of each modality, by its number."""
        return dict(self._ask("SELECT modality, count(*) FROM items GROUP BY modality"))

    def entries(self, rows: Iterable[int]) -> dict[int, Entry]:
        """The items at these rows."""
        listed = orjson.dumps(list(rows)).decode()
        found = self._ask(f"SELECT row, {_ENTRY} FROM items WHERE row {_LISTED}", listed)
        return {row: Entry(*fields) for row, *fields in found}

    def known(self, ids: Sequence[str]) -> dict[str, tuple[int, bytes]]:
        """The rows and content hashes of those ids that there are."""
        listed = orjson.dumps(list(ids)).decode()
        found = self._ask(f"SELECT id, row, content FROM items WHERE id {_LISTED}", listed)
        return {id: (row, content) for id, row, content in found}

    def instructions(self) -> dict[str, int]:
        """Known instructions, and the number of the modality that each asks for."""
        return dict(self._ask("SELECT text, want FROM instructions"))

    def walk(self) -> Iterator[tuple[int, Entry]]:
        """Every row with its item, in the order of rows, a thousand at a time."""
        last = 0
        while True:
            asked = f"SELECT row, {_ENTRY} FROM items WHERE row > ? ORDER BY row LIMIT 1000"
            found = self._ask(asked, last)
            yield from ((row, Entry(*fields)) for row, *fields in found)
            if not found:
                return
            last = found[-1][0]

    def check(self) -> None:
        """Look at every byte. Raises DamagedError."""
        faults = [fault for (fault,) in self._ask("PRAGMA integrity_check")]
        if faults != ["ok"]:
            raise self._damaged(faults[0])
        for row, entry in self.walk():
            if not entry.sound:
                raise self._damaged(f"item {entry.id!r} in row {row} is not what was written")

    # --- writing: one process at a time, which the index sees to

    def commit(self, entries: Sequence[Entry], segment: SegmentEntry, replaced: Sequence[int] = ()) -> None:
        """Add items, whose rows follow each other from the next one on, with the segment that holds them.

        `replaced` are the rows of older items that they take the place of.
        """
        state = self.state()
        places = [(state.next_row + place, *_fields(entry)) for place, entry in enumerate(entries)]
        marks = ", ".join("?" * len(places[0]))
        with self._transaction("BEGIN IMMEDIATE"):
            self._many("DELETE FROM items WHERE row = ?", [(row,) for row in replaced])
            self._many("INSERT INTO removed VALUES (?)", [(row,) for row in replaced])
            self._many(f"INSERT INTO items (row, {_ENTRY}) VALUES ({marks})", places)
            self._ask("INSERT INTO segments VALUES (?, ?, ?)", *astuple(segment))
            self._ask(
                "UPDATE state SET version = version + 1, next_row = ?, next_segment = ?",
                state.next_row + len(entries),
                segment.number + 1,
            )

    def keep_pictures(self, pictures: Iterable[tuple[bytes, bytes]]) -> None:
        """Keep the bytes of pictures under their hashes, for items that will be committed."""
        with self._transaction("BEGIN IMMEDIATE"):
            self._many("INSERT OR IGNORE INTO pictures VALUES (?, ?)", pictures)

    def add_instructions(self, wanted: Mapping[str, int]) -> None:
        """Remember which modality instructions ask for."""
        with self._transaction("BEGIN IMMEDIATE"):
            self._many("INSERT OR REPLACE INTO instructions VALUES (?, ?)", wanted.items())

    # --- SQLite

    @property
    def _connection(self) -> sqlite3.Connection:
        if not self._closing.alive:
            raise GeniusError(f"{self.path.parent} was closed: open the index again")
        connection: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            # Threads don't share it, but whoever closes the catalogue closes all.
            connection = sqlite3.connect(self.path, timeout=60, isolation_level=None, check_same_thread=False)
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

    def _check_format(self) -> None:
        if self._ask("PRAGMA application_id")[0][0] != APPLICATION:
            raise self._damaged("it is no catalogue of genius")
        found = self._ask("PRAGMA user_version")[0][0]
        if found != FORMAT:
            way_out = "update genius" if found > FORMAT else "make the index again"
            raise MismatchError(
                f"{self.path} has format {found}, but this genius reads format {FORMAT}: {way_out}"
            )


def _fields(entry: Entry) -> tuple[Any, ...]:
    return tuple(getattr(entry, name) for name in COLUMNS)


def _close(connections: list[sqlite3.Connection]) -> None:
    for connection in connections:
        connection.close()
    connections.clear()
