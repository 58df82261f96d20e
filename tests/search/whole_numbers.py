"""Engines over random pools whose embeddings are whole numbers, so that all sums are exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from genius.search.costs import Costs
from genius.search.engine import Engine, EngineResult
from tests.search.pools import SegmentedPool

WIDTH = 5
SCAN, FAST = Costs(0, 0, 1), Costs(1, 1, 0)
"""Costs by which the mode `auto` always scans, or never does."""


def engine_of(pool: SegmentedPool, costs: Costs = SCAN) -> tuple[Engine, np.ndarray, np.ndarray]:
    """An engine over the pool, the items' embeddings, and the queries'."""
    rng = np.random.default_rng(len(pool.codes))
    embeddings = rng.integers(-3, 4, (len(pool.codes), WIDTH)).astype(np.float32)
    query_embeddings = rng.integers(-127, 128, (pool.queries, WIDTH)).astype(np.float32)
    query_embeddings[:, 0] = 127  # so in int8 they are exactly themselves
    segments, items = pool.segments()
    segments = [
        replace(
            segment,
            embeddings_int8=embeddings[own].astype(np.int8),
            embeddings=embeddings[own].astype(np.float16),
            item_keys=own,
        )
        for segment, own in zip(segments, items, strict=True)
    ]
    return Engine(segments, pool.decoder, costs=costs), embeddings, query_embeddings


def keys_of(result: EngineResult, query: int) -> list[int]:
    """The item keys of a query's results, best first."""
    return [int(key) for key in result.item_keys[query] if key >= 0]
