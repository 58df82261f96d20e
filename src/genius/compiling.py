"""Loops that numpy has no word for, as machine code.

They are compiled once for a machine and kept beside their file (or in the user's cache folder), release the
interpreter's lock, and start no threads of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(function: Kernel) -> Kernel:
    """The function as machine code, kept for the next process."""
    return cast(Kernel, numba.njit(cache=True, nogil=True)(function))


def compiled_loosely(function: Kernel) -> Kernel:
    """The same with sums and maxima of floats in any order, as many at once as the processor can.

    Only for finite numbers, and where the last digits don't matter.
    """
    allowed = {"reassoc", "contract", "nnan", "ninf", "nsz"}
    return cast(Kernel, numba.njit(cache=True, nogil=True, fastmath=allowed)(function))


def frozen(array: np.ndarray) -> np.ndarray:
    """A view that can't be written to: compiled loops then see one type, in memory and in files."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view
