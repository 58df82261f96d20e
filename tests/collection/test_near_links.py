"""Near pairs, against comparing all with all."""

from __future__ import annotations

import numpy as np
import pytest

from genius.collection import near_links
from genius.collection.members import Members
from genius.collection.near_links import groups_of, project, strongest
from tests.collection.world import WIDTH, clusters, members_of, unit


def brute_force(vectors: np.ndarray, floor: float) -> tuple[np.ndarray, np.ndarray]:
    cosines = vectors @ vectors.T
    first, other = np.nonzero(np.triu(cosines >= floor, 1))
    return np.stack([first, other], axis=1), cosines[first, other].astype(np.float32)


def with_copies(random: np.random.Generator, count: int) -> np.ndarray:
    """Clustered vectors of which a quarter are noisy copies of others, at all distances."""
    vectors, _ = clusters(random, count, 12, 4)
    noise = random.uniform(0.0, 0.12, (count // 4, 1)) * random.normal(size=(count // 4, WIDTH))
    return unit(np.concatenate([vectors, vectors[: count // 4] + noise]))


@pytest.mark.parametrize("cell", [32, 512])
def test_what_hangs_together_is_what_brute_force_finds(cell: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_links, "CELL", cell)
    monkeypatch.setattr(near_links, "AROUND", 8 * cell)
    monkeypatch.setattr(near_links, "PENDING", 500)
    members = members_of(with_copies(np.random.default_rng(0), 1600))
    vectors = members.vectors()
    links = near_links.near_links(members, 0.9)
    pairs, cosines = brute_force(vectors, 0.9)
    expected = strongest(pairs, cosines, len(vectors))
    np.testing.assert_allclose(
        np.einsum("ij,ij->i", vectors[links.pairs[:, 0]], vectors[links.pairs[:, 1]]),
        links.similarities,
        atol=1e-4,
    )
    assert len(expected) > 250
    cells = members.cells(cell, first_level=0)
    cell_of = np.searchsorted(cells, expected.pairs, side="right")
    assert (cell_of[:, 0] != cell_of[:, 1]).mean() > (0.05 if cell == 32 else 0.0), "some are in two cells"
    for least in (0.9, 0.95, 0.98):
        ours, theirs = (links.similarities >= least).sum(), (expected.similarities >= least - 1e-4).sum()
        assert ours >= 0.99 * theirs


def test_small_cells_are_merged_as_long_as_they_have_the_first_code_in_common() -> None:
    """Each item is compared with the means of all cells: these may not be as many as items are."""
    random = np.random.default_rng(7)
    codes = np.stack([np.repeat([0, 1, 2], [3000, 100, 2000]), random.integers(0, 2000, 5100)], axis=1)
    codes = codes[np.lexsort(codes.T[::-1])].astype(np.uint16)
    rows = np.ones((len(codes), WIDTH), np.int8)
    members = Members(np.arange(len(codes)), np.zeros(len(codes), np.uint8), codes, 0, rows)
    cells = near_links._cells(members)
    assert {0, 3000, 3100} <= set(cells.tolist()) and cells[-1] == len(codes)
    sizes = np.diff(cells)
    assert sizes.max() <= near_links.CELL and len(sizes) < 2 * len(codes) / near_links.CELL
    assert len(members.cells(near_links.CELL, first_level=0)) > 1000, "as prefixes alone they are many"


def test_many_equal_items_are_one_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_links, "CELL", 16)
    vectors = unit(np.random.default_rng(1).normal(size=(60, WIDTH)))
    members = members_of(np.concatenate([vectors, np.repeat(vectors[:1], 200, axis=0)]))
    groups = groups_of(near_links.near_links(members, 0.99).pairs, len(members))
    assert sorted(map(len, groups)) == [201]


def test_only_items_of_one_modality_are_near() -> None:
    vectors = np.repeat(unit(np.random.default_rng(2).normal(size=(20, WIDTH))), 2, axis=0)
    assert len(near_links.near_links(members_of(vectors), 0.9)) == 20
    assert not len(near_links.near_links(members_of(vectors, np.arange(40) % 2), 0.9))


def test_a_projection_never_understates_a_cosine() -> None:
    random = np.random.default_rng(3)
    members = members_of(unit(random.normal(size=(300, WIDTH)) * np.linspace(3, 0.1, WIDTH)))
    for widths in ((4,), (8, 16)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(near_links, "WIDTHS", widths)
            projected = project(members)
        assert projected.shape[1] in {width + 1 for width in widths}
        assert ((projected @ projected.T) - members.vectors() @ members.vectors().T).min() > -1e-4


def test_a_spanning_forest_joins_what_all_links_join() -> None:
    random = np.random.default_rng(4)
    pairs = random.integers(0, 50, (120, 2))
    similarities = random.random(120).astype(np.float32)
    forest = strongest(pairs, similarities, 50)
    assert (np.diff(forest.similarities) <= 0).all()
    for least in (0.0, 0.3, 0.6, 0.9):
        every = groups_of(pairs[similarities >= least], 50)
        ours = groups_of(forest.pairs[forest.similarities >= least], 50)
        assert [group.tolist() for group in every] == [group.tolist() for group in ours]
        assert sum(map(len, ours)) - len(ours) == (forest.similarities >= least).sum()
