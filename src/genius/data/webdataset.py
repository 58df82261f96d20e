"""WebDataset tar shards, as img2dataset writes them: `key.jpg`, `key.txt` and `key.json` side by side."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from genius.data.collection import Collection, Located, Report
from genius.data.file_kinds import is_image
from genius.data.records import ImageInTar, Item
from genius.data.rows import scalars
from genius.errors import InputError
from genius.paths import safe_path

LEFT_OUT = ("key", "caption", "exif")
"""Fields of img2dataset's JSON that are no metadata: id, text, and EXIF, which may hold a home address."""

MOST_BYTES = 16 << 20
"""Of a text or of JSON."""


class WebDataset(Collection):
    """The samples of one tar file, or of all tar files in a folder; a sample's key is the item's id."""

    kind = "WebDataset"

    def _located_items(self, report: Report) -> Iterator[Located]:
        for shard in shards(self.path):
            yield from shard_items(shard, report)


def shards(path: Path) -> list[Path]:
    """The tar file at `path`, or the sorted tar files of that folder."""
    return [path] if path.is_file() else sorted(path.glob("*.tar"))


def shard_items(shard: Path, report: Report) -> Iterator[Located]:
    """The samples of one tar file; what can't be read goes to `report`."""
    try:
        yield from _samples(shard, report)
    except (tarfile.TarError, OSError, EOFError) as error:
        report(InputError(f"is no whole uncompressed tar file: {error}", path=shard))


def _samples(shard: Path, report: Report) -> Iterator[Located]:
    """The samples of a shard; members that share a key are consecutive."""
    key = ""
    parts: dict[str, Any] = {}
    with _BoundedFile(shard) as file, tarfile.open(fileobj=file, mode="r:") as archive:
        for member in archive:
            archive.members = []  # type: ignore[attr-defined]  # otherwise tarfile keeps every header in memory
            try:
                name = safe_path(member.name)
                if not member.isfile():
                    if not member.isdir():
                        raise InputError(f"member {member.name!r} is a link or a device")
                    continue
            except InputError as error:
                report(InputError(error.reason.replace("path", "member", 1), path=shard))
                continue
            folder, _, last = name.rpartition("/")
            stem, _, ending = last.partition(".")
            sample = f"{folder}/{stem}" if folder else stem
            if sample != key and parts:
                yield from _sample(shard, key, parts, report)
                parts = {}
            key = sample
            if is_image(name):
                parts["image"] = ImageInTar(str(shard), name, member.offset_data, member.size)
            elif ending in ("txt", "json"):
                content = archive.extractfile(member) if member.size <= MOST_BYTES else None
                parts[ending] = content.read() if content else None
        if parts:
            yield from _sample(shard, key, parts, report)


class _BoundedFile(io.BufferedReader):
    """A file of which never more is read than there is: a header may say that gigabytes follow, and Python
    would make room for them."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self._size = os.fstat(self.fileno()).st_size

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes, as many as there are."""
        left = max(0, self._size - self.tell())
        return super().read(left if size is None or size < 0 else min(size, left))


def _sample(shard: Path, key: str, parts: dict[str, Any], report: Report) -> Iterator[Located]:
    try:
        for ending in ("txt", "json"):
            if ending in parts and parts[ending] is None:
                raise InputError(f"its .{ending} has more than {MOST_BYTES:,} bytes")
        fields = orjson.loads(parts["json"]) if "json" in parts else {}
        if not isinstance(fields, dict):
            raise InputError("its .json is no object")
        text = parts["txt"].decode().strip() if "txt" in parts else fields.get("caption")
        metadata = scalars((name, value) for name, value in fields.items() if name not in LEFT_OUT)
        yield shard, None, Item(key, text or None, parts.get("image"), metadata)
    except (InputError, ValueError) as error:
        report(InputError(f"sample {key!r}: {error}", path=shard))


def is_tar(path: Path) -> bool:
    """Whether a file's name ends in .tar."""
    return PurePosixPath(path.name.lower()).suffix == ".tar"
