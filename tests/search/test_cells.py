"""The best cells in one step, against beam search level by level."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.search import cells
from genius.search.beam import beam_search
from tests.search.pools import SegmentedPool, pools

FIELDS = ("bounds", "log_probs", "level_log_probs", "starts", "ends", "items", "depths")


@given(pools(), st.integers(1, 12), st.sampled_from([None, 0, 5, 100]))
def test_cells_in_one_step_are_those_of_beams(pool: SegmentedPool, beams: int, limit: int | None) -> None:
    segments, _ = pool.segments()
    results = []
    for most_cells in (cells.MOST_CELLS, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cells, "MOST_CELLS", most_cells)
            results.append(
                beam_search(
                    pool.decoder,
                    segments,
                    pool.vectors,
                    beams,
                    modality_code=pool.modality_code,
                    limit=limit,
                )
            )
    for name in FIELDS:
        first, second = (getattr(result, name) for result in results)
        np.testing.assert_array_equal(first, second, err_msg=name)


@given(pools())
def test_the_first_rows_of_cells_are_the_same_stored_or_not(pool: SegmentedPool) -> None:
    segments, items = pool.segments()
    for segment, own in zip(segments, items, strict=True):
        first_rows, size = segment.packed.first_rows_of_cells, pool.decoder.sizes[pool.semantic]
        codes = pool.codes[own]
        cell = codes[:, pool.semantic] + (codes[:, 0] * size if pool.semantic else 0)
        expected = np.searchsorted(cell, np.arange(segment.packed.layout.num_cells + 1))
        np.testing.assert_array_equal(first_rows, expected)
        shown = ~pool.hidden[own]
        counts = np.bincount(cell[shown], minlength=len(expected) - 1)
        np.testing.assert_array_equal(segment.cell_items, counts)
        assert segment.modality_items.sum() == shown.sum()
