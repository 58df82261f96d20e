"""The one reader of foreign weights: it returns tensors and never executes anything.

Reads safetensors and PyTorch's two formats (the zip and the older one) without torch. PyTorch's files are
pickles, which are read as data (`pickled_data`), so the worst that a hostile file can do is to be refused.
What a configuration or an optimizer is made of becomes empty shells.

Tensors are read when they are asked for: of a checkpoint with optimizer state, only the weights; and names
and shapes can be checked before a single number is read.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from genius.encode.pickled_data import LONGEST, MAX_PICKLE_BYTES, DamagedPickle, DataUnpickler, Key, is_plain
from genius.errors import InputError

_FAILURES = (
    *(OSError, EOFError, ValueError, KeyError, IndexError, TypeError, AttributeError),
    # What names too long a text, nests too deep or is packed in an unknown way.
    *(MemoryError, OverflowError, RuntimeError, struct.error, zlib.error),
)
"""The many ways in which pickles and zip files fail."""
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C

Weights = Mapping[str, np.ndarray]
"""Tensors by name."""

_DTYPES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "BFloat16Storage": "<u2",  # converted to float32 when read: numpy has no such type
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}


class StoredTensor(Protocol):
    """A tensor of a checkpoint that is not read yet."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""

    def read(self) -> np.ndarray:
        """Its numbers. Raises InputError if the file is damaged there."""


def read_checkpoint(path: Path | str, *, part: str | None = None) -> dict[str, np.ndarray]:
    """The tensors of a checkpoint by name; `part` picks an entry of its outer dictionary, such as `model`.

    Raises InputError if the file is no checkpoint, is damaged, or holds anything but data.
    """
    return {name: tensor.read() for name, tensor in open_checkpoint(path, part=part).items()}


def open_checkpoint(path: Path | str, *, part: str | None = None) -> dict[str, StoredTensor]:
    """The same without their numbers, which each tensor reads by itself.

    A file of safetensors has no parts. Raises InputError as `read_checkpoint` does.
    """
    path = Path(path)
    with _refusals(path), path.open("rb") as file:
        start = file.read(16)
        if start[8:9] == b"{":
            return _open_safetensors(path)
        file.seek(0)
        content = _read_zip(file) if start[:4] == b"PK\x03\x04" else _read_legacy(file)
        return {name: _TensorOfFile(path, tensor) for name, tensor in _named_tensors(content, part).items()}


@contextlib.contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """Whatever is wrong with the file as an InputError that names it."""
    try:
        yield
    except InputError as error:
        raise (error if error.path else error.at(path)) from None
    except FileNotFoundError:
        raise InputError("there is no such file", path=path) from None
    except _FAILURES as error:
        said = str(error) or type(error).__name__
        raise InputError(f"is no checkpoint that can be read safely ({said})", path=path) from error
    except (DamagedPickle, zipfile.BadZipFile) as error:
        raise InputError(
            f"is no checkpoint, or a damaged one ({error}): a download that broke off looks like this",
            path=path,
        ) from error


def _open_safetensors(path: Path) -> dict[str, StoredTensor]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            names = list(file.keys())
            return {name: _SafeTensor(path, name, tuple(file.get_slice(name).get_shape())) for name in names}
    except SafetensorError as error:
        raise InputError(f"is no whole safetensors file ({error})") from error


@dataclass(frozen=True)
class _SafeTensor:
    """A tensor in a file of safetensors."""

    path: Path
    name: str
    shape: tuple[int, ...]

    def read(self) -> np.ndarray:
        from safetensors import safe_open

        with _refusals(self.path), safe_open(self.path, "numpy") as file:
            tensor: np.ndarray = file.get_tensor(self.name)
        return tensor


@dataclass(frozen=True)
class _TensorOfFile:
    """A tensor in one of PyTorch's files."""

    path: Path
    tensor: _Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape

    def read(self) -> np.ndarray:
        with _refusals(self.path):
            return self.tensor.read()


def _named_tensors(content: Any, part: str | None) -> dict[str, _Tensor]:
    if part is not None:
        if not isinstance(content, dict) or part not in content:
            held = ", ".join(map(str, content)) if isinstance(content, dict) else type(content).__name__
            raise InputError(f"has no part {part!r}; it holds: {held}")
        content = content[part]
    if not isinstance(content, dict):
        raise InputError(f"holds a {type(content).__name__} instead of named tensors")
    return {str(name): value for name, value in content.items() if isinstance(value, _Tensor)}


# --- PyTorch's files --------------------------------------------------------------------------------


@dataclass(eq=False)
class _Storage:
    """Consecutive numbers in the file; `read` returns their bytes."""

    dtype: str
    count: int
    is_bfloat16: bool
    read: Callable[[], bytes] = field(default=lambda: b"")

    def numbers(self) -> np.ndarray:
        numbers = np.frombuffer(self.read(), self.dtype, count=self.count)
        return (numbers.astype("<u4") << 16).view("<f4") if self.is_bfloat16 else numbers


@dataclass(frozen=True)
class _Tensor(Key):
    """A view of a storage, read on demand."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def read(self) -> np.ndarray:
        numbers = self.storage.numbers()
        if 0 in self.shape:
            return np.zeros(self.shape, numbers.dtype)
        strides = tuple(stride * numbers.itemsize for stride in self.strides)
        return np.lib.stride_tricks.as_strided(numbers[self.offset :], self.shape, strides).copy()


def _tensor(storage: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any) -> _Tensor:
    """A tensor as PyTorch's files describe it; a view that leaves its storage is refused."""
    numbers = (offset, *shape, *strides)
    whole = len(numbers) <= 1 + 2 * LONGEST and all(isinstance(n, int) and 0 <= n < 2**63 for n in numbers)
    if not isinstance(storage, _Storage) or not whole:
        raise InputError("holds a malformed tensor")
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if 0 not in shape and (last >= storage.count or math.prod(shape) > storage.count):
        raise InputError("holds a tensor that reaches beyond its storage")
    return _Tensor(storage, offset, tuple(shape), tuple(strides))


def _parameter(tensor: Any, *_: Any) -> Any:
    return tensor


_REBUILT = {"torch._utils._rebuild_tensor_v2": _tensor, "torch._utils._rebuild_parameter": _parameter}
_NAMES = {**_REBUILT, **{f"torch.{kind}": kind for kind in _DTYPES}}
"""What PyTorch's files name beside shells."""
_Storages = Callable[[tuple[Any, ...]], _Storage]


def _unpickled(file: BinaryIO, size: int, storage: _Storages | None = None) -> Any:
    return DataUnpickler(file, size, _NAMES, storage).load()


def _new_storage(pid: tuple[Any, ...]) -> _Storage:
    _, kind, _, _, count = pid[:5]
    known = isinstance(kind, str) and kind in _DTYPES
    if not known or not isinstance(count, int) or not 0 <= count < 2**63:
        raise InputError("holds numbers of an unknown type")
    return _Storage(_DTYPES[kind], count, kind == "BFloat16Storage")


def _read_zip(file: BinaryIO) -> Any:
    """The format of PyTorch since 1.6: a zip of a pickle and of the storages' bytes."""
    archive = zipfile.ZipFile(file.name)  # stays open as long as a storage may be read
    index = next((name for name in archive.namelist() if name.endswith("/data.pkl")), None)
    if index is None or archive.getinfo(index).file_size > MAX_PICKLE_BYTES:
        raise InputError("is a zip file, but no checkpoint")
    folder = index.removesuffix("data.pkl") + "data/"
    made_before: dict[str, _Storage] = {}

    def storage(pid: tuple[Any, ...]) -> _Storage:
        if pid[2] in made_before:
            return made_before[pid[2]]
        made = made_before[pid[2]] = _new_storage(pid)
        member = archive.getinfo(f"{folder}{pid[2]}")
        stored = member.compress_type == zipfile.ZIP_STORED  # PyTorch never compresses; a bomb would
        if not stored or member.file_size != made.count * np.dtype(made.dtype).itemsize:
            raise InputError(f"is damaged: storage {pid[2]} is not of its size")
        made.read = lambda: archive.read(member)
        return made

    content = archive.read(index)
    return _unpickled(io.BytesIO(content), len(content), storage)


def _read_legacy(file: BinaryIO) -> Any:
    """The older format: four pickles, then the storages' bytes one after the other."""
    size_of_file = os.fstat(file.fileno()).st_size
    if _unpickled(file, size_of_file) != LEGACY_MAGIC:
        raise InputError("is no checkpoint: expected safetensors or PyTorch's format")
    for _ in ("protocol version", "system"):
        _unpickled(file, size_of_file)
    storages: dict[str, _Storage] = {}

    def storage(pid: tuple[Any, ...]) -> _Storage:
        if pid[2] not in storages:
            storages[pid[2]] = _new_storage(pid)
        return storages[pid[2]]

    content = _unpickled(file, size_of_file, storage)
    for key in _keys(_unpickled(file, size_of_file), storages):
        made = storages[key]
        count = int.from_bytes(file.read(8), "little")
        size = count * np.dtype(made.dtype).itemsize
        if count != made.count:
            raise InputError(f"is damaged: storage {key} is not of its size")
        made.read = _reader(Path(file.name), file.tell(), size)
        file.seek(size, io.SEEK_CUR)
    return content


def _keys(listed: Any, storages: dict[str, _Storage]) -> Iterator[str]:
    if not isinstance(listed, list) or not all(map(is_plain, listed)) or set(listed) != set(storages):
        raise InputError("is damaged: its list of storages does not fit")
    yield from listed


def _reader(path: Path, start: int, size: int) -> Callable[[], bytes]:
    def read() -> bytes:
        with path.open("rb") as file:
            file.seek(start)
            content = file.read(size)
        if len(content) != size:
            raise InputError("is cut short")
        return content

    return read


# --- tables of features -----------------------------------------------------------------------------


def read_rows_by_id(path: Path | str, name: str) -> tuple[dict[str, np.ndarray], dict[int, int]]:
    """The tensors of one of PyTorch's files by name, and the dictionary `name` beside them, of whole numbers.

    Its keys may be tensors of one number. Raises InputError as `read_checkpoint` does.
    """
    path = Path(path)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            size = max(
                (m.file_size for m in archive.infolist() if m.filename.endswith("/data.pkl")), default=0
            )
        if size > MAX_PICKLE_BYTES:
            raise InputError(
                f"has a dictionary of {size / 2**20:,.0f} MB, and at most {MAX_PICKLE_BYTES >> 20} are read: "
                "use the files of single pools instead of their union",
                path=path,
            )
    tensors = read_checkpoint(path)
    with path.open("rb") as file:  # it was read a moment ago, so it can be read
        zipped = file.read(4) == b"PK\x03\x04"
        file.seek(0)
        content = _read_zip(file) if zipped else _read_legacy(file)
    numbers = content.get(name)
    if not isinstance(numbers, dict):
        held = ", ".join(map(str, content)) or "nothing"
        raise InputError(f"has no dictionary {name!r}; it holds: {held}", path=path)
    plain = {_whole_number(key): _whole_number(value) for key, value in numbers.items()}
    if None in plain or None in plain.values():
        raise InputError(f"{name!r} should be a dictionary of whole numbers", path=path)
    return tensors, plain  # type: ignore[return-value]


def _whole_number(value: Any) -> int | None:
    if isinstance(value, _Tensor) and value.shape == ():
        read = value.read()
        value = int(read) if np.issubdtype(read.dtype, np.integer) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
