"""Where items are from, and when they came: three tables of the catalogue.

`additions`    when items were added: `first_key` and the keys after it, at that time or later
`text_files`   the items that are text files of a folder, which nothing else tells
`read_values`  text and metadata of a folder's items as they were read, before `update` changed them

A catalogue of an older release lacks them, and gets them with its next change.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from genius.index.checksums import Checksums
from genius.index.entries import ReadValues
from genius.index.sqlite import LISTED, ids_to_json, to_json

TABLES = (
    "CREATE TABLE IF NOT EXISTS additions (first_key INTEGER PRIMARY KEY, added_at TEXT NOT NULL) STRICT",
    "CREATE TABLE IF NOT EXISTS text_files (item_key INTEGER PRIMARY KEY, folder TEXT NOT NULL) STRICT",
    "CREATE TABLE IF NOT EXISTS read_values "
    "(item_key INTEGER PRIMARY KEY, text TEXT, metadata TEXT NOT NULL) STRICT",
)

Addition = tuple[int, datetime.datetime]
"""The first key of items that were added, and when."""


class Provenance(Checksums):
    """The tables that say where items are from."""

    NEWER_TABLES = TABLES

    def additions(self) -> list[Addition]:
        """When items were added, or got another text or image: a key and a time, for it and the keys up to
        the next pair. Keys before the first pair were added before that was recorded."""
        rows = self._query_provenance("SELECT first_key, added_at FROM additions ORDER BY first_key")
        return [(key, datetime.datetime.fromisoformat(at)) for key, at in rows]

    def text_folders(self, item_keys: Iterable[int]) -> dict[int, str]:
        """The folder of each of these items that is a text file of one, as far as that is recorded."""
        query = f"SELECT item_key, folder FROM text_files WHERE item_key {LISTED}"
        return dict(self._query_provenance(query, to_json(item_keys)))

    def read_values(self, item_keys: Iterable[int]) -> dict[int, ReadValues]:
        """What was read of those of these items that `update` changed later."""
        query = f"SELECT item_key, text, metadata FROM read_values WHERE item_key {LISTED}"
        rows = self._query_provenance(query, to_json(item_keys))
        return {key: ReadValues(text, metadata) for key, text, metadata in rows}

    def keep_text_files(self, folder: str, ids: Iterable[str], former: str | None = None) -> None:
        """Store that items without images are text files of a folder, which was at `former` until now."""
        with self._changing():
            if former is not None:
                self._query("UPDATE text_files SET folder = ? WHERE folder = ?", folder, former)
            query = f"SELECT item_key, ? FROM items WHERE image IS NULL AND id {LISTED}"
            self._query(f"INSERT OR REPLACE INTO text_files {query}", folder, ids_to_json(ids))

    def _query_provenance(self, sql: str, *values: Any) -> list[Any]:
        known = self._query("SELECT count(*) FROM sqlite_master WHERE name = 'read_values'")
        return self._query(sql, *values) if known[0][0] else []

    # --- within a transaction

    def _add_additions(self, additions: Iterable[Addition]) -> None:
        rows = [(key, at.isoformat(timespec="microseconds")) for key, at in additions]
        self._execute_many("INSERT INTO additions VALUES (?, ?)", rows)

    def _add_text_folders(self, folders: Mapping[int, str]) -> None:
        self._execute_many("INSERT OR REPLACE INTO text_files VALUES (?, ?)", folders.items())

    def _add_read_values(self, read_values: Mapping[int, ReadValues]) -> None:
        rows = [(key, read.text, read.metadata) for key, read in read_values.items()]
        self._execute_many("INSERT OR REPLACE INTO read_values VALUES (?, ?, ?)", rows)

    def _forget(self, item_keys: Sequence[int], *tables: str) -> None:
        for table in tables or ("text_files", "read_values"):
            self._execute_many(f"DELETE FROM {table} WHERE item_key = ?", [(key,) for key in item_keys])
