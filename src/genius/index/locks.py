"""Who may write to an index, and when orphaned segments may be removed.

One process writes at a time: it holds `writer.lock`. A reader learns from the catalogue which segments there
are, and then opens them; in between it holds a shared lock on their folder. A writer removes segments only
after the commit that no longer names them, and only while it holds that lock alone. So it waits for a reader
that still means to open them (by leaving them to the next write), and later readers do not know them. Open
segments stay readable: the system keeps the pages of a mapped file until the last map is gone. A crash
releases all locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from genius.errors import DamagedError, GeniusError, translate_disk_errors
from genius.index.catalogue import Catalogue
from genius.index.segments import FOLDER, segment_path


@contextlib.contextmanager
def only_writer(*indexes: Path) -> Iterator[None]:
    """Be the one process that writes to these indexes.

    Raises GeniusError if another one does, DiskError if the disk can't be written to.
    """
    with contextlib.ExitStack() as locks:
        for index in indexes:
            locks.enter_context(_writer_lock(index))
        yield


@contextlib.contextmanager
def _writer_lock(path: Path) -> Iterator[None]:
    with translate_disk_errors(path), (path / "writer.lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise GeniusError(
                f"{path} is being written to by another process: wait until it is done"
            ) from None
        yield


@contextlib.contextmanager
def opening_segments(*indexes: Path) -> Iterator[None]:
    """Within, no segment is removed that the catalogues of these indexes name at the beginning or later."""
    with contextlib.ExitStack() as locks:
        for index in indexes:
            locks.enter_context(_segments_lock(index, fcntl.LOCK_SH))
        yield


def remove_orphaned_segments(index: Path, catalogue: Catalogue) -> bool:
    """Remove segments that a merge or a crash left behind; False if a reader may still open one.

    For the only writer, outside of a transaction.
    """
    try:
        with _segments_lock(index, fcntl.LOCK_EX | fcntl.LOCK_NB):
            named = {segment_path(index, segment.number) for segment in catalogue.segments()}
            for path in (index / FOLDER).iterdir():
                if path not in named:
                    shutil.rmtree(path, ignore_errors=True)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _segments_lock(index: Path, kind: int) -> Iterator[None]:
    try:
        descriptor = os.open(index / FOLDER, os.O_RDONLY)
    except FileNotFoundError:
        raise DamagedError(f"{index / FOLDER} is gone: bring it back, or make the index again") from None
    try:
        fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)
