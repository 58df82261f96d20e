"""Tables of items: JSONL, CSV, TSV and Parquet files, an item a row.

Columns are recognised by their names: the first known name for the id, the text and the image is used, and
every other column is metadata.
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
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

import orjson

from genius import atomic
from genius.data.collection import Collection, Located, Report
from genius.data.records import ImageBytes, ImageFile, ImageSource, Item, Scalar
from genius.errors import InputError, require
from genius.paths import safe_path

ID_NAMES = ("id", "_id", "did", "key")
TEXT_NAMES = ("text", "txt", "caption", "description", "title")
IMAGE_NAMES = ("image", "img_path", "image_path", "file_name", "filename", "path", "file")

JSONL_ENDINGS = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
CSV_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET_ENDINGS = (".parquet",)

_BOM = b"\xef\xbb\xbf"
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?([eE][+-]?\d{1,2})?")

Row = dict[str, Any]
LocatedRow = tuple[Path, int, Row]
"""The file and the line that a row was read from, and the row by column name."""


def table(path: Path, *, root: Path | None = None, strict: bool = False) -> TableCollection | None:
    """The reader for the table at `path`, by the ending of its name; None if it is no table."""
    name = path.name.lower()
    for endings, reader in ((JSONL_ENDINGS, Jsonl), (CSV_ENDINGS, Csv), (PARQUET_ENDINGS, Parquet)):
        if name.endswith(endings):
            return reader(path, root=root, strict=strict)
    return None


class TableCollection(Collection):
    """Items in the rows of a table."""

    def _located_items(self, report: Report) -> Iterator[Located]:
        root = str(self.root)
        for path, line, row in self.rows(report):
            try:
                yield path, line, _row_to_item(row, root, self.row_name(path, line))
            except InputError as error:
                report(error.at(path, line))

    def row_name(self, path: Path, line: int) -> str:
        """The id of a row that has none."""
        return str(line)

    @abc.abstractmethod
    def rows(self, report: Report) -> Iterator[LocatedRow]:
        """The rows in order, with their places; a line that is no row goes to `report`."""


class Jsonl(TableCollection):
    """A file with a JSON object per line."""

    kind = "JSONL"

    def rows(self, report: Report) -> Iterator[LocatedRow]:
        """The objects of the lines."""
        for line, row in json_lines(self.path, report):
            yield self.path, line, row


class Csv(TableCollection):
    """Comma- or tab-separated values under a line of column names."""

    kind = "CSV"

    def rows(self, report: Report) -> Iterator[LocatedRow]:
        """The lines below the header; an empty field is an absent one."""
        with _damage_named(self.path), _open_text(self.path) as file:
            lines = csv.reader(file, delimiter=_delimiter(self.path, file), strict=True)
            header: list[str] = []
            while True:
                try:
                    fields = next(lines, None)
                    if fields is None:
                        return
                    if not fields:
                        continue
                    _refuse_bad_unicode(fields)
                    if not header:
                        header = _header(fields)
                        continue
                    if len(fields) != len(header):
                        raise InputError(
                            f"{len(fields)} fields under {len(header)} column names: is a quote missing?"
                        )
                    yield self.path, lines.line_num, _csv_row(header, fields)
                except (InputError, csv.Error) as error:
                    reason = error.reason if isinstance(error, InputError) else str(error)
                    located = InputError(reason, path=self.path, line=lines.line_num)
                    if not header:
                        raise located from None  # without column names nothing below can be read
                    report(located)


class Parquet(TableCollection):
    """A Parquet file; its images are paths, or stored inside it."""

    kind = "Parquet"

    def rows(self, report: Report) -> Iterator[LocatedRow]:
        """The rows, numbered from 1."""
        parquet = require("pyarrow.parquet", "parquet", "reading Parquet files")
        try:
            with parquet.ParquetFile(self.path) as file:
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

    def rows(self, report: Report) -> Iterator[LocatedRow]:
        """The rows of all files, in the order of their names."""
        for path in sorted(self.path.iterdir()):
            reader = None if path.name.startswith(".") else table(path, root=self.root)
            if reader is not None:
                yield from reader.rows(report)


def json_lines(path: Path, report: Report) -> Iterator[tuple[int, Row]]:
    """The JSON objects of a file with their line numbers; a line without one goes to `report`."""
    loads = orjson.loads
    with _damage_named(path), open_bytes(path) as file:
        for number, content in enumerate(file, start=1):
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
                    InputError(
                        f"expected a JSON object, found a {type(row).__name__}", path=path, line=number
                    )
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


def scalars(pairs: Iterable[tuple[str, Any]]) -> dict[str, Scalar]:
    """Metadata from a row's other fields: scalars as they are, lists and objects as their JSON text."""
    return {
        key: value
        if isinstance(value, str | int | float | bool | None)
        else orjson.dumps(value, default=str).decode()
        for key, value in pairs
    }


# --- from a row to an item


def _row_to_item(row: Mapping[str, Any], root: str, fallback_id: str) -> Item:
    """The item that a row describes.

    Columns other than id, text and image are metadata; so are the entries of a column `metadata`. Without an
    id the image's path is the id, else `fallback_id`. Raises InputError, without a place.
    """
    id_column, text_column, image_column = _known_columns(tuple(row))
    if text_column is None and image_column is None:
        raise InputError(
            f"no column for a text or an image among {', '.join(map(repr, row)) or 'none'}: "
            f"name them {TEXT_NAMES[0]!r} and {IMAGE_NAMES[0]!r}"
        )
    text = _text(row, text_column)
    image = _image(row[image_column], root) if image_column is not None else None
    identifier = _id(row, id_column)
    if identifier is None:
        identifier = image.path if isinstance(image, ImageFile) else fallback_id
    named = (id_column, text_column, image_column, "metadata")
    metadata = scalars((key, value) for key, value in row.items() if key not in named)
    metadata |= _nested_metadata(row.get("metadata"))
    return Item(identifier, text, image, metadata)


@lru_cache(maxsize=256)
def _known_columns(names: tuple[str, ...]) -> tuple[str | None, str | None, str | None]:
    """The columns of the id, the text and the image, each the first of its known names; None without one."""
    present = set(names)

    def first(known: tuple[str, ...]) -> str | None:
        return next((name for name in known if name in present), None)

    return first(ID_NAMES), first(TEXT_NAMES), first(IMAGE_NAMES)


def _text(row: Mapping[str, Any], column: str | None) -> str | None:
    value = row[column] if column is not None else None
    if value is not None and not isinstance(value, str):
        raise InputError(f"field {column!r} should be text, but is a {type(value).__name__}")
    return value or None


def _id(row: Mapping[str, Any], column: str | None) -> str | None:
    value = row[column] if column is not None else None
    if value is None or value == "":
        if column is not None:
            raise InputError(f"field {column!r} is empty: every item needs an id")
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(
            f"field {column!r} should be text or a whole number, but is a {type(value).__name__}"
        )
    return str(value)


def _image(value: Any, root: str) -> ImageSource | None:
    """The image that a field holds: a path, bytes, or Hugging Face's `{bytes, path}`; None if empty."""
    if value is None or value in ("", b""):
        return None
    if isinstance(value, str):
        return ImageFile(root, safe_path(value))
    if isinstance(value, bytes):
        return ImageBytes(value)
    if isinstance(value, Mapping) and value.keys() <= {"bytes", "path"}:
        content, path = value.get("bytes"), value.get("path")
        return ImageBytes(content, path or "(bytes)") if content else _image(path, root)
    raise InputError(f"an image should be a path, but is a {type(value).__name__}")


def _nested_metadata(value: Any) -> dict[str, Scalar]:
    if value is None or value == "":
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"field 'metadata' should be an object, but is a {type(value).__name__}")
    return scalars(value.items())


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


def _csv_row(header: list[str], fields: list[str]) -> Row:
    """A row by column name. An empty field is an absent one; metadata spelled as a number is a number."""
    named = _known_columns(tuple(header))
    row: Row = {}
    for name, value in zip(header, fields, strict=True):
        if name in named:
            row[name] = value or None
        elif value:
            row[name] = _number(value)
    return row


def _number(value: str) -> Scalar:
    """The number that a field spells as JSON would (so `007` stays text), else the text itself."""
    if not _NUMBER.fullmatch(value):
        return value
    return int(value) if value.lstrip("-").isdigit() else float(value)
