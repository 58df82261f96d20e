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

from genius.decode.products import rounded_book
from genius.search.codes import PackedCodes

BLOCK = 1 << 13  # quantized vectors at a time


@dataclass(frozen=True, eq=False)
class Scorer:
    """What the items of each query are scored by.

    Attributes:
        embeddings: inner products are taken with these, float32 [queries, width]; None to score by codes
            alone.
        tables: what each code adds, float32 [queries, levels, codes]; None to score by embeddings alone.
        code_weights: how many times `half_sq_norms` are subtracted, float32 [queries]: 1 − w; None where
            there are no tables.
    """

    embeddings: np.ndarray | None
    tables: np.ndarray | None = None
    code_weights: np.ndarray | None = None

    def codes_only(self) -> Scorer | None:
        """The same by code scores alone, if they are part of the score of every query."""
        if self.tables is None or self.code_weights is None or not self.code_weights.all():
            return None
        ones = np.ones_like(self.code_weights)
        return Scorer(None, self.tables / self.code_weights[:, None, None], ones)

    @classmethod
    def blend(
        cls,
        embeddings: np.ndarray | None,
        vectors: np.ndarray,
        codebooks: Sequence[np.ndarray] | None,
        weight: float | np.ndarray,
    ) -> Scorer:
        """The score above with w = `weight`, of all queries or of each [queries]; w is 0 without
        `embeddings`, and 1 without `codebooks`."""
        weights = np.full(len(vectors), weight, np.float32)
        if embeddings is None:
            weights[:] = 0
        elif codebooks is None:
            weights[:] = 1
        weighted, no_queries = None, not len(vectors)
        if embeddings is not None and (weights.any() or no_queries):
            weighted = embeddings.astype(np.float32) * weights[:, None]
        code_weights = np.float32(1) - weights
        if codebooks is None or not (code_weights.any() or no_queries):
            return cls(weighted)
        tables = np.zeros((len(vectors), len(codebooks), max(map(len, codebooks))), np.float32)
        for level, codebook in enumerate(codebooks):
            products = rounded_book(codebook).products(vectors)
            tables[:, level, : len(codebook)] = products * code_weights[:, None]
        return cls(weighted, tables, code_weights)


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
