from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from genius.index.segments import Segment
from genius.index.writer import FULL_BLOCK, SpillFile, concatenate, count_to_absorb, merge
from tests.index.made_up import GIVEN, LEARNED, made_up_block


class SimulatedIndex:
    """Segments by their sizes alone, and how often the items of each were written."""

    def __init__(self, full: int) -> None:
        self.full, self.sizes, self.written = full, [], []  # type: int, list[int], list[int]

    def add(self, count: int) -> None:
        kept = len(self.sizes) - count_to_absorb(self.sizes, count, self.full)
        self.written[kept:] = [max([0, *self.written[kept:]]) + 1]
        self.sizes[kept:] = [sum(self.sizes[kept:]) + count]


@given(st.lists(st.integers(1, 300), max_size=200), st.sampled_from([64, 1000, FULL_BLOCK]))
def test_there_are_few_small_segments_and_items_are_seldom_written_again(
    counts: list[int], full: int
) -> None:
    index = SimulatedIndex(full)
    for count in counts:
        index.add(count)
        small = [size for size in index.sizes if size < full]
        assert all(size > 2 * following for size, following in pairwise(index.sizes) if size < full)
        assert len(small) <= math.log2(full)
        assert max(index.written) <= 1 + math.log(full, 1.5) + 1
    assert sum(index.sizes) == sum(counts)


def test_ten_thousand_single_additions() -> None:
    index = SimulatedIndex(FULL_BLOCK)
    for _ in range(10_000):
        index.add(1)
        assert len(index.sizes) <= 14
    assert max(index.written) <= 23


def test_merged_items_are_in_the_order_of_keys_without_those_removed() -> None:
    random = np.random.default_rng(0)
    for format in (GIVEN, LEARNED):
        blocks = [
            made_up_block(random, 20, format),
            made_up_block(random, 1, format, 21),
            made_up_block(random, 9, format, 22),
        ]
        segments = [Segment.in_memory(block, format) for block in (blocks[2], blocks[0], blocks[1])]
        tombstones = np.array([1, 7, 21, 30, 99])
        merged = merge(segments, tombstones)
        block = merged.block
        np.testing.assert_array_equal(block.item_keys, np.setdiff1d(np.arange(1, 31), tombstones))
        assert sorted(merged.dropped.tolist()) == [1, 7, 21, 30]
        for name in ("codes", "modality", "half_sq_norms"):
            items = np.concatenate([getattr(one, name) for one in blocks])
            np.testing.assert_array_equal(getattr(block, name), items[block.item_keys - 1])
        items = np.concatenate([np.asarray(one.embeddings) for one in blocks])
        embeddings = block.embeddings[np.arange(len(block.item_keys))]
        np.testing.assert_array_equal(embeddings, items[block.item_keys - 1])


def test_two_blocks_become_one() -> None:
    random = np.random.default_rng(0)
    older, newer = made_up_block(random, 5, GIVEN), made_up_block(random, 3, GIVEN, 6)
    both = concatenate(older, newer)
    assert both.item_keys.tolist() == list(range(1, 9))
    for name in ("codes", "modality", "embeddings", "half_sq_norms"):
        np.testing.assert_array_equal(
            getattr(both, name), np.concatenate([getattr(older, name), getattr(newer, name)])
        )


def test_spilled_embeddings_are_read_back_and_leave_no_file(tmp_path: Path) -> None:
    random, spill = np.random.default_rng(0), SpillFile(tmp_path)
    for rows in ([3, 1], [5]):  # it can be used again
        blocks = [random.normal(size=(count, 4)).astype(np.float16) for count in rows]
        for block in blocks:
            spill.append(block)
        np.testing.assert_array_equal(spill.read(), np.concatenate(blocks))
        assert not list(tmp_path.iterdir())
        spill.close()
