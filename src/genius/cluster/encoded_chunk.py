"""A chunk of a collection as it is when it is encoded: a segment, and its part of the catalogue, in a folder.

It is an artifact, checksummed and never changed, whose items are numbered from 0. What is encoded is the same
in every process: nothing in it depends on who made it, or when. Its files:

`segment/`         an index's segment, whose item keys are these numbers
`part.sqlite`      the items as the catalogue keeps them, with their places in the source, and given images
`failures.jsonl`   what could not be read or encoded
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from genius import storage
from genius.data.chunks import Chunk, read_chunk
from genius.data.collection import Collection, Located, unique_located
from genius.errors import InputError, ItemError, translate_disk_errors
from genius.index.entries import COLUMNS, entry_of, must_be_kept
from genius.index.item_encoder import EncodedItems, EncodeItems
from genius.index.segments import Block, SegmentFormat, write_segment
from genius.index.writer import SpillFile

KIND = "chunk"
FORMAT = 1
SEGMENT, PART, FAILURES = "segment", "part.sqlite", "failures.jsonl"
GROUP = 512
"""How many items are encoded at a time, as by `genius.index.ingest`."""
_SCHEMA = """
CREATE TABLE items (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL, modality INTEGER NOT NULL, text TEXT, image TEXT,
    image_hash BLOB, metadata TEXT NOT NULL, content_hash BLOB NOT NULL, file TEXT NOT NULL, line INTEGER
) STRICT;
CREATE TABLE images (image_hash BLOB PRIMARY KEY, content BLOB NOT NULL) STRICT;
"""
_INSERT = f"INSERT INTO items VALUES ({', '.join('?' * (3 + len(COLUMNS)))})"


@dataclass(frozen=True)
class ChunkJob:
    """What all chunks of a build have in common.

    Attributes:
        collection: what was cut.
        model: the fingerprint of the model.
        format: of the segments.
        strict: whether an item that can't be read is raised, and not recorded.
    """

    collection: Collection
    model: str
    format: SegmentFormat
    strict: bool = False


@dataclass(frozen=True)
class ChunkFailure:
    """What could not be read (without an id) or encoded, and where it is."""

    id: str | None
    reason: str
    path: str | None
    line: int | None

    @property
    def error(self) -> InputError:
        """The error again."""
        error = InputError(self.reason, path=self.path, line=self.line)
        return error if self.id is None else ItemError(self.id, error)


def chunk_folder(scratch: Path, number: int, chunk: Chunk) -> Path:
    """Where the encoded chunk of a number is."""
    return scratch / f"{number:08d}-{chunk.name[:16]}"


def is_encoded(path: Path, job: ChunkJob, chunk: Chunk) -> bool:
    """Whether a chunk is at its place already, encoded by the same model."""
    return storage.is_artifact(path) and storage.read_manifest(path).made_from == _made_from(job, chunk)


def _made_from(job: ChunkJob, chunk: Chunk) -> dict[str, str]:
    return {"model": job.model, "chunk": chunk.name, "embeddings": job.format.embeddings}


def encode_chunk(job: ChunkJob, chunk: Chunk, encode: EncodeItems, out: Path) -> Iterator[int]:
    """Read and encode a chunk, and write it to `out`; gives the numbers of items as they are done.

    Raises InputError if the source has changed, DiskError if the disk can't take it.
    """
    with (
        translate_disk_errors(out),
        storage.create(out, kind=KIND, format=FORMAT, made_from=_made_from(job, chunk)) as draft,
        contextlib.closing(_ChunkWriter(job, draft.folder)) as writer,
    ):
        located = unique_located(read_chunk(job.collection, chunk, writer.report), writer.report)
        while group := list(itertools.islice(located, GROUP)):
            writer.add(group, encode)
            yield len(group)
        writer.finish()
        draft.counts["items"] = writer.count


class _ChunkWriter:
    """Writes the files of a chunk; embeddings and entries wait on the disk, and so take no memory."""

    def __init__(self, job: ChunkJob, folder: Path) -> None:
        self._job, self._folder, self.count = job, folder, 0
        self._part = sqlite3.connect(folder / PART, isolation_level=None)
        # The whole folder is synced before it gets its name.
        self._part.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; {_SCHEMA}")
        self._failures = (folder / FAILURES).open("wb")
        self._embeddings = SpillFile(folder)
        self._blocks: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def close(self) -> None:
        self._part.close()
        self._failures.close()
        self._embeddings.close()

    def report(self, error: InputError) -> None:
        """Record what could not be read."""
        self._fail(None, error)

    def add(self, group: Sequence[Located], encode: EncodeItems) -> None:
        """Encode some items and add those that could be."""
        valid = [located for located in group if self._can_be_stored(located)]
        encoded = encode([item for _, _, item in valid])
        for id, error in encoded.failed.items():
            self._fail(id, error)
        if len(encoded.places):
            self._insert([valid[place] for place in encoded.places], encoded)
            self._embeddings.append(encoded.embeddings)
            self._blocks.append((encoded.codes, encoded.modality, encoded.half_sq_norms))
            self.count += len(encoded.places)

    def _insert(self, kept: Sequence[Located], encoded: EncodedItems) -> None:
        rows: list[tuple[Any, ...]] = []
        images: list[tuple[bytes, bytes]] = []
        for number, (path, line, item) in enumerate(kept, self.count):
            image_hash = encoded.image_hashes.get(item.id)
            rows.append((number, *astuple(entry_of(item, image_hash)), str(path), line))
            if item.image is not None and image_hash is not None and must_be_kept(item.image):
                images.append((image_hash, item.image.read()))
        with _disk_errors(self._folder):
            self._part.execute("BEGIN")
            self._part.executemany(_INSERT, rows)
            self._part.executemany("INSERT OR IGNORE INTO images VALUES (?, ?)", images)
            self._part.execute("COMMIT")

    def finish(self) -> None:
        """Write the segment, and close the other files."""
        if self.count:
            codes, modality, norms = (np.concatenate(arrays) for arrays in zip(*self._blocks, strict=True))
            keys = np.arange(self.count)
            block = Block(codes, modality, self._embeddings.read(), keys, norms)
            write_segment(self._folder / SEGMENT, block, self._job.format, self._job.model)
        self.close()

    def _can_be_stored(self, located: Located) -> bool:
        item = located[2]
        try:
            entry_of(item, None)
        except InputError as error:
            self._fail(item.id, error)
            return False
        return True

    def _fail(self, id: str | None, error: InputError) -> None:
        path = None if error.path is None else str(error.path)
        failure = ChunkFailure(id, error.reason, path, error.line)
        if self._job.strict:
            raise failure.error
        self._failures.write(orjson.dumps(astuple(failure), default=str) + b"\n")


@contextlib.contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    """Within, SQLite's errors are raised as an OSError, as other files raise them."""
    try:
        yield
    except sqlite3.OperationalError as error:
        number = errno.ENOSPC if error.sqlite_errorcode == sqlite3.SQLITE_FULL else errno.EIO
        raise OSError(number, os.strerror(number), str(folder)) from error


def read_failures(path: Path) -> Iterator[ChunkFailure]:
    """What could not be read or encoded of the chunk at `path`."""
    with (path / FAILURES).open("rb") as lines:
        for line in lines:
            yield ChunkFailure(*orjson.loads(line))
