"""The quantizer as searching uses it: from vectors to codes and back, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from genius.data.records import MODALITIES
from genius.errors import InputError
from genius.runtime import cores
from genius.tensors import read_tensors, write_tensors

if TYPE_CHECKING:
    from genius.quantize.beam_coding import BeamCoding
    from genius.quantize.nearest import Nearest

ModalityCode = Literal["given", "learned", "classifier", "none"]
"""Where the modality code, the first of a code, comes from: it is the known modality (`given`); the nearest
of three learned vectors (`learned`, as published); what a linear classifier says, a prefix without a vector
(`classifier`); or there is none and all levels are semantic (`none`)."""

MAX_CODE_BITS = 256
"""The most bits that the semantic codes of an item may take together; more are not searched."""
BLOCK = 256
"""Vectors that a thread codes at a time."""


class Quantizer:
    """Codebooks, coarse to fine: each level codes the residual that the levels before it left of a vector.

    Args:
        codebooks: the vectors of each level, [codes, width].
        modality_code: where the first code comes from; if it is "none", all levels are semantic.
        classifier: its weights [3, width] and biases [3], if that is a classifier.
        beams: how many partial sums are kept while a vector is coded (`genius.quantize.beam_coding`); 1 is
            greedy coding, as codebooks are trained for.

    Raises InputError for codebooks that don't fit together.
    """

    def __init__(
        self,
        codebooks: Sequence[np.ndarray],
        *,
        modality_code: str = "given",
        classifier: tuple[np.ndarray, np.ndarray] | None = None,
        beams: int = 1,
    ) -> None:
        self.codebooks = [np.ascontiguousarray(book, np.float32) for book in codebooks]
        self.modality_code, self.classifier, self.beams = modality_code, classifier, beams
        if {book.ndim for book in self.codebooks} != {2} or len({b.shape[1] for b in self.codebooks}) != 1:
            raise InputError("codebooks should be arrays [codes, width], all of the same width")
        if not all(1 <= len(book) <= 65536 and np.isfinite(book).all() for book in self.codebooks):
            raise InputError("a codebook should have 1 to 65536 vectors of finite numbers")
        kinds = get_args(ModalityCode)
        if modality_code not in kinds or (modality_code == "classifier") != (classifier is not None):
            raise InputError(
                f"modality_code should be one of {', '.join(kinds)}, and only a classifier has weights"
            )

    @classmethod
    def open(cls, path: Path, modality_code: str, *, beams: int = 1) -> Quantizer:
        """The quantizer whose vectors `write` wrote to a file."""
        arrays = read_tensors(path)
        books = [arrays[f"level_{number}"] for number in range(sum(name[:6] == "level_" for name in arrays))]
        classifier = None
        if "classifier.weight" in arrays:
            classifier = arrays["classifier.weight"], arrays["classifier.bias"]
        return cls(books, modality_code=modality_code, classifier=classifier, beams=beams)

    def write(self, path: Path, *, bits: int = 32) -> None:
        """Write all vectors to a file, in 32 or in 8 bits."""
        arrays = {f"level_{number}": book for number, book in enumerate(self.codebooks)}
        if self.classifier is not None:
            arrays["classifier.weight"], arrays["classifier.bias"] = self.classifier
        write_tensors(path, arrays, bits=bits)

    @cached_property
    def _levels(self) -> list[Nearest]:
        """Finds the codes of each level; made late, as searching needs none and numba is slow to import."""
        from genius.quantize.nearest import Nearest

        # The nearest code has the largest product with the residual less half its squared length.
        scorers = [(book, -0.5 * np.square(book, dtype=np.float64).sum(1)) for book in self.codebooks]
        if self.classifier is not None:
            weights, biases = self.classifier
            scorers[0] = np.ascontiguousarray(weights, np.float32), biases
        return [Nearest(vectors, offsets) for vectors, offsets in scorers]

    @cached_property
    def _beam_coding(self) -> BeamCoding:
        """Finds the codes of all semantic levels together."""
        from genius.quantize.beam_coding import BeamCoding

        return BeamCoding(self.codebooks[self.semantic :], self.beams)

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
        """The first semantic level: 1 behind a modality code, else 0."""
        return 0 if self.modality_code == "none" else 1

    def codes(self, vectors: np.ndarray, modality: np.ndarray | None = None) -> np.ndarray:
        """Codes uint16 [n, levels] of vectors [n, width]; batch-invariant.

        `modality` [n] is needed if the modality code is given. Vectors may be of any float type and mapped
        from a file: they are read block by block. Raises InputError for vectors of another width or that are
        not finite.
        """
        if vectors.ndim != 2 or vectors.shape[1] != self.width:
            raise InputError(
                f"vectors should be [n, {self.width}], but are {list(vectors.shape)}: "
                "they come from another model"
            )
        given = self._given_codes(modality, len(vectors))
        codes = np.empty((len(vectors), len(self.codebooks)), np.uint16)
        block = max(1, min(BLOCK, -(-len(vectors) // cores())))
        levels = self._levels  # made here, not by several threads at once
        beam_coding = self._beam_coding if self.beams > 1 else None

        def code_block(start: int) -> None:
            rows = slice(start, start + block)
            residuals = np.array(vectors[rows], np.float32, order="C")
            if not np.isfinite(residuals).all():
                raise InputError("some vectors are NaN or infinite: encode these items again")
            for level, book in enumerate(self.codebooks):
                if beam_coding is not None and level == self.semantic:
                    codes[rows, level:] = beam_coding.codes(residuals)
                    break
                own = given[rows] if given is not None and level == 0 else levels[level].codes(residuals)
                codes[rows, level] = own
                residuals -= book[own]

        with ThreadPoolExecutor(cores()) as threads:
            list(threads.map(code_block, range(0, len(vectors), block)))
        return codes

    def _given_codes(self, modality: np.ndarray | None, count: int) -> np.ndarray | None:
        if self.modality_code != "given":
            return None
        if modality is None or len(modality) != count:
            raise InputError("this quantizer needs the modality of every vector")
        codes = np.asarray(modality, np.int64)
        _check_codes(codes, self.sizes[0], 1)
        return codes

    def reconstruct(self, codes: np.ndarray, levels: int | None = None) -> np.ndarray:
        """Quantized vectors float32 [n, width]: the sum of the code vectors of all or of the first levels.

        Raises InputError for codes that the codebooks don't have.
        """
        levels = len(self.codebooks) if levels is None else levels
        if not 0 <= levels <= min(codes.shape[1], len(self.codebooks)):
            raise InputError(
                f"{levels} levels can't be summed: codes have {codes.shape[1]}, "
                f"and there are {len(self.codebooks)} codebooks"
            )
        quantized = np.zeros((len(codes), self.width), np.float32)
        for level, book in enumerate(self.codebooks[:levels]):
            _check_codes(codes[:, level], len(book), level + 1)
            quantized += book[codes[:, level]]
        return quantized

    def units(self, codes: np.ndarray) -> np.ndarray:
        """Quantized vectors float32 [n, width] of unit length."""
        return unit_length(self.reconstruct(codes))

    def half_sq_norms(self, codes: np.ndarray) -> np.ndarray:
        """Half the squared norms of quantized vectors, float32 [n]."""
        quantized = self.reconstruct(codes)
        return np.asarray(0.5 * np.einsum("ij,ij->i", quantized, quantized), np.float32)

    def modality_by_code(self, codes: np.ndarray, modality: np.ndarray) -> list[int]:
        """The modality that each modality code stands for: the one that most items [n] with this code have.

        A code that no item has stands for its own number. Empty if there is no modality code.
        """
        if self.modality_code == "none":
            return []
        counts = np.zeros((self.sizes[0], len(MODALITIES)), np.int64)
        np.add.at(counts, (codes[:, 0], modality), 1)
        return [int(row.argmax()) if row.any() else number for number, row in enumerate(counts)]


def code_bits(sizes: Sequence[int]) -> int:
    """How many bits codes of levels of these sizes take."""
    return sum((size - 1).bit_length() for size in sizes)


def modality_codes_for(modality_of: Sequence[int], want: int, count: int) -> np.ndarray | None:
    """The modality code [count] of queries that want a modality.

    `modality_of` is the modality that each modality code stands for. The codes are -1 (any) where not exactly
    one stands for what is wanted, and None without a modality code.
    """
    if not modality_of:
        return None
    fitting = [code for code, modality in enumerate(modality_of) if modality == want]
    return np.full(count, fitting[0] if len(fitting) == 1 else -1)


def unit_length(vectors: np.ndarray) -> np.ndarray:
    """The vectors at unit length, in float32; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-9), np.float32)


def _check_codes(codes: np.ndarray, size: int, level: int) -> None:
    if len(codes) and not 0 <= codes.min() <= codes.max() < size:
        wrong = codes.min() if codes.min() < 0 else codes.max()
        raise InputError(f"level {level} has codes from 0 to {size - 1}, and there is {wrong}")
