"""The score that candidates are re-ranked by: likeness of joined embeddings, and nearness to the code.

    score = w · ⟨φ_q, φ_c⟩ + (1 − w) · (⟨z_q, ẑ_c⟩ − ‖ẑ_c‖² / 2)

The two see different things: joined embeddings know an item finely, its code where training drew the queries
that ask for it. Together they find more than either (research/log.md); w is chosen on validation. The second
term is half of −‖z_q − ẑ_c‖², up to what depends on the query alone. Written as one inner product of wider
vectors, so that whoever can compare embeddings can compare these.
"""

from __future__ import annotations

import numpy as np


def nearness(vector: np.ndarray, quantized: np.ndarray) -> np.ndarray:
    """The second term alone: of a query's vector and quantized vectors [n, width], [n]."""
    halves = 0.5 * np.einsum("nd,nd->n", quantized, quantized)
    return np.asarray(np.einsum("nd,d->n", quantized, vector) - halves)


def blended_items(embeddings: np.ndarray, quantized: np.ndarray) -> np.ndarray:
    """Items [n, width + width + 1] by their joined embeddings and quantized vectors [n, width]."""
    halves = -0.5 * np.einsum("ij,ij->i", quantized, quantized)[:, None]
    return np.concatenate([embeddings, quantized, halves], axis=1, dtype=np.float32)


def blended_queries(embeddings: np.ndarray, vectors: np.ndarray, weight: float) -> np.ndarray:
    """Queries [n, width + width + 1], whose inner product with items is the score."""
    rest = np.float32(1 - weight)
    ones = np.full((len(embeddings), 1), rest, np.float32)
    return np.concatenate([np.float32(weight) * embeddings, rest * vectors, ones], axis=1, dtype=np.float32)
