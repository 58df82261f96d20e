from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from genius.index.writer import BLOCK, merge, taken_in
from tests.index.made_up import CODING, LEARNED, block, in_memory


class Simulated:
    """Segments by their sizes alone, and how often the items of each were written."""

    def __init__(self, full: int) -> None:
        self.full, self.sizes, self.written = full, [], []  # type: int, list[int], list[int]

    def add(self, count: int) -> None:
        taken = taken_in(self.sizes, count, self.full)
        rest = len(self.sizes) - taken
        self.written[rest:] = [max([0, *self.written[rest:]]) + 1]
        self.sizes[rest:] = [sum(self.sizes[rest:]) + count]


@given(st.lists(st.integers(1, 300), max_size=200), st.sampled_from([64, 1000, BLOCK]))
def test_there_are_few_small_segments_and_items_are_seldom_written_again(
    counts: list[int], full: int
) -> None:
    index = Simulated(full)
    for count in counts:
        index.add(count)
        small = [size for size in index.sizes if size < full]
        assert all(one > 2 * other for one, other in pairwise(index.sizes) if one < full)
        assert len(small) <= math.log2(full)
        assert max(index.written) <= 1 + math.log(full, 1.5) + 1
    assert sum(index.sizes) == sum(counts)


def test_ten_thousand_single_additions() -> None:
    index = Simulated(BLOCK)
    for _ in range(10_000):
        index.add(1)
        assert len(index.sizes) <= 14
    assert max(index.written) <= 23


def test_merged_items_are_in_the_order_of_rows_without_those_removed() -> None:
    random = np.random.default_rng(0)
    for coding in (CODING, LEARNED):
        books = [random.normal(size=(size, 6)) for size in coding.sizes]
        blocks = [block(random, 20, coding), block(random, 1, coding, 21), block(random, 9, coding, 22)]
        segments = [in_memory(made, coding, books) for made in (blocks[2], blocks[0], blocks[1])]
        removed = np.array([1, 7, 21, 30, 99])
        merged = merge(segments, removed)
        np.testing.assert_array_equal(merged.block.rows, np.setdiff1d(np.arange(1, 31), removed))
        assert sorted(merged.dropped.tolist()) == [1, 7, 21, 30]
        for name in ("codes", "modality"):
            every = np.concatenate([getattr(made, name) for made in blocks])
            np.testing.assert_array_equal(getattr(merged.block, name), every[merged.block.rows - 1])
        every = np.concatenate([np.asarray(made.embeddings) for made in blocks])
        found = merged.block.embeddings[np.arange(len(merged.block.rows))]
        np.testing.assert_array_equal(found, every[merged.block.rows - 1])
