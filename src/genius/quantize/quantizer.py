"""What first codes stand for: a learned one means what most of its items are."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from genius.data.records import MODALITIES
from genius.errors import InputError
from genius.runtime import cores

if TYPE_CHECKING:
    from genius.quantize.nearest import Nearest


def majority(codes: np.ndarray, modality: np.ndarray, quantizer: Quantizer) -> list[int]:
    """Which modality most items with each first code have; of a code that none has, its own number."""
    if quantizer.first == "none":
        return []
    table = np.zeros((quantizer.sizes[0], len(MODALITIES)), np.int64)
    np.add.at(table, (codes[:, 0], modality), 1)
    return [int(row.argmax()) if row.any() else number for number, row in enumerate(table)]


def wanted_codes(modality_of: list[int], want: int, count: int) -> np.ndarray | None:
    """The first code of queries that want a modality; any where no code stands for it alone."""
    if not modality_of:
        return None
    fitting = [code for code, modality in enumerate(modality_of) if modality == want]
    return np.full(count, fitting[0] if len(fitting) == 1 else -1)


BLOCK = 256
FIRST = ("given", "learned", "classifier", "none")


class Quantizer:
    """Codebooks, coarse to fine. Each level codes what the levels before it left over of a vector.

    The first level is the modality's if `first` is not "none": `given` with the item, the nearest vector
    (`learned`), or what a linear `classifier` (weights [3, width], biases [3]) says.
    """

    def __init__(
        self,
        codebooks: Sequence[np.ndarray],
        *,
        first: str = "given",
        classifier: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        self.codebooks = [np.ascontiguousarray(book, np.float32) for book in codebooks]
        self.first, self.classifier = first, classifier
        if {book.ndim for book in self.codebooks} != {2} or len({b.shape[1] for b in self.codebooks}) != 1:
            raise InputError("codebooks should be arrays [codes, width], all of the same width")
        if not all(1 <= len(book) <= 65536 and np.isfinite(book).all() for book in self.codebooks):
            raise InputError("a codebook should have 1 to 65536 vectors of finite numbers")
        if first not in FIRST or (first == "classifier") != (classifier is not None):
            raise InputError(
                f"the first code should be one of {', '.join(FIRST)}, and only a classifier has weights"
            )

    @classmethod
    def open(cls, path: Path, first: str) -> Quantizer:
        """The quantizer in a file, with what its first level is."""
        from safetensors.numpy import load_file

        arrays = load_file(path)
        books = [arrays[f"level_{number}"] for number in range(sum(name[:6] == "level_" for name in arrays))]
        told = [arrays[name] for name in ("classifier.weight", "classifier.bias") if name in arrays]
        return cls(books, first=first, classifier=(told[0], told[1]) if told else None)

    def write(self, path: Path) -> None:
        """Write all vectors to a file."""
        from safetensors.numpy import save_file

        arrays = {f"level_{number}": book for number, book in enumerate(self.codebooks)}
        if self.classifier is not None:
            arrays["classifier.weight"], arrays["classifier.bias"] = self.classifier
        save_file(arrays, path)

    @cached_property
    def _levels(self) -> list[Nearest]:
        """What finds the codes of each level. Searching needs none, and numba takes a while to import."""
        from genius.quantize.nearest import Nearest

        told = [(book, -0.5 * np.square(book, dtype=np.float64).sum(1)) for book in self.codebooks]
        if self.classifier is not None:
            weights, biases = self.classifier
            told[0] = np.ascontiguousarray(weights, np.float32), biases
        return [Nearest(*one) for one in told]

    @property
    def width(self) -> int:
        """Of vectors."""
        return int(self.codebooks[0].shape[1])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Codes by level."""
        return tuple(len(book) for book in self.codebooks)

    @property
    def semantic(self) -> int:
        """The number of the first level that codes meaning."""
        return 0 if self.first == "none" else 1

    def codes(self, vectors: np.ndarray, modality: np.ndarray | None = None) -> np.ndarray:
        """Codes [n, levels] of vectors [n, width]; a vector's code does not depend on its company.

        `modality` [n] is needed if the first code is given. Vectors may be of any float type and mapped from
        a file: they are read block by block. Raises InputError for vectors of another width or that are no
        numbers.
        """
        if vectors.ndim != 2 or vectors.shape[1] != self.width:
            raise InputError(
                f"vectors should be [n, {self.width}], but are {list(vectors.shape)}: "
                "they come from another model"
            )
        given = self._given(modality, len(vectors))
        found = np.empty((len(vectors), len(self.codebooks)), np.uint16)
        block = max(1, min(BLOCK, -(-len(vectors) // cores())))
        levels = self._levels  # made before threads look for them

        def code(start: int) -> None:
            part = slice(start, start + block)
            rows = np.array(vectors[part], np.float32, order="C")
            if not np.isfinite(rows).all():
                raise InputError("some vectors are NaN or infinite: encode these items again")
            for level, book in enumerate(self.codebooks):
                codes = given[part] if given is not None and level == 0 else levels[level].codes(rows)
                found[part, level] = codes
                rows -= book[codes]

        with ThreadPoolExecutor(cores()) as threads:
            list(threads.map(code, range(0, len(vectors), block)))
        return found

    def _given(self, modality: np.ndarray | None, count: int) -> np.ndarray | None:
        if self.first != "given":
            return None
        if modality is None or len(modality) != count:
            raise InputError("this quantizer needs the modality of every vector")
        codes = np.asarray(modality, np.int64)
        _check_codes(codes, self.sizes[0], 1)
        return codes

    def reconstruct(self, codes: np.ndarray, levels: int | None = None) -> np.ndarray:
        """Quantized vectors [n, width]: the sum of the code vectors of all levels, or of the first ones."""
        levels = len(self.codebooks) if levels is None else levels
        if not 0 <= levels <= min(codes.shape[1], len(self.codebooks)):
            raise InputError(
                f"{levels} levels can't be summed: codes have {codes.shape[1]}, "
                f"and there are {len(self.codebooks)} codebooks"
            )
        total = np.zeros((len(codes), self.width), np.float32)
        for level, book in enumerate(self.codebooks[:levels]):
            _check_codes(codes[:, level], len(book), level + 1)
            total += book[codes[:, level]]
        return total

    def units(self, codes: np.ndarray) -> np.ndarray:
        """Quantized vectors of unit length."""
        return unit_length(self.reconstruct(codes))


def unit_length(vectors: np.ndarray) -> np.ndarray:
    """The vectors at unit length, in float32; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-9), np.float32)


def _check_codes(codes: np.ndarray, size: int, level: int) -> None:
    if len(codes) and not 0 <= codes.min() <= codes.max() < size:
        wrong = codes.min() if codes.min() < 0 else codes.max()
        raise InputError(f"level {level} has codes from 0 to {size - 1}, and there is {wrong}")
