"""Vectors to codes and back, in numpy: what searching and indexing need of a trained quantizer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genius.errors import InputError

BLOCK = 2048
DOUBTFUL = 2e-6
"""Two codes whose scores differ by less are told apart in double precision."""


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
        self.first = first
        self.classifier = classifier
        self._halves = [0.5 * np.square(book).sum(1) for book in self.codebooks]
        widths = {book.shape[1] for book in self.codebooks}
        if len(widths) != 1 or not all(np.isfinite(book).all() for book in self.codebooks):
            raise InputError("codebooks should all have the same width and hold finite numbers only")

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

        `modality` [n] is needed if the first code is given. Raises InputError for vectors of another width or
        that are no numbers.
        """
        vectors = np.asarray(vectors, np.float32)
        if vectors.ndim != 2 or vectors.shape[1] != self.width:
            raise InputError(
                f"vectors should be [n, {self.width}], but are {list(vectors.shape)}: "
                "they come from another model"
            )
        if self.first == "given" and (modality is None or len(modality) != len(vectors)):
            raise InputError("this quantizer needs the modality of every vector")
        found = np.empty((len(vectors), len(self.codebooks)), np.uint16)
        for start in range(0, len(vectors), BLOCK):
            part = slice(start, start + BLOCK)
            if not np.isfinite(vectors[part]).all():
                raise InputError("some vectors are NaN or infinite: encode these items again")
            given = None if modality is None else np.asarray(modality)[part]
            self._code(vectors[part].copy(), given, found[part])
        return found

    def _code(self, rest: np.ndarray, modality: np.ndarray | None, found: np.ndarray) -> None:
        for level, book in enumerate(self.codebooks):
            if level == 0 and self.first == "given":
                assert modality is not None
                codes = modality.astype(np.int64)
            elif level == 0 and self.classifier is not None:
                weights, biases = self.classifier
                codes = _best(rest, weights, -biases)
            else:
                codes = _best(rest, book, self._halves[level])
            found[:, level] = codes
            rest -= book[codes]

    def reconstruct(self, codes: np.ndarray, levels: int | None = None) -> np.ndarray:
        """Quantized vectors [n, width]: the sum of the code vectors of all levels, or of the first ones."""
        total = np.zeros((len(codes), self.width), np.float32)
        for level, book in enumerate(self.codebooks[:levels]):
            total += book[codes[:, level]]
        return total

    def units(self, codes: np.ndarray) -> np.ndarray:
        """Quantized vectors of unit length."""
        total = self.reconstruct(codes)
        total /= np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-9)
        return total


def _best(rows: np.ndarray, book: np.ndarray, halves: np.ndarray) -> np.ndarray:
    """The code of largest rows · book − halves for each row.

    A matrix product rounds differently with the number of rows; where that could decide, each row is computed
    anew by itself, so that an item's code is the same whatever it is coded with.
    """
    scores = rows @ book.T
    scores -= halves
    numbers = np.arange(len(rows))
    best: np.ndarray = scores.argmax(1)
    highest = scores[numbers, best]
    scores[numbers, best] = -np.inf
    near = np.flatnonzero(highest - scores.max(1) < DOUBTFUL) if len(book) > 1 else numbers[:0]
    if len(near):
        exact_book, exact_halves = book.astype(np.float64), halves.astype(np.float64)
        for row in near:
            best[row] = (exact_book @ rows[row].astype(np.float64) - exact_halves).argmax()
    return best
