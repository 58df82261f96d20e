"""A pool of 4,000 items that is searched by geometry."""

from __future__ import annotations

import numpy as np

from genius.decode.geometry import Geometry
from genius.search.codes import PackedCodes
from genius.search.engine import Engine
from genius.search.segment_view import SegmentView

ITEMS, QUERIES = 4000, 9


def geometric_pool() -> tuple[Engine, np.ndarray, np.ndarray]:
    """An engine, query vectors, and the items' quantized vectors by row, which are their embeddings too."""
    rng = np.random.default_rng(3)
    sizes = [3, 32, 32, 32]
    codebooks = [rng.normal(size=(size, 8)) * 0.5**level for level, size in enumerate(sizes)]
    codes = rng.integers(0, sizes, (ITEMS, 4))
    packed, order = PackedCodes.build(codes, sizes, 1)
    quantized = sum(codebook[codes[order, level]] for level, codebook in enumerate(codebooks))
    segment = SegmentView(packed, embeddings=quantized.astype(np.float32), item_keys=order)
    vectors = rng.normal(size=(QUERIES, 8)).astype(np.float32)
    codebooks_f32 = [codebook.astype(np.float32) for codebook in codebooks]
    return Engine([segment], Geometry(codebooks, 1.0), codebooks_f32), vectors, quantized
