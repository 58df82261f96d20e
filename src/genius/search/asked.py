"""What items are compared with: embeddings, codes, or both together (`blend`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genius.decode.geometry import row_by_row_products
from genius.search.codes import PackedCodes

BLOCK = 1 << 13  # quantized vectors at a time


@dataclass(frozen=True, eq=False)
class Asked:
    """What items are compared with, by query.

    Attributes:
        embeddings: what their embeddings are multiplied with, float32 [queries, width], or None.
        tables: what each of their codes adds, float32 [queries, levels, codes], or None.
        share: how many times `Part.halves` is taken off.
    """

    embeddings: np.ndarray | None
    tables: np.ndarray | None = None
    share: float = 0.0

    def codes_alone(self) -> Asked | None:
        """The same without embeddings, if codes are compared at all."""
        if self.tables is None or not self.share:
            return None
        return Asked(None, self.tables / np.float32(self.share), 1.0)

    @classmethod
    def blend(
        cls,
        joined: np.ndarray | None,
        vectors: np.ndarray,
        codebooks: Sequence[np.ndarray] | None,
        weight: float,
    ) -> Asked:
        """By joined embeddings `weight` times and by nearness to the code for the rest, as `search.blend`.

        Without `joined` by the code alone; without codebooks by embeddings alone.
        """
        weight = 0.0 if joined is None else 1.0 if codebooks is None else weight
        embeddings = None if joined is None or not weight else joined.astype(np.float32) * np.float32(weight)
        if codebooks is None or weight == 1:
            return cls(embeddings)
        tables = np.zeros((len(vectors), len(codebooks), max(map(len, codebooks))), np.float32)
        for level, codebook in enumerate(codebooks):
            tables[:, level, : len(codebook)] = row_by_row_products(vectors, codebook) * np.float32(
                1 - weight
            )
        return cls(embeddings, tables, 1 - weight)


def halves(packed: PackedCodes, codebooks: Sequence[np.ndarray]) -> np.ndarray:
    """Half the squared length of each row's quantized vector, float32 [n]."""
    lengths = np.empty(len(packed), np.float32)
    for start in range(0, len(packed), BLOCK):
        codes = packed.codes(np.arange(start, min(start + BLOCK, len(packed))))
        quantized = np.zeros((len(codes), codebooks[0].shape[1]), np.float32)
        for level, codebook in enumerate(codebooks):
            quantized += codebook[codes[:, level]]
        lengths[start : start + BLOCK] = 0.5 * np.einsum("ij,ij->i", quantized, quantized)
    return lengths
