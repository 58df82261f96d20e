"""The blended score against its formula."""

from __future__ import annotations

import numpy as np
import pytest

from tests.oracles.blend import blended_items, blended_queries


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_one_inner_product_is_the_weighed_sum(weight: float) -> None:
    random = np.random.default_rng(0)
    embeddings, vectors = random.normal(size=(2, 4, 6)).astype(np.float32)
    items, quantized = random.normal(size=(2, 9, 6)).astype(np.float32)
    found = blended_queries(embeddings, vectors, weight) @ blended_items(items, quantized).T
    for query in range(4):
        for item in range(9):
            likeness = float(embeddings[query] @ items[item])
            apart = float(np.square(vectors[query] - quantized[item]).sum())
            nearness = (float(vectors[query] @ vectors[query]) - apart) / 2
            expected = weight * likeness + (1 - weight) * nearness
            assert found[query, item] == pytest.approx(expected, abs=1e-4)
