"""Samples: the same for the same seed, of the size that was asked for, and what their names promise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from genius.collection.samples import KINDS, SampleKind, per_cell_rows, spread_rows, typical_rows
from genius.data.records import Item
from genius.errors import InputError
from tests.collection.world import WIDTH, clusters, members_of, open_world


def closeness(vectors: np.ndarray) -> float:
    """The mean cosine of each with the one nearest to it."""
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -1)
    return float(cosines.max(1).mean())


def test_what_the_kinds_promise() -> None:
    random = np.random.default_rng(0)
    vectors, groups = clusters(random, 2000, 6, 3)
    members = members_of(vectors)
    drawn = random.choice(2000, 60, replace=False)
    spread, typical, per_cell = (
        take(members, 60, np.random.default_rng(1)) for take in (spread_rows, typical_rows, per_cell_rows)
    )
    everything = members.vectors()
    assert closeness(everything[spread]) < closeness(everything[drawn])
    # Half of a spread-out sample is what a smaller sample would be.
    assert spread_rows(members, 30, np.random.default_rng(1)).tolist() == spread[:30].tolist()
    shares = np.bincount(groups[members.item_keys[typical]], minlength=6) / len(typical)
    np.testing.assert_allclose(shares, np.bincount(groups, minlength=6) / 2000, atol=0.08)
    nearest = everything @ everything.T
    assert np.sort(nearest[typical], 1)[:, -20].mean() > np.sort(nearest[drawn], 1)[:, -20].mean()
    cells = {tuple(code) for code in members.codes[:, :2].tolist()}
    counts = np.unique(members.codes[per_cell, 1], return_counts=True)[1]
    assert len(counts) == min(60, len(cells))


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_of_an_index(tmp_path: Path, kind: SampleKind) -> None:
    vectors, _ = clusters(np.random.default_rng(2), 100, 4, 2)
    items = [Item(str(n), f"text {n}") for n in range(100)]
    with open_world(tmp_path / "index", items, {str(n): row for n, row in enumerate(vectors)}) as index:
        chosen = [item.id for item in index.sample(20, kind, seed=5)]
        assert len(set(chosen)) == len(chosen) == 20
        assert chosen == [item.id for item in index.sample(20, kind, seed=5)]
        assert chosen != [item.id for item in index.sample(20, kind, seed=6)]
        assert sorted(item.id for item in index.sample(500, kind)) == sorted(item.id for item in items)


def test_bad_input(tmp_path: Path) -> None:
    with open_world(tmp_path / "index", [], {"one": np.ones(WIDTH)}) as index:
        assert index.sample(5) == []
        index.add([Item("one", "a text")])
        assert [item.id for item in index.sample(5)] == ["one"]
        with pytest.raises(InputError, match="n must be"):
            index.sample(0)
        with pytest.raises(InputError, match="unknown kind of sample 'best'"):
            index.sample(5, "best")  # type: ignore[arg-type]
        with pytest.raises(InputError, match="a seed is"):
            index.sample(5, seed=-1)
