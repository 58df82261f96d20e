"""Codes of more than 128 bits in the compiled loops: scores by codes, and codes that differ in one word."""

from __future__ import annotations

import numpy as np
import pytest

from genius.decode.geometry import Geometry
from genius.search import kernels
from genius.search.codes import PackedCodes
from genius.search.engine import Engine
from genius.search.segment_view import SegmentView

SIZES = {
    129: [3] + [65536] * 8 + [2],
    160: [3] + [512] * 4 + [1024] * 8 + [2048] * 4,
    192: [3] + [4096] * 16,
    208: [3] + [8192] * 16,
    256: [3] + [65536] * 16,
}
"""Sizes of levels whose semantic codes take so many bits."""


@pytest.mark.parametrize("bits", SIZES)
def test_every_item_is_scored_by_all_levels_of_its_code(bits: int) -> None:
    sizes, rng = SIZES[bits], np.random.default_rng(bits)
    books = [rng.normal(size=(size, 3)).astype(np.float32) for size in sizes]
    codes = rng.integers(0, sizes, (50, len(sizes)))
    packed, order = PackedCodes.build(codes, sizes, 1)
    engine = Engine([SegmentView(packed, item_keys=order)], Geometry(books, 1.0), books)
    vectors = rng.normal(size=(2, 3)).astype(np.float32)
    result = engine.search(vectors, k=50, mode="scan")
    quantized = np.sum([book[codes[:, level]] for level, book in enumerate(books)], axis=0, dtype=np.float64)
    for query, vector in enumerate(vectors):
        expected = quantized @ vector - (quantized**2).sum(axis=1) / 2
        assert sorted(result.item_keys[query].tolist()) == list(range(50))
        np.testing.assert_allclose(result.scores[query], expected[result.item_keys[query]], atol=1e-3)


@pytest.mark.parametrize("bits", SIZES)
def test_codes_that_differ_in_one_level_alone_are_different_codes(bits: int) -> None:
    sizes = SIZES[bits]
    for level in range(1, len(sizes)):
        codes = np.array(sizes)[None].repeat(4, axis=0) - 1
        codes[2:, level] = 0
        packed, _ = PackedCodes.build(codes, sizes, 1)
        segment = SegmentView(packed)
        heads, run_ids = np.empty((2, 1, 4), np.int64)
        starts, ends, bounds = np.array([0]), np.array([4]), np.array([0, 1])
        counts = kernels.buckets(*segment.words, segment.allowed_before, starts, ends, bounds, heads, run_ids)
        assert counts.tolist() == [2] and heads[0, :2].tolist() == [0, 2]
