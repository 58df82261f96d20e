"""Vectors to codes and back, in numpy: what searching and indexing need of a trained quantizer."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from genius.encode.runtime import cores
from genius.errors import InputError

BLOCK = 4096
NEVER = -1e30
ROUNDING = float(np.finfo(np.float32).eps) / 2
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
        self._levels = [
            _Nearest(book, -0.5 * np.square(book, dtype=np.float64).sum(1)) for book in self.codebooks
        ]
        if classifier is not None:
            self._levels[0] = _Nearest(*classifier)

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
        scores = np.empty(min(len(vectors), BLOCK) * max(self.sizes), np.float32)
        with ThreadPoolExecutor(cores()) as threads:
            for start in range(0, len(vectors), BLOCK):
                part = slice(start, start + BLOCK)
                rows = np.ones((len(vectors[part]), self.width + 1), np.float32)
                rows[:, :-1] = vectors[part]
                if not np.isfinite(rows).all():
                    raise InputError("some vectors are NaN or infinite: encode these items again")
                first = None if given is None else given[part]
                self._code_block(rows, first, found[part], scores, threads)
        return found

    def _code_block(
        self,
        rows: np.ndarray,
        given: np.ndarray | None,
        found: np.ndarray,
        space: np.ndarray,
        threads: ThreadPoolExecutor,
    ) -> None:
        """Write the codes of rows [n, width + 1] to `found`, and leave in the rows what no code stands for.

        The matrix products take all cores by themselves; what comes after them is shared out.
        """
        bounds = np.linspace(0, len(rows), cores() + 1).astype(int)
        shares = [slice(first, last) for first, last in pairwise(bounds) if first < last]
        for level, book in enumerate(self.codebooks):
            if level == 0 and given is not None:
                found[:, 0] = given
                rows[:, :-1] -= book[given]
                continue
            scores = self._levels[level].scores(rows, space)

            def settle(share: slice, level: int = level, scores: np.ndarray = scores) -> None:
                codes = self._levels[level].best(rows[share], scores[share])
                found[share, level] = codes
                rows[share, :-1] -= self.codebooks[level][codes]

            list(threads.map(settle, shares))

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


class _Nearest:
    """Finds the code of largest rows · book + offsets; of equal ones the first.

    A matrix product rounds differently with the number of rows. Where that could decide, the codes in
    question are compared in double precision, row by row: a row's code is the same in any company.
    """

    def __init__(self, book: np.ndarray, offsets: np.ndarray) -> None:
        # Rows end with a one, which adds the offsets within the matrix product.
        self._book = np.concatenate([book, offsets[:, None]], axis=1, dtype=np.float32)
        self._book[_repeated(self._book), -1] = NEVER
        self._offsets = offsets.astype(np.float64)
        # However a product of two rows is summed up in single precision, it is wrong by less than
        # width · rounding · the product of their lengths; two scores may be wrong in opposite directions.
        self._doubt = 2 * (book.shape[1] + 3) * ROUNDING
        self._longest = float(np.linalg.norm(book.astype(np.float64), axis=1).max())
        self._largest = float(np.abs(offsets).max())

    def scores(self, rows: np.ndarray, space: np.ndarray) -> np.ndarray:
        """Scores [n, codes] of rows [n, width + 1], up to rounding; `space` is room for them."""
        scores = space[: len(rows) * len(self._book)].reshape(len(rows), len(self._book))
        return np.matmul(rows, self._book.T, out=scores)

    def best(self, rows: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Codes [n] of rows [n, width + 1] by their scores, which are spoiled."""
        numbers = np.arange(len(rows))
        best: np.ndarray = scores.argmax(1)
        highest = scores[numbers, best]
        scores[numbers, best] = -np.inf
        lengths = np.sqrt(np.einsum("nd,nd->n", rows[:, :-1], rows[:, :-1]))
        least = highest - self._doubt * (lengths * self._longest + self._largest)
        for row in np.flatnonzero(scores.max(1) >= least):
            scores[row, best[row]] = highest[row]
            near = np.flatnonzero(scores[row] >= least[row])
            products = self._book[near, :-1] * rows[row, :-1].astype(np.float64)
            best[row] = near[(products.sum(1) + self._offsets[near]).argmax()]
        return best


def _repeated(book: np.ndarray) -> np.ndarray:
    """Which vectors occur before; a level that had few different vectors to learn from has many such."""
    seen: dict[bytes, int] = {}
    return np.array([seen.setdefault(row.tobytes(), number) != number for number, row in enumerate(book)])
