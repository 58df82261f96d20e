"""Adding items to an index: coded a few hundred at a time, committed in blocks, each with its own segment.

What is committed stays, whatever happens later. Added again, an item that is there as it is costs a look;
so a build that was stopped goes on with the same source.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

import numpy as np

from genius.data.collection import Failures
from genius.data.records import Item
from genius.errors import GeniusError, InputError
from genius.index.catalogue import Catalogue, SegmentEntry
from genius.index.coding import CodedItems, Coder
from genius.index.entries import Entry, entry_of, must_be_kept, picture_key
from genius.index.segments import FOLDER, Block, Coding, segment_path, write_segment
from genius.progress import bar

CHUNK = 512
"""How many items are coded at a time."""
BLOCK = 1 << 17
"""How many items are committed at a time at first, in one segment."""
LARGEST = 1 << 19
"""How many are at most: blocks grow with what was added, as few large segments are searched more quickly."""


@dataclass
class Added:
    """What became of items: added anew, put in the place of older ones, known as they are, or failed."""

    added: int = 0
    replaced: int = 0
    known: int = 0
    failures: Failures = field(default_factory=Failures)


@contextlib.contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Be the one process that writes to an index; a crash lets go of it. Raises GeniusError if one does."""
    with (path / "writer.lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise GeniusError(
                f"{path} is being written to by another process: wait until it is done"
            ) from None
        yield


class Builder:
    """Adds items to the index at `path`; the caller is its only writer."""

    def __init__(
        self, path: Path, catalogue: Catalogue, coding: Coding, model: str, code: Coder, *, strict: bool
    ) -> None:
        self._path, self._catalogue, self._coding, self._model = path, catalogue, coding, model
        self._code, self._strict = code, strict
        self._report = Added()
        self._pending: dict[str, Entry] = {}
        self._replaced: list[int] = []
        self._blocks: list[CodedItems] = []
        self._embeddings = _Waiting(path)

    def add(self, items: Iterable[Item], total: int | None = None) -> Added:
        """Add items; what is committed stays when this is stopped."""
        self._remove_orphans()
        if total is None and isinstance(items, Sized):
            total = len(items)
        with contextlib.closing(self._embeddings), bar("indexing", total=total) as shown:
            for chunk in _chunks(items):
                if any(item.id in self._pending for item in chunk):
                    self._commit()  # an id that comes again takes the place of what it stood for
                self._take(chunk)
                if len(self._pending) >= max(BLOCK, min(self._report.added, LARGEST)):
                    self._commit()
                shown.advance(len(chunk))
            self._commit()
        return self._report

    def _take(self, chunk: list[Item]) -> None:
        """Code the items of a chunk that are not known as they are."""
        chunk = [item for item in chunk if self._is_unicode(item)]
        rows = self._catalogue.known([item.id for item in chunk])
        fresh = [item for item in chunk if item.id not in rows or not self._unchanged(item, rows[item.id][1])]
        if not fresh:
            return
        coded = self._code(fresh)
        for id, error in coded.failed.items():
            self._fail(id, error)
        kept = []
        for place in coded.places:
            item = fresh[place]
            picture = coded.pictures.get(item.id)
            self._pending[item.id] = entry_of(item, picture)
            if item.id in rows:
                self._replaced.append(rows[item.id][0])
            if item.image is not None and picture is not None and must_be_kept(item.image):
                kept.append((picture, item.image.read()))
        if kept:
            self._catalogue.keep_pictures(kept)
        if len(coded.places):
            self._embeddings.append(coded.joined)
            self._blocks.append(replace(coded, joined=coded.joined[:0]))

    def _is_unicode(self, item: Item) -> bool:
        """Whether an item can be written; a text may hold half a character, as Python reads broken names."""
        try:
            entry_of(item, None)
        except InputError as error:
            self._fail(item.id, error)
            return False
        return True

    def _unchanged(self, item: Item, content: bytes) -> bool:
        try:
            same = entry_of(item, picture_key(item.image)).content == content
        except InputError:
            return False  # coding it will say what is wrong
        self._report.known += same
        return same

    def _fail(self, id: str, error: InputError) -> None:
        named = InputError(f"item {id!r}: {error}")
        if self._strict:
            raise named from error
        self._report.failures.add(named)

    def _commit(self) -> None:
        if not self._pending:
            return
        state = self._catalogue.state()
        block = Block(
            codes=np.concatenate([coded.codes for coded in self._blocks]),
            modality=np.concatenate([coded.modality for coded in self._blocks]),
            joined=self._embeddings.all(),
            rows=state.next_row + np.arange(len(self._pending)),
            halves=np.concatenate([coded.halves for coded in self._blocks]),
        )
        number = state.next_segment
        fingerprint = write_segment(segment_path(self._path, number), block, self._coding, self._model)
        segment = SegmentEntry(number, len(self._pending), fingerprint)
        self._catalogue.commit(list(self._pending.values()), segment, self._replaced)
        self._report.added += len(self._pending) - len(self._replaced)
        self._report.replaced += len(self._replaced)
        self._pending, self._replaced, self._blocks = {}, [], []
        self._embeddings.close()

    def _remove_orphans(self) -> None:
        """Remove segments that a crash left before the catalogue named them."""
        named = {segment_path(self._path, segment.number) for segment in self._catalogue.segments()}
        for path in (self._path / FOLDER).iterdir():
            if path not in named:
                shutil.rmtree(path, ignore_errors=True)


class _Waiting:
    """The embeddings of a block, in a file until it is committed: in memory it would take half a gigabyte."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._rows, self._kind, self._width = 0, np.dtype(np.float16), 0

    def append(self, rows: np.ndarray) -> None:
        """Put more rows [n, width] behind the others."""
        if self._file is None:
            # It has no name, so that a crash leaves nothing behind.
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        self._file.write(np.ascontiguousarray(rows).data)
        self._rows, self._kind, self._width = self._rows + len(rows), rows.dtype, rows.shape[1]

    def all(self) -> np.ndarray:
        """All rows, mapped from the file."""
        assert self._file is not None
        self._file.flush()
        return np.memmap(self._file, self._kind, "r", shape=(self._rows, self._width))

    def close(self) -> None:
        """Forget the rows."""
        if self._file is not None:
            self._file.close()
        self._file, self._rows = None, 0


def _chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Items in lists in which no id occurs twice."""
    chunk: dict[str, Item] = {}
    for item in items:
        if not isinstance(item, Item):
            raise InputError(f"an index takes items, and this is a {type(item).__name__}")
        if item.id in chunk or len(chunk) == CHUNK:
            yield list(chunk.values())
            chunk = {}
        chunk[item.id] = item
    if chunk:
        yield list(chunk.values())
