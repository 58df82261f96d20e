"""Collections in object storage, by URL: JSONL, CSV and Parquet files, and WebDataset shards.

    genius.read("s3://bucket/shards/")      # gs://, file:// and what else pyarrow knows

A file is fetched to this machine's disk, read there as any other, and removed. An image in a shard stays
where it is: what is kept of it is its place, from which it is read again when it is shown.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from genius.data.collection import Collection, Located, Report
from genius.data.columns import Columns
from genius.data.records import ImageFile, ImageInTar, Item
from genius.data.tables import TableCollection, table
from genius.data.webdataset import is_tar, shard_items
from genius.errors import InputError, require

_URL = re.compile(r"(s3|gs|gcs|abfs|abfss|hdfs|file):/+(.*)")
_BLOCK = 1 << 22
_GOOGLE = ("gs:", "gcs:")
GOOGLE_SECONDS = 30
"""How long Google's storage is tried: its library would say nothing for a quarter of an hour."""


def url_of(source: Path | str) -> str | None:
    """The URL that a source is, also if it was taken for a path, without a double slash; None for paths."""
    match = _URL.fullmatch(str(source))
    if match is None:
        return None
    scheme, rest = match.groups()
    return f"file:///{rest}" if scheme == "file" else f"{scheme}://{rest}"


def _file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path there. Raises InputError."""
    fs = require("pyarrow.fs", "parquet", "reading object storage")
    try:
        system_and_path: tuple[Any, str] = fs.FileSystem.from_uri(_within_limits(url))
    except (OSError, ValueError) as error:
        raise _unreadable(url, error) from error
    return system_and_path


def _within_limits(url: str) -> str:
    if not url.startswith(_GOOGLE) or "retry_limit_seconds" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}retry_limit_seconds={GOOGLE_SECONDS}"


def _unreadable(url: str, error: Exception) -> InputError:
    return InputError(f"{url} cannot be read: {str(error).splitlines()[0]}")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in object storage, as it is listed."""

    url: str
    size: int
    changed: int


@dataclass(frozen=True, slots=True)
class ImageInObject:
    """An image inside a tar file in object storage, `size` bytes from the offset `start`."""

    url: str
    path: str
    start: int
    size: int

    @property
    def name(self) -> str:
        """The file's URL and the member's path."""
        return f"{self.url}!{self.path}"

    def read(self) -> bytes:
        """The member's bytes: from the copy that is being read, or from where it is stored."""
        copy = _copies.get(self.url)
        if copy is not None:
            with contextlib.suppress(InputError):  # it is removed when all of it is read
                return ImageInTar(str(copy), self.path, self.start, self.size).read()
        system, path = _file_system(self.url)
        try:
            with system.open_input_file(path) as file:
                content = bytes(file.read_at(self.size, self.start))
        except OSError as error:
            raise _unreadable(self.url, error) from error
        if len(content) != self.size:
            raise InputError(f"{self.url} is cut short: member {self.path!r} is not whole")
        return content


_copies: dict[str, Path] = {}
"""Where files are while they are read, by URL."""
_lock = threading.Lock()


class ObjectStorage(Collection):
    """The tables or shards below a URL, or one of them."""

    kind: ClassVar[str] = "object storage"

    def __init__(
        self, url: str, *, root: Path | None = None, columns: Columns | None = None, strict: bool = False
    ) -> None:
        super().__init__(Path(url), root=root, strict=strict)
        self.url, self.columns, self._has_root = url, columns or Columns(), root is not None

    @property
    def place(self) -> str:
        """The URL."""
        return self.url

    def files(self) -> list[StoredFile]:
        """What is there and can be read, by name. Raises InputError if it is nothing."""
        system, path = _file_system(self.url)
        fs = require("pyarrow.fs", "parquet", "reading object storage")
        try:
            info = system.get_file_info(path)
            if info.type == fs.FileType.Directory:
                listed = system.get_file_info(fs.FileSelector(path))
            else:
                listed = [info] if info.type == fs.FileType.File else []
        except OSError as error:
            raise _unreadable(self.url, error) from error
        prefix = self.url[: self.url.rindex(path)] if path in self.url else self.url.split("://")[0] + "://"
        files = [StoredFile(prefix + info.path, info.size or 0, info.mtime_ns or 0) for info in listed]
        known = [file for file in files if _is_known(file.url)]
        if not known:
            raise InputError(f"there is neither a table nor a tar file at {self.url}")
        return sorted(known, key=lambda file: file.url)

    def items_of(self, file: StoredFile, report: Report) -> Iterator[Located]:
        """The items of one file, which is on this machine's disk meanwhile."""
        name = PurePosixPath(file.url).name

        def relocated(error: InputError) -> None:
            line = "" if error.line is None else f", line {error.line}"
            report(InputError(f"{file.url}{line}: {error.reason}"))

        with tempfile.TemporaryDirectory(prefix="genius-") as folder:
            copy = Path(folder, name)
            _fetch(file, copy)
            with _copied(file.url, copy):
                for _, line, item in self._read(copy, relocated):
                    try:
                        yield Path(file.url), line, self._stored(item, file.url)
                    except InputError as error:
                        relocated(error.at(copy, line))

    def _read(self, copy: Path, report: Report) -> Iterator[Located]:
        if is_tar(copy):
            return shard_items(copy, report)
        reader = table(copy, root=self.root, columns=self.columns)
        assert reader is not None
        rows = _named_rows(reader) if self._is_folder else reader
        return rows.items_of(reader.rows(report), report)

    @property
    def _is_folder(self) -> bool:
        return not _is_known(self.url)

    def _stored(self, item: Item, url: str) -> Item:
        """The item with an image that is found again when the copy is gone."""
        if isinstance(item.image, ImageInTar):
            image = item.image
            return replace(item, image=ImageInObject(url, image.path, image.start, image.size))
        if isinstance(item.image, ImageFile) and not self._has_root:
            raise InputError("names an image by its path: say with --root where that begins, on a local disk")
        return item

    def _located_items(self, report: Report) -> Iterator[Located]:
        for file in self.files():
            yield from self.items_of(file, report)


def _is_known(url: str) -> bool:
    name = PurePosixPath(PurePosixPath(url).name)
    return is_tar(Path(name)) or table(Path(name)) is not None


def _named_rows(reader: TableCollection) -> TableCollection:
    """The reader of one of several files, whose rows without ids are told apart by its name."""
    reader.row_name = lambda path, line: f"{path.name}:{line}"  # type: ignore[method-assign]
    return reader


def _fetch(file: StoredFile, copy: Path) -> None:
    """Copy a file to the local disk. Raises InputError, or OSError if the disk can't take it."""
    system, path = _file_system(file.url)
    try:
        source = system.open_input_stream(path)
    except OSError as error:
        raise _unreadable(file.url, error) from error
    with source, copy.open("wb") as target:
        while block := source.read(_BLOCK):
            target.write(block)
    if copy.stat().st_size != file.size:
        raise InputError(f"{file.url} has changed while it was read: start again when nobody writes to it")


@contextlib.contextmanager
def _copied(url: str, copy: Path) -> Iterator[None]:
    with _lock:
        _copies[url] = copy
    try:
        yield
    finally:
        with _lock:
            _copies.pop(url, None)
