from __future__ import annotations

import numpy as np
import pytest

from genius.decode.geometry import Geometry
from genius.errors import InputError
from genius.search.beam import beam_search
from genius.search.codes import PackedCodes
from genius.search.geometric import MEMORY, QuickGeometry
from genius.search.segment_view import SegmentView

SIZES = [3, 40, 30, 20, 16]


def geometry() -> Geometry:
    rng = np.random.default_rng(0)
    return Geometry([rng.normal(size=(size, 12)) * 0.7**level for level, size in enumerate(SIZES)], 0.8)


@pytest.mark.parametrize("tables", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("known", [False, True])
def test_scores_equal_geometry_with_any_number_of_tables(tables: int, known: bool) -> None:
    plain = geometry()
    bytes_needed = [4 * sum(SIZES[:level]) * SIZES[level] for level in range(len(SIZES))]
    quick = QuickGeometry(plain, memory=sum(bytes_needed[:tables]) if tables else -1)
    assert quick.tabled == tables and list(quick.sizes) == SIZES
    quick.warm_up()
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(4, 12)).astype(np.float32)
    first = np.array([2, 0, 1, 1]) if known else None
    one, two = plain.begin(vectors, first), quick.begin(vectors, first)
    rows = np.arange(4)
    for level in range(int(known), len(SIZES)):
        expected = one.scores()
        got = two.scores()
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, expected, atol=2e-5)
        rows = rng.integers(0, len(expected), 9)  # some are kept several times, some not at all
        codes = rng.integers(0, SIZES[level], 9)
        one.advance(rows, codes)
        two.advance(rows, codes)


def test_finds_what_geometry_finds_alone_or_in_company() -> None:
    plain = geometry()
    rng = np.random.default_rng(2)
    packed, _ = PackedCodes.build(rng.integers(0, SIZES, (3000, 5)), SIZES, 1)
    vectors, first = rng.normal(size=(6, 12)).astype(np.float32), np.array([0, 1, 2, -1, -1, 0])
    for limit in (None, 0, 100, 1000):
        expected = beam_search(plain, [SegmentView(packed)], vectors, 15, modality_code=first, limit=limit)
        quick = QuickGeometry(plain, memory=10_000)
        assert 2 <= quick.tabled <= 4
        found = beam_search(quick, [SegmentView(packed)], vectors, 15, modality_code=first, limit=limit)
        np.testing.assert_array_equal(found.starts, expected.starts)
        np.testing.assert_allclose(found.log_probs, expected.log_probs, atol=1e-4)
        for query in range(6):
            one = slice(query, query + 1)
            alone = beam_search(
                quick, [SegmentView(packed)], vectors[one], 15, modality_code=first[one], limit=limit
            )
            mine = slice(found.bounds[query], found.bounds[query + 1])
            np.testing.assert_array_equal(alone.starts, found.starts[:, mine])
            np.testing.assert_array_equal(alone.log_probs, found.log_probs[mine])


def test_many_rows_round_as_one_does_at_any_place() -> None:
    """In whole codebooks of a usual size, whatever the processor's library does."""
    rng = np.random.default_rng(0)
    quick = QuickGeometry(Geometry([rng.normal(size=(size, 48)) for size in (3, 70, 512)], 0.7), memory=0)
    rows = rng.normal(size=(150, 48)).astype(np.float32)
    for level in range(3):
        together = quick.logits(level, rows)
        for number in (0, 1, 7, 8, 40, 63, 64, 100, 149):
            alone = quick.logits(level, rows[number : number + 1])
            np.testing.assert_array_equal(alone[0], together[number])


def test_tables_keep_to_their_memory() -> None:
    rng = np.random.default_rng(0)
    wide = QuickGeometry(Geometry([rng.normal(size=(size, 2)) for size in [3] + 8 * [4096]], 1.0))
    assert wide.tabled == 3 and MEMORY >= 4 * 4096 * (3 + 3 + 4096)
    narrow = QuickGeometry(Geometry([rng.normal(size=(size, 2)) for size in [3] + 8 * [1024]], 1.0))
    assert narrow.tabled == 9


def test_bad_input() -> None:
    quick = QuickGeometry(geometry())
    with pytest.raises(InputError, match="vectors of width 12"):
        quick.begin(np.zeros((1, 3)))
    with pytest.raises(InputError, match="a first code from 0 to 2"):
        quick.begin(np.zeros((1, 12)), np.array([3]))
