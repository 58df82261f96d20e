"""What an artifact says of itself: what it is, what made it, and what its files must be."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from genius.errors import DamagedError

MANIFEST = "manifest.json"
FULL_CHECK_BYTES = 64 * 2**20
"""Files up to this size are checked in full when an artifact is opened."""
SAMPLED_BLOCKS = 64
BLOCK_BYTES = 2**16

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What the manifest knows of a file: its size, its SHA-256, and that of sampled blocks if it is large."""

    bytes: int
    sha256: str
    sampled: str | None = None


@dataclass(frozen=True)
class Manifest:
    """What an artifact is, what made it, and what its files must be."""

    kind: str
    format: int
    settings: Json
    counts: Json
    made_from: Mapping[str, str]
    files: Mapping[str, FileRecord]
    made_by: str
    made_at: str
    fingerprint: str

    def to_json(self) -> bytes:
        """The manifest as the bytes of `manifest.json`."""
        return orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)

    @classmethod
    def parse(cls, content: bytes, path: Path) -> Manifest:
        """The manifest in `content`. Raises DamagedError if it is not one, or was altered."""
        try:
            fields = orjson.loads(content)
            files = {name: FileRecord(**record) for name, record in fields.pop("files").items()}
            manifest = cls(files=files, **fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DamagedError(
                f"{path} is not a manifest of genius ({error}); make the artifact again"
            ) from error
        if manifest.fingerprint != fingerprint_of(manifest):
            raise DamagedError(f"{path} was altered: its fingerprint does not fit; make the artifact again")
        return manifest


def fingerprint_of(manifest: Manifest) -> str:
    """SHA-256 of what the artifact is. When and by which release it was made does not count:
    the same content is the same thing."""
    content = asdict(manifest)
    for name in ("made_by", "made_at", "fingerprint"):
        del content[name]
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


def check_file(path: Path, record: FileRecord, verify: bool) -> int:
    """The inode of a file that is what the record says. Raises DamagedError otherwise."""
    try:
        size, inode = path.stat().st_size, path.stat().st_ino
        if size != record.bytes:
            raise DamagedError(
                f"{path} is damaged: {size:,} bytes instead of {record.bytes:,}; make it again"
            )
        if record.sampled is None or verify:
            same = _sha256(path) == record.sha256
        else:
            same = _sampled_sha256(path) == record.sampled
    except FileNotFoundError:
        raise DamagedError(f"{path} is gone; make the artifact again") from None
    if not same:
        raise DamagedError(f"{path} is damaged: its checksum is not the one that was written; make it again")
    return inode


def record_of(path: Path) -> FileRecord:
    """What a manifest says of the file at `path`."""
    size = path.stat().st_size
    return FileRecord(size, _sha256(path), _sampled_sha256(path) if size > FULL_CHECK_BYTES else None)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sampled_sha256(path: Path) -> str:
    """SHA-256 of blocks spread evenly over the file, its first and last ones among them."""
    digest = hashlib.sha256()
    size = path.stat().st_size
    with path.open("rb") as file:
        for block in range(SAMPLED_BLOCKS):
            file.seek((size - BLOCK_BYTES) * block // (SAMPLED_BLOCKS - 1))
            digest.update(file.read(BLOCK_BYTES))
    return digest.hexdigest()
