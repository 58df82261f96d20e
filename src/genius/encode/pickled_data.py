"""Pickles as data: an unpickler that knows no names but those of lists, and executes nothing.

Besides names, a pickle of a few bytes may ask for all memory (a length or a place in the memo of many
gigabytes), or never end (the hash of a tuple that holds another one twice, sixty deep). So lengths are
compared with what the file has, only plain values are keys, and what allocates before it reads is not
understood.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO

from genius.errors import InputError

_Unpickler: Any = pickle._Unpickler  # the one in Python, whose methods are not described
DamagedPickle = pickle.UnpicklingError
MAX_PICKLE_BYTES = 64 * 2**20
_LONGEST_LINE = 1 << 16
"""Bytes of a name or of a number in letters."""
LONGEST = 64
"""Values in a tuple that is the key of a dictionary, and dimensions of a shape."""
_SHOWN = 200
"""Letters of a name in an error."""
_INERT_ROOTS = ("omegaconf", "argparse", "numpy", "typing", "_codecs", "pathlib")
"""Modules of the configurations and optimizers in checkpoints: their objects become empty shells."""
_INERT_NAMES = {
    *("builtins.bool", "builtins.bytearray", "builtins.bytes", "builtins.complex", "builtins.dict"),
    *("builtins.float", "builtins.frozenset", "builtins.int", "builtins.list", "builtins.object"),
    *("builtins.range", "builtins.set", "builtins.slice", "builtins.str", "builtins.tuple"),
    *("collections.defaultdict", "copyreg._reconstructor"),
}
"""Types that configurations name, and what rebuilds an object of one: shells, too."""
_OLD_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg", "exceptions": "builtins"}
_OLD_NAMES = {
    "builtins.long": "builtins.int",
    "builtins.unicode": "builtins.str",
    "builtins.xrange": "builtins.range",
}
"""What modules and types are called in pickles of protocol 2, which PyTorch writes."""


class Shell:
    """Replaces an object of the checkpoint's configuration: accepts any call, does nothing."""

    def __new__(cls, *_: Any, **__: Any) -> Shell:  # noqa: D102 - whatever it is given
        return object.__new__(cls)

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __call__(self, *_: Any, **__: Any) -> Shell:  # noqa: D102
        return self

    def __setitem__(self, key: Any, value: Any) -> None: ...

    def append(self, value: Any) -> None:
        """Nothing is kept."""

    def extend(self, values: Any) -> None:
        """Nothing is kept."""


class Key:
    """What may be a key of a dictionary beside texts and numbers: its hash is computed at once."""


_PLAIN = (str, int, float, bytes, Shell, Key, type, type(None))


def is_plain(value: Any) -> bool:
    """Whether the hash of a value is computed at once."""
    if isinstance(value, tuple):
        return len(value) <= LONGEST and all(isinstance(part, _PLAIN) and _is_short(part) for part in value)
    return isinstance(value, _PLAIN) and _is_short(value)


def _is_short(value: Any) -> bool:
    """Whether a value is no number of very many digits, whose hash is computed again and again."""
    return not isinstance(value, int) or value.bit_length() <= 64


def _refuse_keys(keys: Iterable[Any]) -> None:
    """Refuse keys unless all are plain."""
    if not all(map(is_plain, keys)):
        raise InputError("was refused: a key of a dictionary is neither text nor a number")


def _shape(sizes: Any = ()) -> tuple[Any, ...]:
    if len(sizes) > LONGEST:
        raise InputError(f"holds a shape of {len(sizes):,} dimensions")
    return tuple(sizes)


class _Source:
    """A file for an unpickler: nothing is read, and no memory taken, that is not there."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size

    def read(self, count: int) -> bytes:
        # Names, numbers and lengths are short; only of what is longer is the end looked for.
        if count > 64 and count > self._size - self._file.tell():
            raise EOFError(f"{count:,} bytes are said to follow, and there are fewer")
        return self._file.read(count)

    def readline(self) -> bytes:
        line = self._file.readline(_LONGEST_LINE)
        if len(line) == _LONGEST_LINE:
            raise pickle.UnpicklingError("a name or a number of many letters")
        return line


def _dispatch(own: Mapping[bytes, Callable[[DataUnpickler], None]]) -> dict[int, Callable[..., None]]:
    """Python's own opcodes, some of them replaced, without those that take memory before they read."""
    others = (pickle.BYTEARRAY8, pickle.NEXT_BUFFER, pickle.READONLY_BUFFER)
    known = {**_Unpickler.dispatch, **{opcode[0]: load for opcode, load in own.items()}}
    return {opcode: load for opcode, load in known.items() if bytes([opcode]) not in others}


class DataUnpickler(_Unpickler):  # type: ignore[misc]
    """An unpickler that refuses every name that is not data.

    It is Python's own one in Python, whose memo takes no more memory than what is put into it.
    """

    def __init__(
        self,
        file: BinaryIO,
        size: int,
        allowed: Mapping[str, Any],
        storage: Callable[[tuple[Any, ...]], Any] | None = None,
    ) -> None:
        """Read a pickle from a file of `size` bytes; `allowed` are the names it may use beside shells."""
        super().__init__(_Source(file, size))
        self._storage, self._left = storage, size
        self._allowed = {"collections.OrderedDict": self._ordered, "torch.Size": _shape, **allowed}

    def find_class(self, module: str, name: str) -> Any:
        """What a name stands for. Raises InputError for whatever is no data."""
        module = _OLD_MODULES.get(module, module)
        full = _OLD_NAMES.get(f"{module}.{name}", f"{module}.{name}")
        if full in self._allowed:
            return self._allowed[full]
        inert = module.partition(".")[0] in _INERT_ROOTS or (module == "torch" and name.islower())
        if inert or full in _INERT_NAMES:
            return Shell
        short = full if len(full) <= _SHOWN else f"{full[:_SHOWN]}…"
        raise InputError(f"was refused: it asks for {short}, which is no data; nothing of it was executed")

    def persistent_load(self, pid: Any) -> Any:
        """What is said to be outside of the pickle, which is a storage."""
        known = isinstance(pid, tuple) and len(pid) >= 5 and all(isinstance(part, str) for part in pid[:3])
        if self._storage is None or not known or pid[0] != "storage":
            raise InputError("holds a malformed storage")
        return self._storage(pid)

    def _ordered(self, pairs: Any = ()) -> OrderedDict[Any, Any]:
        """A dictionary of pairs, which are copied: not the same many pairs again and again."""
        self._left -= len(pairs)
        if self._left < 0:
            raise InputError("was refused: it copies what it holds until no memory is left")
        pairs = list(pairs)
        _refuse_keys(pair[0] for pair in pairs)
        return OrderedDict(pairs)

    # --- opcodes that Python's own unpickler trusts

    def _load_dict(self) -> None:
        _refuse_keys(self.stack[::2])
        self.load_dict()

    def _load_setitem(self) -> None:
        _refuse_keys(self.stack[-2:-1])
        self.load_setitem()

    def _load_setitems(self) -> None:
        _refuse_keys(self.stack[::2])
        self.load_setitems()

    def _load_frozenset(self) -> None:
        _refuse_keys(self.stack)
        self.load_frozenset()

    def _load_additems(self) -> None:
        _refuse_keys(self.stack)
        self.load_additems()

    def _load_build(self) -> None:
        """What a file says of the inside of an object is ignored, and what reads it can't be changed."""
        self.stack.pop()
        if not isinstance(self.stack[-1], (Shell, OrderedDict)):
            raise InputError("was refused: it tries to change what reads it; nothing of it was executed")

    dispatch = _dispatch(
        {
            pickle.DICT: _load_dict,
            pickle.SETITEM: _load_setitem,
            pickle.SETITEMS: _load_setitems,
            pickle.FROZENSET: _load_frozenset,
            pickle.ADDITEMS: _load_additems,
            pickle.BUILD: _load_build,
        }
    )
