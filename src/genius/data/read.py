"""`genius.read`: opens a collection of any kind."""

from __future__ import annotations

from pathlib import Path

from genius.data.collection import Collection
from genius.data.folder import Folder, is_image
from genius.data.mbeir import Tree, is_tree
from genius.data.tables import CSV_ENDINGS, JSONL_ENDINGS, PARQUET_ENDINGS, Tables, table
from genius.data.webdataset import WebDataset, is_tar
from genius.errors import InputError

__all__ = ["Collection", "read"]


def read(source: Path | str, *, root: Path | str | None = None, strict: bool = False) -> Collection:
    """Open the collection at `source`; iterate over it to get its items.

    Its kind is detected: a folder of images and texts, JSONL, CSV, TSV, Parquet (one file, or a folder of
    such files and nothing else), WebDataset tar shards (one, or a folder of them), or an M-BEIR tree. Image
    paths in a table are relative to `root`, by default the table's own folder. A line or file that can't be
    read is skipped and recorded in `.failures`; with `strict` it is raised. Raises InputError if `source` is
    none of these kinds.
    """
    path = Path(source)
    if not path.exists():
        raise InputError("there is nothing here", path=path)
    images = Path(root) if root is not None else None
    if path.is_dir():
        return _read_folder(path, images, strict)
    reader: Collection | None = table(path, root=images, strict=strict)
    if reader is None and is_tar(path):
        reader = WebDataset(path, strict=strict)
    if reader is None:
        known = ", ".join((*JSONL_ENDINGS[:2], *CSV_ENDINGS[:2], *PARQUET_ENDINGS, ".tar"))
        hint = " (give the folder that it is in)" if is_image(path.name) else ""
        raise InputError(f"is no collection{hint}: expected a folder or a file ending in {known}", path=path)
    return reader


def _read_folder(path: Path, root: Path | None, strict: bool) -> Collection:
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
        single = table(tables[0], root=root or path, strict=strict) if len(tables) == 1 else None
        return single or Tables(path, root=root or path, strict=strict)
    return Folder(path, strict=strict)
