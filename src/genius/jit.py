"""Loops that numpy has no word for, as machine code.

They are compiled once for a machine and kept beside their file (or in the user's cache folder, or where
NUMBA_CACHE_DIR says), release the interpreter's lock, and start no threads of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

import numba
import numpy as np

log = logging.getLogger(__name__)

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(function: Kernel) -> Kernel:
    """The function as machine code, kept for the next process."""
    return _compiled(function)


def compiled_loosely(function: Kernel) -> Kernel:
    """The same with sums and maxima of floats in any order, as many at once as the processor can.

    Only for finite numbers, and where the last digits don't matter.
    """
    allowed = {"reassoc", "contract", "nnan", "ninf", "nsz"}
    return _compiled(function, fastmath=allowed)


def _compiled(function: Kernel, **options: Any) -> Kernel:
    try:
        return cast(Kernel, numba.njit(cache=True, nogil=True, **options)(function))
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        _warn()
        return cast(Kernel, numba.njit(nogil=True, **options)(function))


@cache
def _warn() -> None:
    """Once, as it is so for all."""
    log.warning(
        "compiled loops can be kept nowhere, so every start takes longer: let NUMBA_CACHE_DIR name a folder "
        "that can be written to"
    )


def frozen(array: np.ndarray) -> np.ndarray:
    """A view that can't be written to: compiled loops then see one type, in memory and in files."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view
