"""Makes an index what it would be if an older genius had written it."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from genius.index.catalogue import FILE
from genius.index.checksums import COUNT_FILE, UNSUMMED


def make_older(index: Path) -> None:
    """Take away the tables and the file that catalogues did not have once."""
    with contextlib.closing(sqlite3.connect(index / FILE, isolation_level=None)) as connection:
        for table in ("checksums", "changes", "additions", "text_files", "read_values"):
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(f"PRAGMA user_version = {UNSUMMED}")
    (index / COUNT_FILE).unlink(missing_ok=True)
