from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from genius.bench.speed import PAPER_SIZES
from genius.bench.world import World, open_world, synthetic_codes
from genius.errors import InputError


def test_synthetic_codes_are_uneven_and_in_range() -> None:
    codes = synthetic_codes(20_000, PAPER_SIZES, np.random.default_rng(0))
    assert codes.shape == (20_000, len(PAPER_SIZES))
    assert (codes.max(axis=0) < PAPER_SIZES).all()
    cells = np.sort(np.unique(codes[:, :2], axis=0, return_counts=True)[1])
    assert cells[-1] > 20 * np.median(cells)
    assert len(np.unique(codes[:, :4], axis=0)) > 0.99 * len(codes)
    with pytest.raises(InputError, match="at least one item"):
        synthetic_codes(0, PAPER_SIZES, np.random.default_rng(0))


def test_a_world_opens_as_it_was_made(world: World, world_folder: Path) -> None:
    again, rows = open_world(world_folder, world.code_sizes), np.arange(len(world))[::3]
    np.testing.assert_array_equal(again.item_codes(rows), world.item_codes(rows))
    np.testing.assert_array_equal(again.item_embeddings(rows), world.item_embeddings(rows))
    np.testing.assert_array_equal(again.query_vectors, world.query_vectors)
    np.testing.assert_allclose(np.linalg.norm(world.item_embeddings(rows), axis=1), 1, atol=0.02)
    assert (np.diff(world.item_codes(np.arange(len(world)))[:, 0].astype(int)) >= 0).all()


def test_queries_are_near_items_of_the_modality_that_they_want(world: World) -> None:
    rows = np.arange(len(world))
    nearest = (world.query_embeddings @ world.item_embeddings(rows).T).argmax(axis=1)
    np.testing.assert_array_equal(world.item_codes(nearest)[:, 0], world.query_modality_codes)
