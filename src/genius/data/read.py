"""`genius.read`: opens a collection of any kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from genius.data.collection import Collection
from genius.data.columns import Columns
from genius.data.file_kinds import is_image, is_text, unread_kind
from genius.data.folder import Folder
from genius.data.mbeir import Tree, is_tree
from genius.data.object_storage import ObjectStorage, url_of
from genius.data.tables import CSV_ENDINGS, JSONL_ENDINGS, PARQUET_ENDINGS, TableCollection, Tables, table
from genius.data.vectors import VectorFile, VectorTable, VectorTables, is_vector_file, with_vectors
from genius.data.webdataset import WebDataset, is_tar
from genius.errors import InputError

__all__ = ["Collection", "read", "read_table"]


def read(
    source: Path | str,
    *,
    root: Path | str | None = None,
    columns: Columns | Mapping[str, Any] | None = None,
    exif: bool = True,
    strict: bool = False,
    vectors: Path | str | VectorTable | VectorTables | None = None,
) -> Collection:
    """Open the collection at `source`; iterate over it to get its items.

    Its kind is detected: a folder of images and texts, JSONL, CSV, TSV, Parquet (one file, or a folder of
    such files and nothing else), WebDataset tar shards (one, or a folder of them), an M-BEIR tree, a
    single image or text, or a file of vectors. A URL (`s3://`, `gs://`, `file://`) names tables or tar
    shards in object storage, which pyarrow reads.

    Args:
        source: a file or a folder.
        root: the folder of a table's images; by default the table's own.
        columns: a table's columns, where their names are not recognised: `{"id": "sku", "text": ["title",
            "notes"], "image": "photo"}`.
        exif: whether what cameras wrote into photos of a folder is metadata.
        strict: whether a line or file that can't be read is raised, instead of skipped and recorded in
            `.failures`.
        vectors: a file of embeddings of one's own, which items get by their ids; see `genius.data.vectors`
            (and `genius.encode.feature_pools.open_vectors`, which opens what others extracted).

    Raises InputError if `source` is none of these kinds.
    """
    collection = _read(Path(source), root, Columns.of(columns), exif, strict)
    return collection if vectors is None else with_vectors(collection, vectors)


def _read(path: Path, root: Path | str | None, columns: Columns, exif: bool, strict: bool) -> Collection:
    if not path.exists() and (url := url_of(path)) is not None:
        folder = None if root is None else Path(root)
        return ObjectStorage(url, root=folder, columns=columns, strict=strict)
    if not path.exists():
        raise InputError("there is nothing here", path=path)
    if is_vector_file(path):
        return VectorFile(path, strict=strict)
    if path.is_dir():
        return _read_folder(path, root, columns, exif, strict)
    reader = _table(path, root, columns, strict)
    if reader is not None:
        return reader
    if is_tar(path):
        return WebDataset(path, strict=strict)
    if is_image(path.name) or is_text(path.name) or unread_kind(path.name):
        return Folder(path.parent, files=[path.name], exif=exif, strict=strict)
    known = ", ".join((*JSONL_ENDINGS[:2], *CSV_ENDINGS[:2], *PARQUET_ENDINGS, ".tar", ".jpg"))
    raise InputError(f"is no collection: expected a folder or a file ending in {known} …", path=path)


def read_table(
    source: Path | str,
    *,
    root: Path | str | None = None,
    columns: Columns | Mapping[str, Any] | None = None,
    strict: bool = False,
) -> TableCollection:
    """Open the table at `source`. Raises InputError if it is none."""
    path = Path(source)
    if not path.exists():
        raise InputError("there is nothing here", path=path)
    reader = _table(path, root, Columns.of(columns), strict)
    if reader is None:
        known = ", ".join((*JSONL_ENDINGS[:2], *CSV_ENDINGS[:2], *PARQUET_ENDINGS))
        raise InputError(f"is no table: expected a file ending in {known}", path=path)
    return reader


def _table(path: Path, root: Path | str | None, columns: Columns, strict: bool) -> TableCollection | None:
    return table(path, root=None if root is None else Path(root), strict=strict, columns=columns)


def _read_folder(
    path: Path, root: Path | str | None, columns: Columns, exif: bool, strict: bool
) -> Collection:
    if is_tree(path):
        return Tree(path)
    files = [file for file in path.iterdir() if file.is_file() and not file.name.startswith(".")]
    if any(is_tar(file) for file in files) and not any(is_image(file.name) for file in files):
        return WebDataset(path, strict=strict)
    if not any(path.iterdir()):
        raise InputError("is empty", path=path)
    tables = [file for file in files if table(file) is not None]
    if tables and len(tables) == len(files) and not any(file.is_dir() for file in path.iterdir()):
        # Nothing but tables: a single one, or the shards of one.
        single = _table(tables[0], root or path, columns, strict) if len(tables) == 1 else None
        return single or Tables(path, root=Path(root or path), strict=strict, columns=columns)
    return Folder(path, exif=exif, strict=strict)
