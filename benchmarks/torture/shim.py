"""The library between a worker and its disk (shim.c), compiled on the spot, and how a worker drives it."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
WRITES, SYNCS, NAMES, OPENS = 1, 2, 4, 8
"""Kinds of calls: that change contents, sync, change names, open files."""
ALL = WRITES | SYNCS | NAMES | OPENS
_OFF, _COUNT, _FAIL, _KILL, _RECORD = range(5)


def missing() -> str:
    """Why the library can't be had here; empty if it can."""
    if sys.platform != "linux":
        return "needs Linux"
    return "" if shutil.which("gcc") else "needs gcc"


@cache
def library() -> Path:
    """The compiled library."""
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"genius-torture-{os.getuid()}-{digest}.so"
    if not path.exists():
        aside = path.with_suffix(f".{os.getpid()}")
        command = ["gcc", "-O1", "-Wall", "-shared", "-fPIC", "-D_FORTIFY_SOURCE=0", str(SOURCE)]
        subprocess.run([*command, "-o", str(aside), "-ldl", "-lpthread"], check=True)
        aside.replace(path)
    return path


@cache
def _loaded() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _arm(how: int, kinds: int = ALL, at: int = 0, number: int = 0, sticky: bool = False) -> None:
    _loaded().torture_arm(how, kinds, ctypes.c_long(at), number, int(sticky))


def watch(folder: Path) -> None:
    """From now on, calls that concern what is below this folder count."""
    _loaded().torture_root(os.fsencode(folder))


def calls() -> int:
    """How many calls there were since it was last armed."""
    counted = _loaded().torture_calls
    counted.restype = ctypes.c_long
    return int(counted())


def count_calls(work: Callable[[], object], kinds: int = ALL) -> int:
    """How many calls some work takes."""
    _arm(_COUNT, kinds)
    try:
        work()
        return calls()
    finally:
        _arm(_OFF)


@contextlib.contextmanager
def failing(at: int, number: int, kinds: int = ALL, *, sticky: bool = False) -> Iterator[None]:
    """Within, the call of this number, from 1 on, fails with an error; with `sticky` all later ones do."""
    _arm(_FAIL, kinds, at, number, sticky)
    try:
        yield
    finally:
        _arm(_OFF)


def kill_at(at: int, kinds: int = ALL) -> None:
    """From now on, the process is killed just before the call of this number."""
    _arm(_KILL, kinds, at)


@contextlib.contextmanager
def recording(file: Path) -> Iterator[None]:
    """Within, calls are recorded into a file, and syncs don't wait for the disk."""
    _loaded().torture_record(os.fsencode(file))
    _arm(_RECORD)
    try:
        yield
    finally:
        _arm(_OFF)
        _loaded().torture_record(None)


def mark(number: int) -> None:
    """Put a number into the record: what was acknowledged up to here."""
    _loaded().torture_mark(ctypes.c_long(number))
