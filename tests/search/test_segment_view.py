from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from genius.errors import InputError
from genius.search import kernels
from genius.search.beam import beam_search
from genius.search.codes import PackedCodes
from genius.search.segment_view import Prefixes, SegmentView, expand
from tests.search.pools import SegmentedPool, pools
from tests.search.table_decoder import Prefix, TableDecoder


@given(pools())
def test_all_children_of_all_prefixes_equal_brute_force(pool: SegmentedPool) -> None:
    segments, items = pool.segments()
    shown = [tuple(row) for row in pool.codes[pool.shown].tolist()]
    levels = pool.codes.shape[1]
    runs = np.array([segment.all_rows() for segment in segments], np.int64)
    prefixes = Prefixes(
        np.zeros(1, np.int64),
        runs[:, :1],
        runs[:, 1:],
        np.zeros(1, np.float32),
        np.full((1, levels), np.nan, np.float32),
    )
    known: list[Prefix] = [()]
    for level in range(levels):
        log_probs = np.zeros((len(prefixes), pool.decoder.sizes[level]), np.float32)
        prefixes, parents, codes = expand(segments, level, prefixes, log_probs, 1, len(pool.codes))
        known = [(*known[parent], int(code)) for parent, code in zip(parents, codes, strict=True)]
        assert known == sorted({row[: level + 1] for row in shown})
        for number, prefix in enumerate(known):
            below = [
                int(item)
                for segment, own in enumerate(items)
                for item in own[prefixes.starts[segment, number] : prefixes.ends[segment, number]]
                if not pool.hidden[item]
            ]
            expected = [int(item) for item in pool.shown if tuple(pool.codes[item, : level + 1]) == prefix]
            assert sorted(below) == expected
            counts = [
                int(segment.count_allowed(prefixes.starts[place, number], prefixes.ends[place, number]))
                for place, segment in enumerate(segments)
            ]
            assert sum(counts) == len(expected)
        if not known:
            return


@given(pools())
def test_first_level_rows_and_buckets_equal_brute_force(pool: SegmentedPool) -> None:
    segments, items = pool.segments()
    for segment, own in zip(segments, items, strict=True):
        shown = ~pool.hidden[own]
        for code in range(-1, pool.decoder.sizes[0] + 1):
            start, end = segment.first_level_rows(code)
            expected = np.flatnonzero((pool.codes[own, 0] == code) & shown)
            np.testing.assert_array_equal(np.flatnonzero(shown[start:end]) + start, expected)
        # A modality code is not stored, so the rows of a run must share it.
        runs = np.array([segment.first_level_rows(code) for code in range(pool.decoder.sizes[0])], np.int64)
        heads, run_ids = np.empty((2, 1, len(own)), np.int64)
        bounds = np.array([0, len(runs)])
        counts = kernels.buckets(
            *segment.words, segment.allowed_before, runs[:, 0], runs[:, 1], bounds, heads, run_ids
        )
        codes = [tuple(row) for row in pool.codes[own].tolist()]
        expected_heads = {codes[row]: codes.index(codes[row]) for row in np.flatnonzero(shown)}
        assert heads[0, : counts[0]].tolist() == sorted(expected_heads.values())
        assert run_ids[0, : counts[0]].tolist() == [code[0] for code in sorted(expected_heads)]


def test_codes_in_files_are_searched_alike(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sizes = [3] + 8 * [4096]
    packed, _ = PackedCodes.build(rng.integers(0, sizes, (500, 9)), sizes, 1)
    for name, array in packed.arrays().items():
        np.save(tmp_path / name, array)
    mapped = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in packed.arrays()}
    opened = PackedCodes.from_arrays(mapped, sizes, 1, 500)
    decoder, vectors = TableDecoder(sizes, 0), np.arange(2, dtype=np.float32)[:, None]
    in_memory, in_files = (
        beam_search(decoder, [SegmentView(codes)], vectors, 7) for codes in (packed, opened)
    )
    np.testing.assert_array_equal(in_files.starts, in_memory.starts)
    np.testing.assert_array_equal(in_files.log_probs, in_memory.log_probs)


def test_arrays_of_another_length_or_type_are_refused() -> None:
    packed, _ = PackedCodes.build(np.array([[0, 1]]), [2, 2], 1)
    with pytest.raises(InputError, match="'allowed' needs one row for each of 1 items"):
        SegmentView(packed, np.ones(2, bool))
    with pytest.raises(InputError, match=r"'item_keys' needs .* and it is float64 \[1\]"):
        SegmentView(packed, item_keys=np.ones(1))
