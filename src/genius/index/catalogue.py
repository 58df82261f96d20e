"""The catalogue of an index: its items, and which segments hold their codes, in one SQLite file.

Its transaction is the commit: what a segment holds exists once the catalogue names it. An item key stands for
an item in the segments; it is never used twice, so an item that is replaced or removed leaves its key in
`tombstones` until its segment is rewritten. Metadata is JSON, for filters by `json_extract`.
"""

from __future__ import annotations

import contextlib
import datetime
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from genius.errors import FilterTimeoutError, InputError, MismatchError
from genius.index import provenance
from genius.index.checksums import FORMAT, UNSUMMED, add_checksums
from genius.index.entries import COLUMNS, Entry, ReadValues
from genius.index.filters import Condition, Ordering
from genius.index.provenance import Provenance
from genius.index.segments import segment_path
from genius.index.sqlite import LISTED, ids_to_json, to_json

FILE = "catalogue.sqlite"
APPLICATION = 0x67656E69  # by which `file` and we recognise the database

_SCHEMA = f"""
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE state (
    version INTEGER NOT NULL, next_key INTEGER NOT NULL, next_segment INTEGER NOT NULL
) STRICT;
CREATE TABLE segments (
    number INTEGER PRIMARY KEY, items INTEGER NOT NULL, fingerprint TEXT NOT NULL
) STRICT;
CREATE TABLE items (
    item_key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, modality INTEGER NOT NULL, text TEXT, image TEXT,
    image_hash BLOB, metadata TEXT NOT NULL, content_hash BLOB NOT NULL
) STRICT;
CREATE TABLE tombstones (item_key INTEGER PRIMARY KEY) STRICT;
CREATE TABLE images (image_hash BLOB PRIMARY KEY, content BLOB NOT NULL) STRICT;
CREATE TABLE instructions (text TEXT PRIMARY KEY, want INTEGER NOT NULL) STRICT;
{"; ".join(provenance.TABLES)};
INSERT INTO state VALUES (0, 1, 1);
PRAGMA application_id = {APPLICATION};
"""
LINEAGE = "split_of"
"""The setting by which indexes know that they are parts of the same one, and so share its item keys."""
FILTER_SECONDS = 60.0
"""How long a filter may take by default."""
_ENTRY = ", ".join(COLUMNS)
INSERT_ITEM = f"INSERT INTO items (item_key, {_ENTRY}) VALUES ({', '.join('?' * (1 + len(COLUMNS)))})"
"""Adds what `item_row` gives."""


@dataclass(frozen=True)
class State:
    """The version, which rises with every commit, and the next numbers to be given out."""

    version: int
    next_key: int
    next_segment: int


@dataclass(frozen=True)
class SegmentEntry:
    """A segment that the catalogue names."""

    number: int
    items: int
    fingerprint: str


def now() -> datetime.datetime:
    """The time in UTC."""
    return datetime.datetime.now(datetime.UTC)


class Catalogue(Provenance):
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
            connection.executescript(f"BEGIN; {_SCHEMA}")
            rows = [(name, orjson.dumps(value).decode()) for name, value in settings.items()]
            connection.executemany("INSERT INTO settings VALUES (?, ?)", rows)
            add_checksums(connection)
            connection.execute("COMMIT")
        finally:
            connection.close()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of indexes whose segments it names."""
        return (self.path.parent,)

    def segment_path(self, number: int) -> Path:
        """Where the segment with this number is."""
        return segment_path(self.path.parent, number)

    def prepare_writing(self) -> None:
        """Have a write-ahead log, so that readers and the writer don't wait for each other; a copy has none.

        Raises InputError for a shard, whose items and keys the whole gives out.
        """
        if "shard" in self.settings():
            folder = self.path.parent
            raise InputError(f"is a shard of {folder.parent}: change the whole instead", path=folder)
        self.keep_log()

    def keep_log(self) -> None:
        """Have a write-ahead log from now on."""
        if self._query("PRAGMA journal_mode")[0][0] != "wal":
            self._query("PRAGMA journal_mode = WAL")

    def refuse_shards(self, verb: str) -> None:
        """Raise InputError if this index has shards, and the verb takes a whole one."""

    # --- reading

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Within, everything that this thread reads is of one version; calls may be nested."""
        if self._connection.in_transaction:
            yield
            return
        with self._transaction("BEGIN"):
            self.state()  # the first read fixes the version
            yield

    def settings(self) -> dict[str, Any]:
        """What the index was made with. Raises DamagedError."""
        try:
            return {name: orjson.loads(value) for name, value in self._query("SELECT * FROM settings")}
        except ValueError:
            raise self._damaged("its settings are not what was written") from None

    def sources(self) -> list[dict[str, str]]:
        """The sources that items were added of, in the order in which they came."""
        sources: list[dict[str, str]] = self.settings().get("sources", [])
        return sources

    def keys_with_prefix(self, prefix: str, most: int = -1) -> list[int]:
        """The item keys of ids that begin with a prefix, which ends in a slash; at most so many."""
        beyond = prefix[:-1] + chr(ord("/") + 1)
        query = "SELECT item_key FROM items WHERE id >= ? AND id < ? LIMIT ?"
        return [key for (key,) in self._query(query, prefix, beyond, most)]

    def entries_with_prefix(self, prefix: str) -> Iterator[tuple[int, Entry]]:
        """Every key with its item, of ids that begin with a prefix: empty, or ending in a slash."""
        beyond = prefix[:-1] + chr(ord("/") + 1) if prefix else chr(0x10FFFF)
        query = f"SELECT item_key, {_ENTRY} FROM items WHERE id >= ? AND id < ? ORDER BY id LIMIT 1000"
        first = prefix
        while rows := self._query(query, first, beyond):
            yield from ((key, Entry(*fields)) for key, *fields in rows)
            first = rows[-1][1] + "\0"

    def state(self) -> State:
        """The version, and the next numbers to be given out."""
        return State(*self._one_row("SELECT version, next_key, next_segment FROM state", "state"))

    def segments(self) -> list[SegmentEntry]:
        """The segments that are live, oldest first."""
        rows = self._query("SELECT number, items, fingerprint FROM segments ORDER BY number")
        return [SegmentEntry(*row) for row in rows]

    def tombstones(self) -> np.ndarray:
        """The keys in segments that no longer stand for an item: int64, sorted."""
        rows = self._query("SELECT item_key FROM tombstones ORDER BY item_key")
        return np.array([key for (key,) in rows], np.int64)

    def __len__(self) -> int:
        """How many items there are, without counting them."""
        query = "SELECT (SELECT total(items) FROM segments) - (SELECT count(*) FROM tombstones)"
        return int(self._query(query)[0][0])

    def modalities(self, condition: Condition | None = None) -> dict[int, int]:
        """How many items there are of each modality, by its number; of all that fulfil a condition.

        Raises FilterTimeoutError.
        """
        where, values = ("", ()) if condition is None else (f"WHERE {condition.sql}", condition.values)
        with self._filtering():
            return dict(self._query(f"SELECT modality, count(*) FROM items {where} GROUP BY 1", *values))

    def entries(self, item_keys: Iterable[int]) -> dict[int, Entry]:
        """The items with these keys."""
        rows = self._query(
            f"SELECT item_key, {_ENTRY} FROM items WHERE item_key {LISTED}", to_json(item_keys)
        )
        return {key: Entry(*fields) for key, *fields in rows}

    def keys_of(self, ids: Iterable[str]) -> dict[str, int]:
        """The item keys of those ids that exist."""
        return dict(self._query(f"SELECT id, item_key FROM items WHERE id {LISTED}", ids_to_json(ids)))

    def stored(self, ids: Iterable[str]) -> dict[str, tuple[int, Entry]]:
        """The keys and items of those ids that exist, by id."""
        rows = self._query(f"SELECT item_key, {_ENTRY} FROM items WHERE id {LISTED}", ids_to_json(ids))
        return {entry.id: (key, entry) for key, entry in ((key, Entry(*rest)) for key, *rest in rows)}

    def where(self, condition: Condition) -> np.ndarray:
        """The keys of the items whose metadata fulfil a condition: int64, sorted.

        Raises FilterTimeoutError if it takes more than `filter_seconds`.
        """
        query = f"SELECT item_key FROM items WHERE {condition.sql} ORDER BY item_key"
        with self._filtering():
            rows = self._query(query, *condition.values)
        return np.array([key for (key,) in rows], np.int64)

    def browse(
        self,
        condition: Condition | None = None,
        *,
        modalities: Sequence[int] = (),
        exclude: Iterable[str] = (),
        ordering: Ordering | None = None,
        most: int = 100,
        offset: int = 0,
    ) -> tuple[int, list[tuple[int, Entry]]]:
        """How many items there are, and some of them in order, with their keys.

        Items without an ordering, and equal ones, are in the order in which they were added. Raises
        FilterTimeoutError.

        Args:
            condition: on their metadata.
            modalities: the numbers of their modalities; empty for all.
            exclude: ids of items that don't count.
            ordering: by their metadata.
            most: how many to return.
            offset: how many to leave out before them.
        """
        condition = Condition("1") if condition is None else condition
        order, order_values = ("", ()) if ordering is None else (f"{ordering.sql}, ", ordering.values)
        where = f"WHERE {condition.sql} AND NOT id {LISTED}"
        if modalities:
            where += f" AND modality IN ({', '.join(map(str, map(int, modalities)))})"
        values = (*condition.values, ids_to_json(exclude))
        page = f"SELECT item_key, {_ENTRY} FROM items {where} ORDER BY {order}item_key LIMIT ? OFFSET ?"
        with self._filtering():
            count = self._query(f"SELECT count(*) FROM items {where}", *values)[0][0]
            rows = self._query(page, *values, *order_values, most, offset)
        return count, [(key, Entry(*fields)) for key, *fields in rows]

    def ordered(self, item_keys: Iterable[int], ordering: Ordering) -> list[int]:
        """These keys in an order; of equal items the one that is given first comes first."""
        query = (
            f"WITH chosen AS MATERIALIZED (SELECT * FROM items WHERE item_key {LISTED}) "
            "SELECT items.item_key FROM json_each(?) AS given "
            f"JOIN chosen AS items ON items.item_key = given.value ORDER BY {ordering.sql}, given.key"
        )
        keys = to_json(item_keys)
        return [key for (key,) in self._query(query, keys, keys, *ordering.values)]

    def metadata_keys(self, most: int) -> list[str]:
        """Keys that items' metadata have, at most so many. Raises FilterTimeoutError."""
        query = "SELECT DISTINCT key FROM items, json_each(items.metadata) LIMIT ?"
        with self._filtering():
            return [key for (key,) in self._query(query, most)]

    def metadata_texts(self, key: str, most: int) -> list[str]:
        """Texts that items have under a metadata key, at most so many. Raises FilterTimeoutError."""
        query = (
            "SELECT DISTINCT atom FROM items, json_each(items.metadata) "
            "WHERE key = ? AND type = 'text' LIMIT ?"
        )
        with self._filtering():
            return [text for (text,) in self._query(query, key, most)]

    @contextlib.contextmanager
    def _filtering(self) -> Iterator[None]:
        """Within, queries that take more than `filter_seconds` are a FilterTimeoutError."""
        try:
            with self._deadline(self.filter_seconds):
                yield
        except FilterTimeoutError as error:
            raise FilterTimeoutError(
                f"this filter takes more than {self.filter_seconds:g} seconds: use fewer conditions, or give "
                "it longer by the index's filter_seconds"
            ) from error

    def ids(self) -> dict[int, str]:
        """The id of every item by its key."""
        return dict(self._query("SELECT item_key, id FROM items"))

    def equal_contents(self) -> list[list[int]]:
        """The item keys of items with equal images and texts, in groups, each rising."""
        return self._alike("image_hash, text")

    def equal_images(self) -> list[list[int]]:
        """The same by images alone."""
        return self._alike("image_hash", "WHERE image_hash IS NOT NULL")

    def _alike(self, columns: str, where: str = "") -> list[list[int]]:
        query = f"SELECT json_group_array(item_key) FROM items {where} GROUP BY {columns} HAVING count(*) > 1"
        return sorted(sorted(orjson.loads(keys)) for (keys,) in self._query(query))

    def instructions(self) -> dict[str, int]:
        """Known instructions, and the number of the modality that each asks for."""
        return dict(self._query("SELECT text, want FROM instructions"))

    def image_content(self, image_hash: bytes) -> bytes | None:
        """The bytes of an image that is kept here."""
        rows = self._query("SELECT content FROM images WHERE image_hash = ?", image_hash)
        return bytes(rows[0][0]) if rows else None

    def walk(self, condition: Condition | None = None) -> Iterator[tuple[int, Entry]]:
        """Every key with its item, in the order of keys; of those that fulfil a condition."""
        last = 0
        while page := self.after(last, 1000, condition):
            yield from page
            last = page[-1][0]

    def after(self, item_key: int, most: int, condition: Condition | None = None) -> list[tuple[int, Entry]]:
        """The next keys after this one, with their items, at most so many; those that fulfil a condition."""
        where, values = ("1", ()) if condition is None else (condition.sql, condition.values)
        query = (
            f"SELECT item_key, {_ENTRY} FROM items WHERE item_key > ? AND {where} ORDER BY item_key LIMIT ?"
        )
        return [(key, Entry(*fields)) for key, *fields in self._query(query, item_key, *values, most)]

    def walk_ids(self) -> Iterator[tuple[int, str]]:
        """Every key with its id, in the order of keys."""
        query = "SELECT item_key, id FROM items WHERE item_key > ? ORDER BY item_key LIMIT 10000"
        last = 0
        while rows := self._query(query, last):
            yield from rows
            last = rows[-1][0]

    def metadata(self, step: int = 1) -> Iterator[list[str]]:
        """The metadata of the items whose keys are multiples of `step`, as JSON, a thousand at a time."""
        query = (
            "SELECT item_key, metadata FROM items WHERE item_key > ? AND item_key % ? = 0 "
            "ORDER BY item_key LIMIT 1000"
        )
        last = 0
        while rows := self._query(query, last, step):
            yield [metadata for _, metadata in rows]
            last = rows[-1][0]

    def snapshot(self, condition: Condition | None = None) -> Iterator[tuple[int, Entry]]:
        """What `walk` gives, all of the current version however long it takes: by a connection of its own."""
        where, values = ("1", ()) if condition is None else (condition.sql, condition.values)
        query = f"SELECT item_key, {_ENTRY} FROM items WHERE {where} ORDER BY item_key"
        connection = self._connect()
        try:
            with self._translated():
                cursor = connection.execute(query, values)
            while True:
                with self._translated():
                    rows = cursor.fetchmany(1000)
                yield from ((key, Entry(*fields)) for key, *fields in rows)
                if not rows:
                    return
        finally:
            connection.close()

    def check(self) -> None:
        """Check every byte. Raises DamagedError."""
        faults = [fault for (fault,) in self._query("PRAGMA integrity_check")]
        if faults != ["ok"]:
            raise self._damaged(faults[0])
        self._check_tables()
        for key, entry in self.walk():
            if not entry.intact:
                raise self._damaged(f"item {entry.id!r} with the key {key} is not what was written")

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
        read_values: Mapping[str, ReadValues] | None = None,
        item_keys: Sequence[int] | None = None,
    ) -> None:
        """Add items, whose keys follow each other from the next one on, with the segment that holds them.

        Args:
            entries: the items.
            segment: holds their codes, and the live items of all that is merged.
            replaced: the keys of older items that they replace.
            revised: items by key that get other metadata, and keep their codes.
            merged: the numbers of segments that the new one replaces.
            dropped: the keys in those that no longer stand for an item.
            read_values: what was read of added or revised items that have other values now, by id; such a
                record of a replaced or revised item ends otherwise.
            item_keys: the keys of the items, rising, in a shard, where others have some between them.
        """
        state = self.state()
        keys = range(state.next_key, state.next_key + len(entries)) if item_keys is None else item_keys
        added = [item_row(key, entry) for key, entry in zip(keys, entries, strict=True)]
        changed = [(entry.metadata, entry.content_hash, key) for key, entry in (revised or {}).items()]
        with self._changing():
            self._bury(replaced)
            self._execute_many("UPDATE items SET metadata = ?, content_hash = ? WHERE item_key = ?", changed)
            self._execute_many(INSERT_ITEM, added)
            self._forget([*(revised or ())], "read_values")
            if read_values:
                known = self.keys_of(read_values)
                self._add_read_values({known[id]: read for id, read in read_values.items() if id in known})
            if added:
                self._add_additions([(keys[0], now())])
            self._execute_many("DELETE FROM segments WHERE number = ?", [(number,) for number in merged])
            self._execute_many("DELETE FROM tombstones WHERE item_key = ?", [(key,) for key in dropped])
            if segment is not None:
                self._query("INSERT INTO segments VALUES (?, ?, ?)", *astuple(segment))
            self._query(
                "UPDATE state SET version = version + 1, next_key = ?, next_segment = ?",
                keys[-1] + 1 if added else state.next_key,
                state.next_segment if segment is None else segment.number + 1,
            )
        self._checkpoint_if_large()

    def remove(self, item_keys: Sequence[int]) -> None:
        """Remove items; their keys become tombstones."""
        with self._changing():
            self._bury(item_keys)
            self._query("UPDATE state SET version = version + 1")
        self._checkpoint_if_large()

    def relocate(self, moved: Mapping[int, Entry], overwritten: Sequence[int] = ()) -> None:
        """Give items other ids and image references, by key; their codes stay. Ids may be exchanged.

        Items that are `overwritten` are removed before.
        """
        changes = [(entry.id, entry.image, entry.content_hash, key) for key, entry in moved.items()]
        with self._changing():
            self._bury(overwritten)
            # No item's id has a zero byte: so each is free when it is needed.
            aside = [(f"\0{key}", key) for key in moved]
            self._execute_many("UPDATE items SET id = ? WHERE item_key = ?", aside)
            self._execute_many(
                "UPDATE items SET id = ?, image = ?, content_hash = ? WHERE item_key = ?", changes
            )
            self._query("UPDATE state SET version = version + 1")
        self._checkpoint_if_large()

    def _bury(self, item_keys: Sequence[int]) -> None:
        keys = [(key,) for key in item_keys]
        self._execute_many("DELETE FROM items WHERE item_key = ?", keys)
        self._forget(item_keys)
        self._execute_many("INSERT INTO tombstones VALUES (?)", keys)

    def shrink(self) -> None:
        """Delete images that no item refers to, and free the space of deleted items."""
        with self._changing():
            self._query(
                "DELETE FROM images WHERE image_hash NOT IN "
                "(SELECT image_hash FROM items WHERE image ->> '$.kind' = 'kept')"
            )
        if self._query("PRAGMA freelist_count")[0][0]:
            self._query("VACUUM")
        self._checkpoint()

    def keep_images(self, images: Iterable[tuple[str, bytes, bytes]]) -> None:
        """Keep the bytes of images under their hashes, for items with these ids that will be committed."""
        rows = ((image_hash, content) for _, image_hash, content in images)
        with self._changing():
            self._execute_many("INSERT OR IGNORE INTO images VALUES (?, ?)", rows)

    def keep_sources(self, sources: Sequence[Mapping[str, str]]) -> None:
        """Store which sources items were added of."""
        with self._changing():
            self._query("INSERT OR REPLACE INTO settings VALUES ('sources', ?)", to_json(sources))

    def add_instructions(self, wanted: Mapping[str, int]) -> None:
        """Store which modality instructions ask for."""
        with self._changing():
            self._execute_many("INSERT OR REPLACE INTO instructions VALUES (?, ?)", wanted.items())

    def _check_format(self) -> None:
        if self._query("PRAGMA application_id")[0][0] != APPLICATION:
            raise self._damaged("it is no catalogue of genius")
        format = self._query("PRAGMA user_version")[0][0]
        if format not in (FORMAT, UNSUMMED):
            way_out = "update genius" if format > FORMAT else "make the index again"
            raise MismatchError(
                f"{self.path} has format {format}, but this genius reads format {FORMAT}: {way_out}"
            )
        if format == FORMAT:
            self._check_settings()


def item_row(item_key: int, entry: Entry) -> tuple[Any, ...]:
    """An item as a row of its table."""
    return item_key, *(getattr(entry, name) for name in COLUMNS)
