"""The score of `genius.search.scoring` as one inner product of wider vectors.

score = w · ⟨φ_q, φ_c⟩ + (1 − w) · (⟨z_q, ẑ_c⟩ − ‖ẑ_c‖² / 2)
"""

from __future__ import annotations

import numpy as np


def blended_items(embeddings: np.ndarray, quantized: np.ndarray) -> np.ndarray:
    """Items [n, width + width + 1] by their embeddings and quantized vectors [n, width]."""
    half_sq_norms = 0.5 * np.einsum("ij,ij->i", quantized, quantized)[:, None]
    return np.concatenate([embeddings, quantized, -half_sq_norms], axis=1, dtype=np.float32)


def blended_queries(embeddings: np.ndarray, vectors: np.ndarray, weight: float) -> np.ndarray:
    """Queries [n, width + width + 1], whose inner products with items are the scores."""
    rest = np.float32(1 - weight)
    ones = np.full((len(embeddings), 1), rest, np.float32)
    return np.concatenate([np.float32(weight) * embeddings, rest * vectors, ones], axis=1, dtype=np.float32)
