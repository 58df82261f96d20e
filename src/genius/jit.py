"""Loops compiled to machine code by numba, where numpy has no operation for them.

They are compiled once per machine and cached beside their file (or in the user's cache folder, or in
NUMBA_CACHE_DIR), which is said on standard error; they release the interpreter's lock, and start no threads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, event
from numba.extending import intrinsic

from genius.progress import tell

log = logging.getLogger(__name__)

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(function: Kernel) -> Kernel:
    """The function as machine code, cached for the next process; floats are added in the order written."""
    return _compile(function)


def compiled_fastmath(function: Kernel) -> Kernel:
    """The same, but sums and maxima of floats may be taken in any order, several at once.

    Only for finite numbers, and where the last digits don't matter.
    """
    return _compile(function, fastmath={"reassoc", "contract", "nnan", "ninf", "nsz"})


class _Announcement(event.Listener):
    """Says once that loops are being compiled, as the first search otherwise seems to hang."""

    def __init__(self) -> None:
        self.announced = False

    def on_start(self, event: event.Event) -> None:
        """A loop that is in no cache is going to be compiled."""
        if not self.announced:
            self.announced = True
            tell("Compiling loops for this machine, which are kept for the next time: about 10 seconds")

    def on_end(self, event: event.Event) -> None:
        """It is compiled."""


_announcement = _Announcement()
event.register("numba:compile", _announcement)  # type: ignore[no-untyped-call]


def _compile(function: Kernel, **options: Any) -> Kernel:
    try:
        return cast(Kernel, numba.njit(cache=True, nogil=True, **options)(function))
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        _warn_not_cached()
        return cast(Kernel, numba.njit(nogil=True, **options)(function))


@cache
def _warn_not_cached() -> None:
    """Once, as it is the same for all functions."""
    log.warning(
        "compiled loops can't be cached, so every start takes longer: let NUMBA_CACHE_DIR name a folder "
        "that can be written to"
    )


def _prefetch(typing_context: Any, array: Any, row: Any, byte: Any) -> Any:
    signature = types.void(array, types.intp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        structure = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        offset = builder.mul(arguments[1], builder.extract_value(structure.strides, 0))
        address = builder.gep(builder.bitcast(structure.data, pointer), [builder.add(offset, arguments[2])])
        function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module,
            ir.FunctionType(ir.VoidType(), [pointer, number, number, number]),
            "llvm.prefetch.p0i8",
        )
        # To be read, not written; to be kept near; data, not code.
        builder.call(function, [address, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return signature, generate


prefetch: Any = intrinsic(_prefetch)
"""In compiled loops, `prefetch(array, row, byte)`: let the processor fetch a byte of an array's row, which is
soon going to be read."""


def frozen(array: np.ndarray) -> np.ndarray:
    """A read-only view: compiled loops then see one type, for arrays in memory and in mapped files."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view
