"""How each kind of collection is cut into pieces that can be read apart, and how a piece is read.

A piece is a stretch of a JSONL file by its bytes, row groups of a Parquet file, a tar file, a file in object
storage, a part of a folder's sorted listing; of every other collection (CSV, anything in gzip, an M-BEIR
tree, vectors) a range of items, for which a reader passes over those before it. The cut depends on nothing
but the collection and the size.
"""

from __future__ import annotations

import abc
import hashlib
import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from genius.data.collection import Collection, Located, Report
from genius.data.folder import Folder
from genius.data.object_storage import ObjectStorage, StoredFile
from genius.data.tables import Jsonl, LocatedRow, Parquet, TableCollection, Tables, json_rows
from genius.data.webdataset import WebDataset, shard_items, shards
from genius.errors import InputError, require

BYTES = 1 << 24
"""How much of a file is read at a time."""
SAMPLES, SAMPLE_BYTES = 16, 1 << 16
"""How many places of a file tell whether it is the same, and how long each is."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a file or of a collection.

    Attributes:
        file: the file, or the collection's path.
        start: where it begins: a byte, a row group or an item.
        stop: where it ends.
        before: how many lines or rows of the file come before it.
        items: about how many items it holds.
        content: a checksum of what it was when the collection was cut.
    """

    file: str
    start: int
    stop: int
    before: int
    items: int
    content: str


class Cutter(abc.ABC):
    """How a kind of collection is cut, and how its pieces are read."""

    @abc.abstractmethod
    def pieces(self, size: int) -> Iterator[Piece]:
        """The pieces in order, none of many more than `size` items if that can be."""

    @abc.abstractmethod
    def read(self, piece: Piece, report: Report) -> Iterator[Located]:
        """The items of a piece."""

    @abc.abstractmethod
    def content(self, piece: Piece) -> str:
        """A checksum of what the piece is now."""


def cutter_of(collection: Collection) -> Cutter:
    """The way in which a collection of its kind is cut."""
    if isinstance(collection, Tables):
        return TablesCutter(collection)
    if isinstance(collection, Jsonl) and collection.path.suffix != ".gz":
        return JsonlCutter(collection, collection)
    if isinstance(collection, Parquet):
        return ParquetCutter(collection, collection)
    if isinstance(collection, WebDataset):
        return TarCutter(collection)
    if isinstance(collection, ObjectStorage):
        return StorageCutter(collection)
    return FolderCutter(collection) if isinstance(collection, Folder) else RangeCutter(collection)


@dataclass(frozen=True)
class JsonlCutter(Cutter):
    """Byte ranges of a JSONL file, each a number of whole lines; checked by all their bytes.

    `table` says how rows become items: the file itself, or the folder of tables that it belongs to.
    """

    file: TableCollection
    table: TableCollection

    def pieces(self, size: int) -> Iterator[Piece]:
        """Stretches of `size` lines."""
        with self.file.path.open("rb", buffering=BYTES) as lines:
            start = before = 0
            while True:
                digest, stop, count = hashlib.sha256(), start, 0
                for line in itertools.islice(lines, size):
                    digest.update(line)
                    stop, count = stop + len(line), count + 1
                if not count:
                    return
                yield Piece(str(self.file.path), start, stop, before, count, digest.hexdigest())
                start, before = stop, before + count

    def read(self, piece: Piece, report: Report) -> Iterator[Located]:
        """The items of the lines."""
        path = Path(piece.file)

        def lines() -> Iterator[bytes]:
            with path.open("rb", buffering=1 << 20) as file:
                file.seek(piece.start)
                left = piece.stop - piece.start
                while left > 0 and (line := file.readline()):
                    left -= len(line)
                    yield line

        rows = json_rows(path, lines(), report, piece.before + 1)
        return self.table.items_of(((path, line, row) for line, row in rows), report)

    def content(self, piece: Piece) -> str:
        """Of all bytes."""
        digest = hashlib.sha256()
        with Path(piece.file).open("rb", buffering=0) as file:
            file.seek(piece.start)
            left = piece.stop - piece.start
            while left > 0 and (block := file.read(min(left, BYTES))):
                digest.update(block)
                left -= len(block)
        return digest.hexdigest()


@dataclass(frozen=True)
class ParquetCutter(Cutter):
    """Row groups of a Parquet file; checked by its footer, which says where and how large everything is."""

    file: TableCollection
    table: TableCollection

    def pieces(self, size: int) -> Iterator[Piece]:
        """As many whole row groups as fit, at least one."""
        parquet = require("pyarrow.parquet", "parquet", "reading Parquet files")
        try:
            metadata = parquet.read_metadata(self.file.path)
        except (OSError, ValueError) as error:
            raise InputError(
                f"is no whole Parquet file: {str(error).splitlines()[0]}", path=self.file.path
            ) from error
        rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        content, start, before = _footer(self.file.path), 0, 0
        for stop in range(1, len(rows) + 1):
            held = sum(rows[start:stop])
            if stop == len(rows) or held + rows[stop] > size:
                yield Piece(str(self.file.path), start, stop, before, held, content)
                start, before = stop, before + held

    def read(self, piece: Piece, report: Report) -> Iterator[Located]:
        """The items of the row groups."""
        return self.table.items_of(self._rows(piece), report)

    def _rows(self, piece: Piece) -> Iterator[LocatedRow]:
        parquet = require("pyarrow.parquet", "parquet", "reading Parquet files")
        path, number = Path(piece.file), piece.before
        try:
            with parquet.ParquetFile(path) as file:
                groups = list(range(piece.start, piece.stop))
                for batch in file.iter_batches(batch_size=1024, row_groups=groups):
                    for row in batch.to_pylist():
                        number += 1
                        yield path, number, row
        except (OSError, ValueError) as error:  # pyarrow's errors are subclasses of these
            raise InputError(f"is no whole Parquet file: {str(error).splitlines()[0]}", path=path) from error

    def content(self, piece: Piece) -> str:
        """Of the footer."""
        return _footer(Path(piece.file))


def _footer(path: Path) -> str:
    """A checksum of a Parquet file's footer, whose length stands before the last four bytes."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - 8))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(0, size - 8 - length))
        return hashlib.sha256(size.to_bytes(8, "little") + file.read()).hexdigest()


class TablesCutter(Cutter):
    """Pieces of the tables of a folder, each cut in the way of its kind."""

    def __init__(self, collection: Tables) -> None:
        self._collection = collection

    def pieces(self, size: int) -> Iterator[Piece]:
        """Those of all files, in the order of their names."""
        for reader in self._collection.readers():
            yield from self._of(reader).pieces(size)

    def read(self, piece: Piece, report: Report) -> Iterator[Located]:
        """The items of a piece."""
        return self._find(piece).read(piece, report)

    def content(self, piece: Piece) -> str:
        """In the way of its kind."""
        return self._find(piece).content(piece)

    def _find(self, piece: Piece) -> Cutter:
        for reader in self._collection.readers():
            if str(reader.path) == piece.file:
                return self._of(reader)
        raise InputError("is gone: start again when nobody writes to its folder", path=piece.file)

    def _of(self, reader: TableCollection) -> Cutter:
        if isinstance(reader, Parquet):
            return ParquetCutter(reader, self._collection)
        if isinstance(reader, Jsonl) and reader.path.suffix != ".gz":
            return JsonlCutter(reader, self._collection)
        return RangeCutter(_OneOf(self._collection, reader))


class TarCutter(Cutter):
    """Whole tar files; checked by their sizes and by samples of their bytes."""

    def __init__(self, collection: WebDataset) -> None:
        self._collection = collection

    def pieces(self, size: int) -> Iterator[Piece]:
        """A piece a file. Their numbers of items are told by their sizes, from the first file's."""
        each = 0.0
        for shard in shards(self._collection.path):
            whole = shard.stat().st_size
            if not each:
                each = whole / max(1, sum(1 for _ in shard_items(shard, lambda error: None)))
            yield Piece(str(shard), 0, whole, 0, max(1, round(whole / each)), _sampled(shard))

    def read(self, piece: Piece, report: Report) -> Iterator[Located]:
        """The samples of the file."""
        return shard_items(Path(piece.file), report)

    def content(self, piece: Piece) -> str:
        """Of some of its bytes."""
        return _sampled(Path(piece.file))


class StorageCutter(Cutter):
    """Whole files in object storage; checked by their sizes and times."""

    def __init__(self, collection: ObjectStorage) -> None:
        self._collection = collection

    def pieces(self, size: int) -> Iterator[Piece]:
        """A piece a file. Their numbers of items are told by their sizes, from the first file's."""
        each = 0.0
        for file in self._collection.files():
            if not each:
                held = sum(1 for _ in self._collection.items_of(file, lambda error: None))
                each = file.size / max(1, held)
            items = max(1, round(file.size / each)) if each else 1
            yield Piece(file.url, 0, file.size, 0, items, self._stamp(file))

    def read(self, piece: Piece, report: Report) -> Iterator[Located]:
        """The items of the file."""
        return self._collection.items_of(self._find(piece), report)

    def content(self, piece: Piece) -> str:
        """Of its size and time."""
        return self._stamp(self._find(piece))

    def _find(self, piece: Piece) -> StoredFile:
        for file in ObjectStorage(piece.file).files():
            return file
        raise InputError(f"{piece.file} is gone: start again when nobody writes there")

    @staticmethod
    def _stamp(file: StoredFile) -> str:
        return hashlib.sha256(orjson.dumps([file.size, file.changed])).hexdigest()


class FolderCutter(Cutter):
    """Parts of a folder's sorted listing; checked by the names, sizes and times of the files."""

    def __init__(self, collection: Folder) -> None:
        self._collection = collection

    def pieces(self, size: int) -> Iterator[Piece]:
        """Parts of `size` files."""
        paths, start = self._collection.item_paths(), 0
        while part := list(itertools.islice(paths, size)):
            stop = start + len(part)
            yield Piece(str(self._collection.path), start, stop, 0, len(part), self._listing(part))
            start = stop

    def read(self, piece: Piece, report: Report) -> Iterator[Located]:
        """The items of the files; what is wrong with their captions' table is reported by `shared_errors`."""
        paths = self._paths(piece)
        files = {str(self._collection.path / path) for path in paths}
        part = self._collection.restricted(paths)
        return part._located_items(lambda error: report(error) if str(error.path) in files else None)

    def content(self, piece: Piece) -> str:
        """Of the listing."""
        return self._listing(self._paths(piece))

    def _paths(self, piece: Piece) -> list[str]:
        return list(itertools.islice(self._collection.item_paths(), piece.start, piece.stop))

    def _listing(self, paths: list[str]) -> str:
        stats = [(path, (self._collection.path / path).stat()) for path in paths]
        fields = [[path, stat.st_size, stat.st_mtime_ns] for path, stat in stats]
        return hashlib.sha256(orjson.dumps(fields, default=str)).hexdigest()


class RangeCutter(Cutter):
    """Ranges of the items that a collection gives; checked by samples of its files."""

    def __init__(self, collection: Collection | _OneOf) -> None:
        self._collection = collection

    def pieces(self, size: int) -> Iterator[Piece]:
        """Ranges of `size` items; the last one has no end, as errors may follow its items."""
        path, count = self._collection.path, 0
        content = _sampled(path)
        for _ in self._collection._located_items(lambda error: None):
            count += 1
        for start in range(0, max(1, count), size):
            stop = start + size if start + size < count else sys.maxsize
            yield Piece(str(path), start, stop, start, min(size, count - start), content)

    def read(self, piece: Piece, report: Report) -> Iterator[Located]:
        """The items of the range; those before it are read and passed over."""
        position = 0

        def own(error: InputError) -> None:
            if position >= piece.start:
                report(error)

        for located in self._collection._located_items(own):
            if position >= piece.start:
                yield located
            position += 1
            if position >= piece.stop:
                return

    def content(self, piece: Piece) -> str:
        """Of some bytes of its files."""
        return _sampled(Path(piece.file))


@dataclass(frozen=True)
class _OneOf:
    """One of the tables of a folder, alone."""

    tables: Tables
    reader: TableCollection

    @property
    def path(self) -> Path:
        return self.reader.path

    def _located_items(self, report: Report) -> Iterator[Located]:
        return self.tables.items_of(self.reader.rows(report), report)


def _sampled(path: Path) -> str:
    """A checksum of a file's size and of bytes spread over it; of a folder, of the names and sizes in it."""
    digest = hashlib.sha256()
    if path.is_dir():
        sizes: list[Any] = [[str(file), file.stat().st_size] for file in sorted(path.rglob("*"))]
        return hashlib.sha256(orjson.dumps(sizes)).hexdigest()
    size = path.stat().st_size
    digest.update(size.to_bytes(8, "little"))
    with path.open("rb", buffering=0) as file:
        for sample in range(SAMPLES):
            file.seek(max(0, (size - SAMPLE_BYTES) * sample // (SAMPLES - 1)))
            digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()
