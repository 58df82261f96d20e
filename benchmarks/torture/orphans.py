"""Processes that don't outlive the one that started them, however that one ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_DEATH_SIGNAL = 1
"""What `prctl` sets by this number: the signal that a process gets when its parent ends."""


def die_with_parent() -> None:
    """Have this process killed when its parent ends, on Linux."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it ended before this was set
