"""Which version of an index a thread reads, and who writes the next one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from genius.errors import GeniusError
from genius.index.catalogue import Catalogue
from genius.index.decoders import Decoders
from genius.index.locks import only_writer, opening_segments
from genius.index.segments import SegmentFormat
from genius.index.shard_writer import open_writer
from genius.index.snapshot import Snapshot
from genius.index.writer import SegmentWriter
from genius.model import Model


class ThreadState(threading.local):
    """The version that a thread is reading, if any, and whether it is writing."""

    snapshot: Snapshot | None = None
    writing: bool = False


class Versions:
    """The versions of the index at `path`, for any number of threads."""

    def __init__(self, path: Path, catalogue: Catalogue, model: Model, format: SegmentFormat) -> None:
        self._path, self._catalogue, self._model, self._format = path, catalogue, model, format
        self._decoders = Decoders(model)
        self._snapshot: Snapshot | None = None
        self._thread = ThreadState()
        self._snapshot_lock, self._writer_lock = threading.Lock(), threading.Lock()

    @property
    def is_reading(self) -> bool:
        """Whether this thread is reading a version."""
        return self._thread.snapshot is not None

    @contextlib.contextmanager
    def reading(self) -> Iterator[Snapshot]:
        """The newest version; all that this thread reads from the catalogue within is of it.

        Nested, it is the outer one's version, as the files of an old version may be gone when they are opened
        again.
        """
        if self._thread.snapshot is not None:
            yield self._thread.snapshot
            return
        with contextlib.ExitStack() as stack:
            with opening_segments(*self._catalogue.folders):
                stack.enter_context(self._catalogue.reading())
                self._thread.snapshot = self._current()
            stack.callback(setattr, self._thread, "snapshot", None)
            yield self._thread.snapshot

    def _current(self) -> Snapshot:
        """The version that this thread is reading."""
        with self._snapshot_lock:
            self._snapshot = Snapshot.open(
                self._path, self._catalogue, self._model, self._format, self._decoders, self._snapshot
            )
            return self._snapshot

    @contextlib.contextmanager
    def writing(self) -> Iterator[SegmentWriter]:
        """Be the only writer. Only the newest version tells which files nobody needs."""
        if self._thread.snapshot is not None:
            raise GeniusError(f"{self._path} is being read by this thread: change it after that")
        if self._thread.writing:  # for instance by what supplies the items
            raise GeniusError(f"{self._path} is being changed by this thread: change it after that")
        folders = dict.fromkeys([self._path, *self._catalogue.folders])
        with self._writer_lock, only_writer(*folders):
            self._catalogue.prepare_writing()
            self._thread.writing = True
            try:
                yield open_writer(self._path, self._catalogue, self._format, self._model.fingerprint)
            finally:
                self._thread.writing = False
