from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given, settings

from genius.search import kernels
from genius.search.beam import walk
from genius.search.codes import PackedCodes
from genius.search.segment_view import Part, Prefixes, expand
from tests.search.pools import Pool, pools
from tests.search.test_beam import Table

few = settings(deadline=None)


@few
@given(pools())
def test_all_children_of_all_prefixes_equal_brute_force(pool: Pool) -> None:
    parts, items = pool.parts()
    shown = [tuple(row) for row in pool.codes[pool.shown].tolist()]
    levels = pool.codes.shape[1]
    runs = np.array([part.run() for part in parts], np.int64)
    prefixes = Prefixes(
        np.zeros(1, np.int64),
        runs[:, :1],
        runs[:, 1:],
        np.zeros(1, np.float32),
        np.full((1, levels), np.nan, np.float32),
    )
    known: list[tuple[int, ...]] = [()]
    for level in range(levels):
        gains = np.zeros((len(prefixes), pool.table.sizes[level]), np.float32)
        prefixes, parents, codes = expand(parts, level, prefixes, gains, 1, len(pool.codes))
        known = [(*known[parent], int(code)) for parent, code in zip(parents, codes, strict=True)]
        assert known == sorted({row[: level + 1] for row in shown})
        for number, prefix in enumerate(known):
            below = [
                int(item)
                for part, mine in enumerate(items)
                for item in mine[prefixes.starts[part, number] : prefixes.ends[part, number]]
                if not pool.hidden[item]
            ]
            expected = [int(item) for item in pool.shown if tuple(pool.codes[item, : level + 1]) == prefix]
            assert sorted(below) == expected
            counted = [
                int(part.under(prefixes.starts[place, number], prefixes.ends[place, number]))
                for place, part in enumerate(parts)
            ]
            assert sum(counted) == len(expected)
        if not known:
            return


@few
@given(pools())
def test_first_runs_and_buckets_equal_brute_force(pool: Pool) -> None:
    parts, items = pool.parts()
    for part, mine in zip(parts, items, strict=True):
        shown = ~pool.hidden[mine]
        for code in range(-1, pool.table.sizes[0] + 1):
            start, end = part.first_run(code)
            expected = np.flatnonzero((pool.codes[mine, 0] == code) & shown)
            np.testing.assert_array_equal(np.flatnonzero(shown[start:end]) + start, expected)
        # A modality's code is not stored, so a run that is looked at has only one.
        runs = np.array([part.first_run(code) for code in range(pool.table.sizes[0])], np.int64)
        heads, owners = np.empty((2, 1, len(mine)), np.int64)
        bounds = np.array([0, len(runs)])
        found = kernels.buckets(*part.words, part.counts, runs[:, 0], runs[:, 1], bounds, heads, owners)
        codes = [tuple(row) for row in pool.codes[mine].tolist()]
        expected_heads = {codes[row]: codes.index(codes[row]) for row in np.flatnonzero(shown)}
        assert heads[0, : found[0]].tolist() == sorted(expected_heads.values())
        assert owners[0, : found[0]].tolist() == [code[0] for code in sorted(expected_heads)]


def test_codes_in_files_are_searched_alike(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sizes = [3] + 8 * [4096]
    packed, _ = PackedCodes.build(rng.integers(0, sizes, (500, 9)), sizes, 1)
    for name, array in packed.arrays().items():
        np.save(tmp_path / name, array)
    mapped = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in packed.arrays()}
    opened = PackedCodes.from_arrays(mapped, sizes, 1, 500)
    table, vectors = Table(sizes, 0), np.arange(2, dtype=np.float32)[:, None]
    one, two = (walk(table, [Part(some)], vectors, 7) for some in (packed, opened))
    np.testing.assert_array_equal(one.starts, two.starts)
    np.testing.assert_array_equal(one.scores, two.scores)
