"""Segments that nobody names any more, and when they may go.

A reader learns from the catalogue which segments there are, and then opens them; in between it holds a shared
lock on their folder. A writer removes segments only after the commit that no longer names them, and only
while it holds that lock alone. So whoever still means to open them is waited for (by leaving them to the next
write), and whoever comes later does not know them. What is open stays readable: the system keeps the pages of
a mapped file until the last map is gone. A crash lets go of all locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from genius.errors import DamagedError
from genius.index.catalogue import Catalogue
from genius.index.segments import FOLDER, segment_path


@contextlib.contextmanager
def opening(index: Path) -> Iterator[None]:
    """Within, no segment goes that the catalogue names at the beginning, or later."""
    with _lock(index, fcntl.LOCK_SH):
        yield


def remove_leftovers(index: Path, catalogue: Catalogue) -> bool:
    """Remove segments that a merge or a crash left behind; False if a reader may still open one.

    For the only writer, outside of a transaction.
    """
    try:
        with _lock(index, fcntl.LOCK_EX | fcntl.LOCK_NB):
            named = {segment_path(index, segment.number) for segment in catalogue.segments()}
            for path in (index / FOLDER).iterdir():
                if path not in named:
                    shutil.rmtree(path, ignore_errors=True)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _lock(index: Path, kind: int) -> Iterator[None]:
    try:
        descriptor = os.open(index / FOLDER, os.O_RDONLY)
    except FileNotFoundError:
        raise DamagedError(f"{index / FOLDER} is gone: bring it back, or make the index again") from None
    try:
        fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)
