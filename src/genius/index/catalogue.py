"""The catalogue of an index: its items, and which segments hold their codes, in one SQLite file.

Its transaction is the commit: what a segment holds exists once the catalogue names it. A row number stands
for an item in the segments; it is never used twice, so an item that is replaced or removed leaves a number in
`removed` behind, until its segment is written anew. Metadata is JSON, for filters by `json_extract`.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from genius.errors import FilterTimeoutError, InputError, MismatchError
from genius.index.entries import COLUMNS, Entry
from genius.index.filters import Condition
from genius.index.sqlite import Database

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
FILTER_SECONDS = 60.0
"""How long a filter may take, where nothing else is said."""
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


class Catalogue(Database):
    """The catalogue in a folder, for any number of threads."""

    def __init__(self, folder: Path) -> None:
        if not (folder / FILE).is_file():
            raise InputError(f"is no index: it has no {FILE}", path=folder)
        super().__init__(folder / FILE)
        self.filter_seconds = FILTER_SECONDS
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

    # --- reading

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Everything that this thread reads within is of one version; also what is within that again."""
        if self._connection.in_transaction:
            yield
            return
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
        found = self._ask(f"SELECT row, {_ENTRY} FROM items WHERE row {_LISTED}", _json(rows))
        return {row: Entry(*fields) for row, *fields in found}

    def known(self, ids: Iterable[str]) -> dict[str, int]:
        """The rows of those ids that there are."""
        return dict(self._ask(f"SELECT id, row FROM items WHERE id {_LISTED}", _ids(ids)))

    def stored(self, ids: Iterable[str]) -> dict[str, tuple[int, Entry]]:
        """The rows and items of those ids that there are, by id."""
        found = self._ask(f"SELECT row, {_ENTRY} FROM items WHERE id {_LISTED}", _ids(ids))
        return {entry.id: (row, entry) for row, entry in ((row, Entry(*rest)) for row, *rest in found)}

    def where(self, condition: Condition) -> np.ndarray:
        """The rows of the items whose metadata fulfils a condition: int64, sorted.

        Raises FilterTimeoutError if it takes more than `filter_seconds`.
        """
        asked = f"SELECT row FROM items WHERE {condition.sql} ORDER BY row"
        try:
            with self._deadline(self.filter_seconds):
                found = self._ask(asked, *condition.values)
        except FilterTimeoutError as error:
            raise FilterTimeoutError(
                f"this filter takes more than {self.filter_seconds:g} seconds: use fewer conditions, or give "
                "it longer by the index's filter_seconds"
            ) from error
        return np.array([row for (row,) in found], np.int64)

    def instructions(self) -> dict[str, int]:
        """Known instructions, and the number of the modality that each asks for."""
        return dict(self._ask("SELECT text, want FROM instructions"))

    def walk(self) -> Iterator[tuple[int, Entry]]:
        """Every row with its item, in the order of rows, a thousand at a time."""
        last = 0
        while found := self.after(last, 1000):
            yield from found
            last = found[-1][0]

    def after(self, row: int, most: int) -> list[tuple[int, Entry]]:
        """The next rows after one, with their items, at most so many."""
        asked = f"SELECT row, {_ENTRY} FROM items WHERE row > ? ORDER BY row LIMIT ?"
        return [(row, Entry(*fields)) for row, *fields in self._ask(asked, row, most)]

    def snapshot(self) -> Iterator[tuple[int, Entry]]:
        """What `walk` gives, all of the version of now, by a connection of its own: however long it takes."""
        connection = self._connect()
        try:
            with self._said():
                found = connection.execute(f"SELECT row, {_ENTRY} FROM items ORDER BY row")
            while True:
                with self._said():
                    some = found.fetchmany(1000)
                yield from ((row, Entry(*fields)) for row, *fields in some)
                if not some:
                    return
        finally:
            connection.close()

    def check(self) -> None:
        """Look at every byte. Raises DamagedError."""
        faults = [fault for (fault,) in self._ask("PRAGMA integrity_check")]
        if faults != ["ok"]:
            raise self._damaged(faults[0])
        for row, entry in self.walk():
            if not entry.sound:
                raise self._damaged(f"item {entry.id!r} in row {row} is not what was written")

    # --- writing: one process at a time, which the index sees to

    def commit(
        self,
        entries: Sequence[Entry] = (),
        segment: SegmentEntry | None = None,
        replaced: Sequence[int] = (),
        *,
        revised: Mapping[int, Entry] | None = None,
        merged: Sequence[int] = (),
        dropped: Sequence[int] = (),
    ) -> None:
        """Add items, whose rows follow each other from the next one on, with the segment that holds them.

        Args:
            entries: the items.
            segment: what holds their codes, and the live rows of all that is merged.
            replaced: the rows of older items that they take the place of.
            revised: items by row that get other metadata, and keep their codes.
            merged: the numbers of segments whose place the new one takes.
            dropped: the rows that those had, and that no longer stand for an item.
        """
        state = self.state()
        places = [(state.next_row + place, *_fields(entry)) for place, entry in enumerate(entries)]
        changed = [(entry.metadata, entry.content, row) for row, entry in (revised or {}).items()]
        with self._transaction("BEGIN IMMEDIATE"):
            self._take_out(replaced)
            self._many("UPDATE items SET metadata = ?, content = ? WHERE row = ?", changed)
            marks = ", ".join("?" * (1 + len(COLUMNS)))
            self._many(f"INSERT INTO items (row, {_ENTRY}) VALUES ({marks})", places)
            self._many("DELETE FROM segments WHERE number = ?", [(number,) for number in merged])
            self._many("DELETE FROM removed WHERE row = ?", [(row,) for row in dropped])
            if segment is not None:
                self._ask("INSERT INTO segments VALUES (?, ?, ?)", *astuple(segment))
            self._ask(
                "UPDATE state SET version = version + 1, next_row = ?, next_segment = ?",
                state.next_row + len(entries),
                state.next_segment if segment is None else segment.number + 1,
            )
        self._carry_over_if_much()

    def remove(self, rows: Sequence[int]) -> None:
        """Take items out; their rows stand for nothing from now on."""
        with self._transaction("BEGIN IMMEDIATE"):
            self._take_out(rows)
            self._ask("UPDATE state SET version = version + 1")
        self._carry_over_if_much()

    def _take_out(self, rows: Sequence[int]) -> None:
        self._many("DELETE FROM items WHERE row = ?", [(row,) for row in rows])
        self._many("INSERT INTO removed VALUES (?)", [(row,) for row in rows])

    def shrink(self) -> None:
        """Let go of pictures that no item names, and of the space that items left."""
        self._ask(
            "DELETE FROM pictures WHERE picture NOT IN "
            "(SELECT picture FROM items WHERE image ->> '$.kind' = 'kept')"
        )
        if self._ask("PRAGMA freelist_count")[0][0]:
            self._ask("VACUUM")
        self._carry_over()

    def keep_pictures(self, pictures: Iterable[tuple[bytes, bytes]]) -> None:
        """Keep the bytes of pictures under their hashes, for items that will be committed."""
        with self._transaction("BEGIN IMMEDIATE"):
            self._many("INSERT OR IGNORE INTO pictures VALUES (?, ?)", pictures)

    def add_instructions(self, wanted: Mapping[str, int]) -> None:
        """Remember which modality instructions ask for."""
        with self._transaction("BEGIN IMMEDIATE"):
            self._many("INSERT OR REPLACE INTO instructions VALUES (?, ?)", wanted.items())

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


def _ids(ids: Iterable[str]) -> str:
    """Ids as JSON. SQLite ends a text in it at a zero byte, which no item's id has."""
    try:
        return _json(id for id in ids if "\0" not in id)
    except TypeError as error:
        raise InputError(f"an id is a text of whole Unicode: {error}") from None


def _json(values: Iterable[Any]) -> str:
    return orjson.dumps(list(values)).decode()
