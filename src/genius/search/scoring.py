"""The score that candidates are ranked by: similarity of embeddings, and of the query to the item's code.

    score = w · ⟨φ_q, φ_c⟩ + (1 − w) · (⟨z_q, ẑ_c⟩ − ‖ẑ_c‖² / 2)

The first term is the similarity of embeddings, the second the *code score*: up to a constant of the query,
half of −‖z_q − ẑ_c‖². The two see different things: embeddings know an item finely, its code knows where
training drew the queries that ask for it. Together they find more than either alone (research/log.md); w is
chosen on validation.

⟨z_q, ẑ_c⟩ is a sum over levels, so a query's code scores are looked up in one table a level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genius.decode.geometry import row_by_row_products
from genius.search.codes import PackedCodes

BLOCK = 1 << 13  # quantized vectors at a time


@dataclass(frozen=True, eq=False)
class Scorer:
    """What the items of each query are scored by.

    Attributes:
        embeddings: inner products are taken with these, float32 [queries, width]; None to score by codes
            alone.
        tables: what each code adds, float32 [queries, levels, codes]; None to score by embeddings alone.
        code_weight: how many times `half_sq_norms` are subtracted: 1 − w.
    """

    embeddings: np.ndarray | None
    tables: np.ndarray | None = None
    code_weight: float = 0.0

    def codes_only(self) -> Scorer | None:
        """The same by code scores alone, if they are part of the score."""
        if self.tables is None or not self.code_weight:
            return None
        return Scorer(None, self.tables / np.float32(self.code_weight), 1.0)

    @classmethod
    def blend(
        cls,
        embeddings: np.ndarray | None,
        vectors: np.ndarray,
        codebooks: Sequence[np.ndarray] | None,
        weight: float,
    ) -> Scorer:
        """The score above with w = `weight`; w is 0 without `embeddings`, and 1 without `codebooks`."""
        weight = 0.0 if embeddings is None else 1.0 if codebooks is None else weight
        weighted = None
        if embeddings is not None and weight:
            weighted = embeddings.astype(np.float32) * np.float32(weight)
        if codebooks is None or weight == 1:
            return cls(weighted)
        tables = np.zeros((len(vectors), len(codebooks), max(map(len, codebooks))), np.float32)
        for level, codebook in enumerate(codebooks):
            tables[:, level, : len(codebook)] = row_by_row_products(vectors, codebook) * np.float32(
                1 - weight
            )
        return cls(weighted, tables, 1 - weight)


def code_score(vector: np.ndarray, quantized: np.ndarray) -> np.ndarray:
    """The code scores [n] of a query's vector [width] and quantized vectors [n, width]."""
    half_norms = 0.5 * np.einsum("nd,nd->n", quantized, quantized)
    return np.asarray(np.einsum("nd,d->n", quantized, vector) - half_norms)


def half_sq_norms(packed: PackedCodes, codebooks: Sequence[np.ndarray]) -> np.ndarray:
    """Half the squared norm of each row's quantized vector, float32 [n]."""
    norms = np.empty(len(packed), np.float32)
    for start in range(0, len(packed), BLOCK):
        codes = packed.codes(np.arange(start, min(start + BLOCK, len(packed))))
        quantized = np.zeros((len(codes), codebooks[0].shape[1]), np.float32)
        for level, codebook in enumerate(codebooks):
            quantized += codebook[codes[:, level]]
        norms[start : start + BLOCK] = 0.5 * np.einsum("ij,ij->i", quantized, quantized)
    return norms
