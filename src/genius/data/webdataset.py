"""WebDataset tar shards, as img2dataset writes them: `key.jpg`, `key.txt` and `key.json` side by side."""

from __future__ import annotations

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
    with tarfile.open(shard, "r:") as archive:
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
            folder, _, file = name.rpartition("/")
            stem, _, ending = file.partition(".")
            sample = f"{folder}/{stem}" if folder else stem
            if sample != key and parts:
                yield from _sample(shard, key, parts, report)
                parts = {}
            key = sample
            if is_image(name):
                parts["image"] = ImageInTar(str(shard), name, member.offset_data, member.size)
            elif ending in ("txt", "json"):
                content = archive.extractfile(member)
                parts[ending] = content.read() if content else b""
        if parts:
            yield from _sample(shard, key, parts, report)


def _sample(shard: Path, key: str, parts: dict[str, Any], report: Report) -> Iterator[Located]:
    try:
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
