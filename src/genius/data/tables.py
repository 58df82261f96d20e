"""Tables of items: JSONL, CSV, TSV and Parquet files, an item a row.

Columns are recognised by their names, or named by the user (see `columns`); every other column is metadata.
"""

from __future__ import annotations

import abc
import contextlib
import csv
import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TextIO, cast

import orjson

from genius import atomic
from genius.data.collection import Collection, Failures, Located, Report
from genius.data.columns import Columns
from genius.data.records import ImageFile, Item, Scalar
from genius.data.rows import Row, row_to_change, row_to_item
from genius.errors import InputError, require

JSONL_ENDINGS = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
CSV_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET_ENDINGS = (".parquet",)

_BOM = b"\xef\xbb\xbf"
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?([eE][+-]?\d{1,2})?")

LocatedRow = tuple[Path, int, Row]
"""The file and the line that a row was read from, and the row by column name."""


def table(
    path: Path, *, root: Path | None = None, strict: bool = False, columns: Columns | None = None
) -> TableCollection | None:
    """The reader for the table at `path`, by the ending of its name; None if it is no table."""
    name = path.name.lower()
    for endings, reader in ((JSONL_ENDINGS, Jsonl), (CSV_ENDINGS, Csv), (PARQUET_ENDINGS, Parquet)):
        if name.endswith(endings):
            return reader(path, root=root, strict=strict, columns=columns)
    return None


class TableCollection(Collection):
    """Items in the rows of a table."""

    def __init__(
        self, path: Path, *, root: Path | None = None, strict: bool = False, columns: Columns | None = None
    ) -> None:
        super().__init__(path, root=root, strict=strict)
        self.columns = columns or Columns()

    def _located_items(self, report: Report) -> Iterator[Located]:
        return self.items_of(self.rows(report), report)

    def items_of(self, rows: Iterable[LocatedRow], report: Report) -> Iterator[Located]:
        """The items that rows describe, with their places; a row that is no item goes to `report`."""
        root = str(self.root)
        for path, line, row in rows:
            try:
                yield path, line, row_to_item(row, self.columns, root, self.row_name(path, line))
            except InputError as error:
                report(error.at(path, line))

    def changes(self) -> Iterator[Row]:
        """Each row as a change of the item whose id it has: what the row gives is new, the rest stays.

        Without a column for the id, the image's path is the id. Failures are recorded as for items.
        """
        root = str(self.root)
        self.failures = Failures(listener=self.failure_listener)
        for path, line, row in self.rows(self._report, changes=True):
            try:
                yield row_to_change(row, self.columns, root)
            except InputError as error:
                self._report(error.at(path, line))

    def row_name(self, path: Path, line: int) -> str:
        """The id of a row that has none."""
        return str(line)

    @abc.abstractmethod
    def rows(self, report: Report, *, changes: bool = False) -> Iterator[LocatedRow]:
        """The rows in order, with their places; a line that is no row goes to `report`.

        Raises InputError for a table whose columns can't be items, or changes of items.
        """

    def _check_columns(self, names: Sequence[str], changes: bool) -> None:
        self.columns.check(names)
        self.columns.check_id(names) if changes else self.columns.check_content(names)


class Jsonl(TableCollection):
    """A file with a JSON object per line."""

    kind = "JSONL"

    def rows(self, report: Report, *, changes: bool = False) -> Iterator[LocatedRow]:
        """The objects of the lines, of which each may have fields of its own."""
        for line, row in json_lines(self.path, report):
            yield self.path, line, row


class Csv(TableCollection):
    """Comma- or tab-separated values under a line of column names."""

    kind = "CSV"

    def rows(self, report: Report, *, changes: bool = False) -> Iterator[LocatedRow]:
        """The lines below the header; an empty field is an absent one."""
        with _damage_named(self.path), _open_text(self.path) as file:
            lines = csv.reader(file, delimiter=_delimiter(self.path, file), strict=True)
            header: list[str] = []
            known: frozenset[str | None] = frozenset()
            while True:
                try:
                    fields = next(lines, None)
                    if fields is None:
                        return
                    if not fields:
                        continue
                    _refuse_bad_unicode(fields)
                    if not header:
                        names = _header(fields)
                        self._check_columns(names, changes)
                        header, known = names, self.columns.locate(names).all
                        continue
                    if len(fields) != len(header):
                        raise InputError(
                            f"{len(fields)} fields under {len(header)} column names: is a quote missing?"
                        )
                    yield self.path, lines.line_num, _csv_row(header, fields, known)
                except (InputError, csv.Error) as error:
                    reason = error.reason if isinstance(error, InputError) else str(error)
                    located = InputError(reason, path=self.path, line=lines.line_num)
                    if not header:
                        raise located from None  # without column names nothing below can be read
                    report(located)


class Parquet(TableCollection):
    """A Parquet file; its images are paths, or stored inside it."""

    kind = "Parquet"

    def rows(self, report: Report, *, changes: bool = False) -> Iterator[LocatedRow]:
        """The rows, numbered from 1."""
        parquet = require("pyarrow.parquet", "parquet", "reading Parquet files")
        try:
            with parquet.ParquetFile(self.path) as file:
                try:
                    self._check_columns(file.schema_arrow.names, changes)
                except InputError as error:
                    raise error.at(self.path) from None
                number = 0
                for batch in file.iter_batches(batch_size=1024):
                    for row in batch.to_pylist():
                        number += 1
                        yield self.path, number, row
        except (OSError, ValueError) as error:  # pyarrow's errors are subclasses of these
            raise InputError(
                f"is no whole Parquet file: {str(error).splitlines()[0]}", path=self.path
            ) from error


class Tables(TableCollection):
    """All tables of a folder that holds nothing else, as one collection: the shards of a data set."""

    kind = "tables"

    def row_name(self, path: Path, line: int) -> str:
        """The file's name and the line, as every file counts its own lines."""
        return f"{path.name}:{line}"

    def rows(self, report: Report, *, changes: bool = False) -> Iterator[LocatedRow]:
        """The rows of all files, in the order of their names."""
        for reader in self.readers():
            yield from reader.rows(report, changes=changes)

    def readers(self) -> Iterator[TableCollection]:
        """The readers of all files, in the order of their names."""
        for path in sorted(self.path.iterdir()):
            reader = None if path.name.startswith(".") else table(path, root=self.root, columns=self.columns)
            if reader is not None:
                yield reader


def json_lines(path: Path, report: Report) -> Iterator[tuple[int, Row]]:
    """The JSON objects of a file with their line numbers; a line without one goes to `report`."""
    with _damage_named(path), open_bytes(path) as file:
        yield from json_rows(path, file, report)


def json_rows(
    path: Path, lines: Iterable[bytes], report: Report, first: int = 1
) -> Iterator[tuple[int, Row]]:
    """The same of some lines of a file, of which the first has this number."""
    loads = orjson.loads
    for number, content in enumerate(lines, start=first):
        line = content.removeprefix(_BOM) if number == 1 else content
        try:
            row = loads(line)
        except ValueError as error:
            if line.strip():
                report(InputError(f"broken JSON: {error}", path=path, line=number))
            continue
        if type(row) is dict:
            yield number, row
        else:
            report(
                InputError(f"expected a JSON object, found a {type(row).__name__}", path=path, line=number)
            )


def write_items(path: Path | str, items: Iterable[Item]) -> int:
    """Write items as JSONL that `genius.read` reads back exactly; returns their number.

    Images are written as paths relative to the folder of `path`. Raises InputError for an image that is no
    file below that folder, and for text that is no valid Unicode; the file is then left as it was.
    """
    path = Path(path)
    count = 0
    with atomic.write_file(path) as file:
        for item in items:
            row: Row = {"id": item.id, "text": item.text, "image": _relative_path(item, path.parent)}
            if item.metadata:
                row["metadata"] = dict(item.metadata)
            try:
                file.write(orjson.dumps({k: v for k, v in row.items() if v is not None}) + b"\n")
            except TypeError as error:  # a lone surrogate
                raise InputError(f"item {item.id!r} can't be written: {error}", path=path) from error
            count += 1
    return count


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading, decompressing it if its name ends in .gz.

    Raises InputError if it can't be read or is empty.
    """
    try:
        if path.stat().st_size == 0:
            raise InputError("is empty", path=path)
        return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb", buffering=2**20)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error


def _relative_path(item: Item, folder: Path) -> str | None:
    if item.image is None:
        return None
    if not isinstance(item.image, ImageFile) or Path(item.image.root) != folder:
        raise InputError(f"item {item.id!r}: its image {item.image.name} is no file below {folder}")
    return item.image.path


# --- files and CSV


@contextlib.contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """Turn what reading or decompressing a damaged file raises into an InputError that names it."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"is damaged: {error}", path=path) from error


def _open_text(path: Path) -> TextIO:
    # Undecodable bytes come through as lone surrogates, so that the error can name the line.
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", errors="surrogateescape", newline="")


def _delimiter(path: Path, file: TextIO) -> str:
    """Tab for TSV; for CSV the most frequent of comma, semicolon and tab in the first line."""
    csv.field_size_limit(sys.maxsize)
    if ".tsv" in path.name.lower():
        return "\t"
    first = file.readline()
    file.seek(0)
    return max(",;\t", key=first.count)


def _header(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"column {twice!r} occurs twice")
    return names


def _refuse_bad_unicode(fields: list[str]) -> None:
    for field in fields:
        if not field.isascii() and any("\ud800" <= letter <= "\udfff" for letter in field):
            raise InputError("is not UTF-8: save the file as UTF-8")


def _csv_row(header: list[str], fields: list[str], known: frozenset[str | None]) -> Row:
    """A row by column name. An empty field is an absent one; metadata spelled as a number is a number."""
    row: Row = {}
    for name, value in zip(header, fields, strict=True):
        if name in known:
            row[name] = value or None
        elif value:
            row[name] = _number(value)
    return row


def _number(value: str) -> Scalar:
    """The number that a field spells as JSON would (so `007` stays text), else the text itself."""
    if not _NUMBER.fullmatch(value):
        return value
    return int(value) if value.lstrip("-").isdigit() else float(value)
