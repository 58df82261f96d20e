"""Rows of a table (JSONL, CSV, Parquet) as items: which column is what, and what a safe path is."""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

import orjson

from genius import atomic
from genius.data.collection import Collection, Located, Report
from genius.data.records import ImageBytes, ImageFile, ImageSource, Item, Scalar
from genius.errors import InputError, require

ID_NAMES = ("id", "_id", "did", "key")
TEXT_NAMES = ("text", "txt", "caption", "description", "title")
IMAGE_NAMES = ("image", "img_path", "image_path", "file_name", "filename", "path", "file")

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


@lru_cache(maxsize=256)
def columns_of(names: tuple[str, ...]) -> tuple[str | None, str | None, str | None]:
    """Which of a row's column names hold the id, the text and the image: the first known one of each."""
    present = set(names)

    def first(known: tuple[str, ...]) -> str | None:
        return next((name for name in known if name in present), None)

    return first(ID_NAMES), first(TEXT_NAMES), first(IMAGE_NAMES)


def item_of(row: Mapping[str, Any], root: str, fallback_id: str) -> Item:
    """The item that a row describes.

    Columns that are neither id, text nor image are metadata; so is what a column `metadata` holds.
    Without an id the image's path is the id, else `fallback_id`. Raises InputError without a place.
    """
    id_column, text_column, image_column = columns_of(tuple(row))
    if text_column is None and image_column is None:
        raise InputError(
            f"no column for a text or an image among {', '.join(map(repr, row)) or 'none'}: "
            f"name them {TEXT_NAMES[0]!r} and {IMAGE_NAMES[0]!r}"
        )
    text = _text(row, text_column)
    image = image_of(row[image_column], root) if image_column is not None else None
    identifier = _id(row, id_column)
    if identifier is None:
        identifier = image.path if isinstance(image, ImageFile) else fallback_id
    named = (id_column, text_column, image_column, "metadata")
    metadata = scalars((key, value) for key, value in row.items() if key not in named)
    metadata |= _inner_metadata(row.get("metadata"))
    return Item(identifier, text, image, metadata)


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


def image_of(value: Any, root: str) -> ImageSource | None:
    """The picture that a field names: a path, bytes, or Hugging Face's `{bytes, path}`; None if empty."""
    if value is None or value in ("", b""):
        return None
    if isinstance(value, str):
        return ImageFile(root, safe_path(value))
    if isinstance(value, bytes):
        return ImageBytes(value)
    if isinstance(value, Mapping) and value.keys() <= {"bytes", "path"}:
        content, path = value.get("bytes"), value.get("path")
        return ImageBytes(content, path or "(bytes)") if content else image_of(path, root)
    raise InputError(f"an image should be a path, but is a {type(value).__name__}")


def safe_path(path: str) -> str:
    """A path that stays below its root, with forward slashes and no detours.

    Raises InputError for an absolute path, one that climbs out, or the address of a web page.
    """
    if path[0] not in "/." and "\\" not in path and ":" not in path and "/." not in path and "//" not in path:
        if "\0" in path:
            raise InputError(f"path {path!r} holds a zero byte")
        return path  # the usual case, quickly
    if _URL.match(path):
        raise InputError(
            f"image {path!r} is an address: nothing is fetched, so download it and give its path"
        )
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    if path.startswith(("/", "\\")) or _DRIVE.match(path) or ".." in parts or "\0" in path or not parts:
        raise InputError(f"path {path!r} leaves the folder: give paths below it, or name another root")
    return "/".join(parts)


def scalars(pairs: Iterable[tuple[str, Any]]) -> dict[str, Scalar]:
    """Metadata from a row's other fields: scalars as they are, lists and objects as their JSON text."""
    return {
        key: value
        if isinstance(value, str | int | float | bool | None)
        else orjson.dumps(value, default=str).decode()
        for key, value in pairs
    }


def _inner_metadata(value: Any) -> dict[str, Scalar]:
    if value is None or value == "":
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"field 'metadata' should be an object, but is a {type(value).__name__}")
    return scalars(value.items())


JSONL_ENDINGS = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
CSV_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET_ENDINGS = (".parquet",)

_BOM = b"\xef\xbb\xbf"
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?([eE][+-]?\d{1,2})?")

Row = dict[str, Any]
LocatedRow = tuple[Path, int, Row]


class Table(Collection):
    """Items in the rows of one file."""

    def _located_items(self, report: Report) -> Iterator[Located]:
        root = str(self.root)
        for path, line, row in self.rows(report):
            try:
                yield path, line, item_of(row, root, self.row_name(path, line))
            except InputError as error:
                report(error.at(path, line))

    def row_name(self, path: Path, line: int) -> str:
        """The id of a row that has none."""
        return str(line)

    def rows(self, report: Report) -> Iterator[LocatedRow]:
        """The rows as they come, each with its line; what is no row goes to `report`."""
        raise NotImplementedError


class Jsonl(Table):
    """A JSON object a line."""

    kind = "JSONL"

    def rows(self, report: Report) -> Iterator[LocatedRow]:
        """The lines' objects."""
        for line, row in json_lines(self.path, report):
            yield self.path, line, row


class Csv(Table):
    """Comma- or tab-separated values under a line of column names."""

    kind = "CSV"

    def rows(self, report: Report) -> Iterator[LocatedRow]:
        """The lines below the header, by column name; an empty field is an absent one."""
        with _open_text(self.path) as file:
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


class Parquet(Table):
    """A Parquet file, as data sets are published in; pictures as paths or inside."""

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


def table(path: Path, *, root: Path | None = None, strict: bool = False) -> Table | None:
    """The reader for the table at `path`, by its name's ending; None if it is no table."""
    name = path.name.lower()
    for endings, reader in ((JSONL_ENDINGS, Jsonl), (CSV_ENDINGS, Csv), (PARQUET_ENDINGS, Parquet)):
        if name.endswith(endings):
            return reader(path, root=root, strict=strict)
    return None


class Tables(Table):
    """The tables of a folder that holds nothing else, one after the other, as one collection: shards."""

    kind = "tables"

    def row_name(self, path: Path, line: int) -> str:
        """Lines are counted in each file, so its name tells them apart."""
        return f"{path.name}:{line}"

    def rows(self, report: Report) -> Iterator[LocatedRow]:
        """Those of all files, in the order of their names."""
        for path in sorted(self.path.iterdir()):
            reader = None if path.name.startswith(".") else table(path, root=self.root)
            if reader is not None:
                yield from reader.rows(report)


def json_lines(path: Path, report: Report) -> Iterator[tuple[int, Row]]:
    """The JSON objects of a file with their line numbers; a line that holds none goes to `report`."""
    loads = orjson.loads
    with open_bytes(path) as file:
        for number, content in enumerate(_decompressed(file, path), start=1):
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
    """Write items as JSONL that `genius.read` gives back exactly; returns how many.

    Pictures must be files below the folder of `path` (they are written as relative paths).
    """
    path = Path(path)
    count = 0
    with atomic.write_file(path) as file:
        for item in items:
            row: Row = {"id": item.id, "text": item.text, "image": _written_path(item, path.parent)}
            if item.metadata:
                row["metadata"] = dict(item.metadata)
            try:
                file.write(orjson.dumps({k: v for k, v in row.items() if v is not None}) + b"\n")
            except TypeError as error:  # a lone surrogate
                raise InputError(f"item {item.id!r} can't be written: {error}", path=path) from error
            count += 1
    return count


def _written_path(item: Item, folder: Path) -> str | None:
    if item.image is None:
        return None
    if not isinstance(item.image, ImageFile) or Path(item.image.root) != folder:
        raise InputError(f"item {item.id!r}: its image {item.image.name} is no file below {folder}")
    return item.image.path


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading, decompressing it if its name ends in .gz."""
    try:
        if path.stat().st_size == 0:
            raise InputError("is empty", path=path)
        return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb", buffering=2**20)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error


def _decompressed(file: BinaryIO, path: Path) -> Iterator[bytes]:
    try:
        yield from file
    except (OSError, EOFError) as error:
        raise InputError(f"is damaged: {error}", path=path) from error


def _open_text(path: Path) -> TextIO:
    # Undecodable bytes come through as lone surrogates, so that the error can name the line.
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", errors="surrogateescape", newline="")


def _delimiter(path: Path, file: TextIO) -> str:
    """Tab for TSV; for CSV what stands most often in the first line: comma, semicolon or tab."""
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
    """A row by column name. An empty field is an absent one; metadata that looks like a number is one."""
    named = columns_of(tuple(header))
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
