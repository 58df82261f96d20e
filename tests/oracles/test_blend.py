from __future__ import annotations

import numpy as np
import pytest

from tests.oracles.blend import blended_items, blended_queries


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_an_inner_product_is_the_weighted_sum(weight: float) -> None:
    random = np.random.default_rng(0)
    embeddings, vectors = random.normal(size=(2, 4, 6)).astype(np.float32)
    items, quantized = random.normal(size=(2, 9, 6)).astype(np.float32)
    scores = blended_queries(embeddings, vectors, weight) @ blended_items(items, quantized).T
    for query in range(4):
        for item in range(9):
            similarity = float(embeddings[query] @ items[item])
            sq_distance = float(np.square(vectors[query] - quantized[item]).sum())
            code_score = (float(vectors[query] @ vectors[query]) - sq_distance) / 2
            expected = weight * similarity + (1 - weight) * code_score
            assert scores[query, item] == pytest.approx(expected, abs=1e-4)
