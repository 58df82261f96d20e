"""Checksums of the catalogue's tables, kept by the transactions that change them.

An item has a hash of its own, and its key stands in a segment, as that of a removed one does. Of each other
table `checksums` holds the sum of its rows' hashes: a row that comes or goes changes it without a look at the
rest, so it costs the same however many rows there are. SQLite itself says which rows come and go, by triggers
of the connection that writes; the file has none.

How often the catalogue was changed is counted in `changes`, and after each transaction in a small file beside
it: if the write-ahead log is damaged or left behind, SQLite goes back to an earlier state, which is whole in
itself, and only that file knows of a later one. It is written without waiting for the disk, and may lag
behind: it says less than it could then, and nothing wrong.

A catalogue of an older genius gets all this with its next change.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from genius.data.content_key import KEY_BYTES, content_key
from genius.errors import DamagedError
from genius.index.sqlite import Database

FORMAT = 3
"""Of catalogues that have a checksum."""
UNSUMMED = 2
"""The format before."""
SUMMED = (
    *("settings", "state", "segments", "images", "instructions"),
    *("additions", "text_files", "read_values", "changes"),
)
"""Tables that have checksums."""
COUNT_FILE = "catalogue.changes"
_TABLES = (
    "CREATE TABLE changes (count INTEGER NOT NULL) STRICT",
    "INSERT INTO changes VALUES (0)",
    "CREATE TABLE checksums (name TEXT PRIMARY KEY, sum TEXT NOT NULL) STRICT",
)
_SCHEMA = "schema"
"""The name of the checksum of all tables' definitions."""
_MODULUS = 1 << 8 * KEY_BYTES

Value = str | int | bytes | None


def add_checksums(connection: sqlite3.Connection) -> None:
    """Give a catalogue whose other tables are made its checksums. Within a transaction."""
    for statement in _TABLES:
        connection.execute(statement)
    sums = [(name, _to_text(_sum(connection, name))) for name in (*SUMMED, _SCHEMA)]
    connection.executemany("INSERT INTO checksums VALUES (?, ?)", sums)
    connection.execute(f"PRAGMA user_version = {FORMAT}")


class Checksums(Database):
    """The tables of a catalogue, changed together with their checksums."""

    NEWER_TABLES: tuple[str, ...] = ()
    """Statements that make the tables which a catalogue without checksums may lack."""

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """A transaction that changes tables."""
        if self._query("PRAGMA user_version")[0][0] == UNSUMMED:
            self._bring_up_to_date()
        watch = self._watch()
        with self._transaction("BEGIN IMMEDIATE"):
            watch.sums.clear()
            before, count = watch.connection.total_changes, None
            yield
            if watch.connection.total_changes > before:
                (count,) = self._one_row("UPDATE changes SET count = count + 1 RETURNING count", "changes")
                stored = self._stored_sums()
                rows = [(_to_text(stored[name] + more), name) for name, more in watch.sums.items()]
                self._execute_many("UPDATE checksums SET sum = ? WHERE name = ?", rows)
        if count is not None:
            _write_count(self._count_file, count)

    def _bring_up_to_date(self) -> None:
        """Make the tables that an older catalogue lacks."""
        with self._transaction("BEGIN IMMEDIATE"), self._translated():
            for table in self.NEWER_TABLES:
                self._connection.execute(table)
            add_checksums(self._connection)

    def _check_settings(self) -> None:
        """Compare the settings with their checksum. Raises DamagedError."""
        query = "SELECT 0, name, value FROM settings UNION ALL SELECT 1, name, sum FROM checksums"
        rows = self._query(f"{query} WHERE name = 'settings'")  # in one statement: of one version
        if self._parsed({name: text for is_sum, name, text in rows if is_sum}) != {
            "settings": sum(_hash(row) for is_sum, *row in rows if not is_sum) % _MODULUS
        }:
            raise self._altered("settings")

    def _check_tables(self) -> None:
        """Compare all tables with their checksums, and the count of changes. Raises DamagedError."""
        summed = self._query("SELECT count(*) FROM sqlite_master WHERE name = 'checksums'")[0][0]
        if bool(summed) != (self._query("PRAGMA user_version")[0][0] == FORMAT):
            raise self._damaged("its format is not what was written")
        if not summed:
            return
        stored = self._stored_sums()
        for name in (*SUMMED, _SCHEMA):
            with self._translated():
                if _sum(self._connection, name) != stored[name]:
                    raise self._altered(name)
        counted = _read_count(self._count_file)
        if counted is not None and counted > (count := self._newest_count()):
            raise DamagedError(
                f"{self.path} has lost its last changes: there were {counted:,}, and {count:,} are there; "
                "take a copy of all the index's files, or make the last changes again"
            )

    def _newest_count(self) -> int:
        """How many changes there are now, whichever version this thread reads."""
        connection = self._connect()
        try:
            with self._translated():
                return int(connection.execute("SELECT count FROM main.changes").fetchone()[0])
        finally:
            connection.close()

    def _stored_sums(self) -> dict[str, int]:
        return self._parsed(dict(self._query("SELECT name, sum FROM checksums")), (*SUMMED, _SCHEMA))

    def _parsed(self, texts: dict[str, str], names: Collection[str] = ("settings",)) -> dict[str, int]:
        try:
            return {name: int(texts[name], 16) for name in names}
        except (KeyError, ValueError):
            raise self._altered("checksums") from None

    def _one_row(self, query: str, table: str) -> Any:
        """The only row of a table. Raises DamagedError."""
        rows = self._query(query)
        if len(rows) != 1:
            raise self._altered(table)
        return rows[0]

    def _altered(self, table: str) -> DamagedError:
        return self._damaged(f"its table {table} is not what was written")

    @property
    def _count_file(self) -> Path:
        return self.path.with_name(COUNT_FILE)

    def _watch(self) -> _Watch:
        """What adds up the changes of this thread's connection."""
        connection = self._connection
        watch: _Watch | None = getattr(self._thread, "watch", None)
        if watch is None or watch.connection is not connection:
            with self._translated():
                watch = self._thread.watch = _Watch(connection)
        return watch


class _Watch:
    """Adds up the hashes of rows that come, and takes away those of rows that go."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.sums: Counter[str] = Counter()
        connection.create_function("row_came", -1, self._add)
        connection.create_function("row_went", -1, self._subtract)
        connection.execute("PRAGMA recursive_triggers = ON")  # rows that are replaced go, too
        for table in SUMMED:
            named = connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
            came = f"SELECT row_came('{table}', {', '.join(f'NEW.{name}' for (name,) in named)});"
            went = f"SELECT row_went('{table}', {', '.join(f'OLD.{name}' for (name,) in named)});"
            for event, actions in (("INSERT", came), ("DELETE", went), ("UPDATE", went + came)):
                connection.execute(
                    f"CREATE TEMP TRIGGER {table}_{event} AFTER {event} ON main.{table} BEGIN {actions} END"
                )

    def _add(self, table: str, *row: Value) -> None:
        self.sums[table] += _hash(row)

    def _subtract(self, table: str, *row: Value) -> None:
        self.sums[table] -= _hash(row)


def _sum(connection: sqlite3.Connection, name: str) -> int:
    """The sum over the rows of a table as they are, or over the definitions of all."""
    query = f"SELECT * FROM main.{name}"
    if name == _SCHEMA:
        query = "SELECT type, name, tbl_name, sql FROM main.sqlite_master"
    return sum(map(_hash, connection.execute(query))) % _MODULUS


def _hash(row: Iterable[Value]) -> int:
    parts = [_to_bytes(value) for value in row]
    lengths = [b"%d" % len(part) for part in parts]
    return int.from_bytes(content_key(b"".join((b",".join(lengths), *parts))), "big")


def _to_bytes(value: Value) -> bytes:
    """A value, told from those of other kinds by its first byte."""
    if value is None:
        return b"n"
    if isinstance(value, bytes):
        return b"b" + value
    return b"i%d" % value if isinstance(value, int) else b"t" + value.encode()


def _to_text(total: int) -> str:
    return f"{total % _MODULUS:0{2 * KEY_BYTES}x}"


# --- the count beside the catalogue


def _write_count(path: Path, count: int) -> None:
    """Write down how many changes there are, in one step; what was committed stays so if that fails."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.pwrite(descriptor, _count_line(count), 0)
        finally:
            os.close(descriptor)


def _read_count(path: Path) -> int | None:
    """How many changes there were; None if that was not written. Raises DamagedError."""
    try:
        line = path.read_bytes()
    except OSError:
        return None
    if not line.strip(b"\0"):  # as a crash may leave it
        return None
    count = int(line[:20]) if line[:20].isdigit() else 0
    if line != _count_line(count):
        raise DamagedError(f"{path} is not what was written: remove it, and verify again")
    return count


def _count_line(count: int) -> bytes:
    digits = b"%020d" % count
    return digits + b" " + content_key(digits).hex().encode() + b"\n"
