"""`Index.export`: the items of an index as a table that `genius.read` reads back: JSONL or Parquet.

A row has `id`, `text`, `image` (a path below the table's folder, else an absolute one) and `metadata`: an
object, in Parquet as JSON text, as values of one key may differ in type. `genius_code` and `genius_embedding`
are there if they are wanted, and passed over by readers.

The table appears when it is complete. Copies of images are named by their contents, so that an export that
was stopped finds those which it has made already.
"""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import orjson

from genius import atomic
from genius.data.collection import Failures, Report
from genius.data.columns import CODE_COLUMN, EMBEDDING_COLUMN
from genius.data.content_key import content_key
from genius.data.file_kinds import is_image
from genius.data.records import ImageFile, ImageSource
from genius.data.tables import JSONL_ENDINGS, PARQUET_ENDINGS
from genius.errors import InputError, ItemError, require, translate_disk_errors
from genius.index.assembly import refuse_existing
from genius.index.entries import Entry, item_of
from genius.index.stored_items import StoredItems, open_stored_items
from genius.paths import safe_path
from genius.progress import bar

Row = dict[str, Any]
WriteRows = Callable[[Sequence[Row]], None]

_SIGNATURES = {
    b"\xff\xd8\xff": ".jpg",
    b"\x89PNG": ".png",
    b"GIF8": ".gif",
    b"RIFF": ".webp",
    b"BM": ".bmp",
    b"II*\0": ".tif",
    b"MM\0*": ".tif",
}
"""How files of each kind of image begin."""


@dataclass
class ExportReport:
    """What was exported: how many items, how many image files were copied, and which items failed.

    `absolute` is the number of images outside of the table's folder, which are named by their full paths: to
    be read back they need `root="/"`.
    """

    items: int = 0
    images: int = 0
    absolute: int = 0
    failures: Failures = field(default_factory=Failures)


def export_index(
    path: Path,
    out: Path | str,
    *,
    codes: bool = False,
    embeddings: bool = False,
    images: Path | str | None = None,
    strict: bool = False,
    on_failure: Report | None = None,
) -> ExportReport:
    """Write the items of the index at `path` to a table; see `Index.export`."""
    out = Path(out)
    refuse_existing(out)
    open_table = _table_writer(out)
    report = ExportReport(failures=Failures(listener=on_failure))
    place = _Copies(out, Path(images), report) if images is not None else _Paths(out, report)
    with open_stored_items(path) as items, translate_disk_errors(out):
        if not len(items):
            raise InputError("the index is empty: there is nothing to export", path=path)
        if embeddings and items.format.embeddings == "none":
            raise InputError("the index keeps no embeddings: export it without --embeddings", path=path)
        with (
            atomic.write_file(out) as file,
            open_table(file, codes, embeddings) as write,
            bar("exporting", total=len(items)) as shown,
        ):
            for keys, entries in items.entries(items.keys):
                rows = _rows(items, entries, place, report, strict=strict)
                kept = [number for number, row in enumerate(rows) if row is not None]
                whole = [row for row in rows if row is not None]
                _add_columns(whole, items, keys[kept], codes=codes, embeddings=embeddings)
                write(whole)
                report.items += len(whole)
                shown.advance(len(keys))
            place.finish()
    return report


def _rows(
    items: StoredItems, entries: Sequence[Entry], place: _Paths, report: ExportReport, *, strict: bool
) -> list[Row | None]:
    """The rows of items; None for one that failed."""
    rows: list[Row | None] = []
    for entry in entries:
        item = item_of(entry, items.catalogue.path)
        try:
            image = None if item.image is None else place.path_of(item.image)
        except InputError as error:
            failed = ItemError(item.id, error)
            if strict:
                raise failed from error
            report.failures.add(failed)
            rows.append(None)
            continue
        rows.append({"id": item.id, "text": item.text, "image": image, "metadata": dict(item.metadata)})
    return rows


def _add_columns(
    rows: Sequence[Row], items: StoredItems, keys: np.ndarray, *, codes: bool, embeddings: bool
) -> None:
    if codes and len(keys):
        for row, code in zip(rows, items.codes(keys).tolist(), strict=True):
            row[CODE_COLUMN] = code
    if embeddings and len(keys):
        for row, embedding in zip(rows, items.embeddings(keys), strict=True):
            row[EMBEDDING_COLUMN] = embedding


class _Paths:
    """Images stay where they are: paths to them."""

    def __init__(self, out: Path, report: ExportReport) -> None:
        self._folder, self._report = out.parent.resolve(), report

    def path_of(self, image: ImageSource) -> str:
        """What the table says of an image. Raises InputError for one that it can't name."""
        if not isinstance(image, ImageFile):
            raise InputError(
                f"its image {image.name} is no file of its own: copy images with --images, below the table"
            )
        file = image.file.resolve()
        below = file.is_relative_to(self._folder)
        path = str(file.relative_to(self._folder if below else "/"))
        if safe_path(path) != path:
            raise InputError(f"the path {path!r} can't stand in a table: copy images with --images")
        self._report.absolute += not below
        return path if below else str(file)

    def finish(self) -> None:
        """Before the table is there."""


class _Copies(_Paths):
    """Images are copied to a folder below the table's own, under names that tell their contents."""

    def __init__(self, out: Path, folder: Path, report: ExportReport) -> None:
        super().__init__(out, report)
        self._images, self._written = folder.resolve(), set[Path]()
        if not self._images.is_relative_to(self._folder) or self._images == self._folder:
            raise InputError(
                f"images are copied to a folder below that of the table, {self._folder}: name one there",
                path=folder,
            )
        if folder.exists() and not folder.is_dir():
            raise InputError("is no folder: name another place for the images", path=folder)

    def path_of(self, image: ImageSource) -> str:
        """Copy an image, unless there is such a copy. Raises InputError if it can't be read."""
        content = image.read()
        name = content_key(content).hex()
        file = self._images / name[:2] / f"{name}{_ending(image.name, content)}"
        if file not in self._written:
            self._written.add(file)
            self._report.images += 1
            if not (file.is_file() and file.read_bytes() == content):
                file.parent.mkdir(parents=True, exist_ok=True)
                draft = file.with_name(f".{file.name}.part")
                draft.write_bytes(content)
                draft.replace(file)
        return file.relative_to(self._folder).as_posix()

    def finish(self) -> None:
        """All copies are on the disk before the table names them."""
        folders = {file.parent for file in self._written}
        atomic.sync_all([*self._written, *folders, *([self._images] if folders else [])])


def _ending(name: str, content: bytes) -> str:
    """The ending of an image's name by its contents, else by the name that it had."""
    by_content = (ending for start, ending in _SIGNATURES.items() if content.startswith(start))
    by_name = Path(name).suffix.lower() if is_image(name) else ""
    return next(by_content, by_name)


# --- tables

OpenTable = Callable[[BinaryIO, bool, bool], contextlib.AbstractContextManager[WriteRows]]
"""From a file, and whether there are codes and embeddings, to a function that writes rows."""


def _table_writer(out: Path) -> OpenTable:
    """What writes a table, by the ending of its name. Raises InputError, or MissingError without pyarrow."""
    name = out.name.lower()
    if name.endswith(PARQUET_ENDINGS):
        require("pyarrow.parquet", "parquet", "writing Parquet files")
        return _open_parquet
    if name.endswith(JSONL_ENDINGS):
        return _open_packed_jsonl if name.endswith(".gz") else _open_jsonl
    known = ", ".join((*PARQUET_ENDINGS, *JSONL_ENDINGS))
    raise InputError(f"the name of an export says its format: end it in one of {known}", path=out)


@contextlib.contextmanager
def _open_jsonl(file: BinaryIO, codes: bool, embeddings: bool) -> Iterator[WriteRows]:
    def write(rows: Sequence[Row]) -> None:
        for row in rows:
            given = {name: value for name, value in row.items() if value is not None}
            file.write(orjson.dumps(given, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")

    yield write


@contextlib.contextmanager
def _open_packed_jsonl(file: BinaryIO, codes: bool, embeddings: bool) -> Iterator[WriteRows]:
    with (
        gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed,
        _open_jsonl(cast(BinaryIO, packed), codes, embeddings) as write,
    ):
        yield write


@contextlib.contextmanager
def _open_parquet(file: BinaryIO, codes: bool, embeddings: bool) -> Iterator[WriteRows]:
    arrow = require("pyarrow", "parquet", "writing Parquet files")
    parquet = require("pyarrow.parquet", "parquet", "writing Parquet files")
    columns = {name: arrow.string() for name in ("id", "text", "image", "metadata")}
    columns |= {CODE_COLUMN: arrow.list_(arrow.uint16())} if codes else {}
    columns |= {EMBEDDING_COLUMN: arrow.list_(arrow.float32())} if embeddings else {}
    schema = arrow.schema(list(columns.items()))
    with parquet.ParquetWriter(file, schema) as writer:

        def write(rows: Sequence[Row]) -> None:
            plain = [{**row, "metadata": orjson.dumps(row["metadata"]).decode()} for row in rows]
            writer.write_batch(arrow.RecordBatch.from_pylist(plain, schema=schema))

        yield write
