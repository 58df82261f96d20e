"""Partitions: trees of joined cells against scipy, known groups found again, and little change."""

from __future__ import annotations

import numpy as np
import pytest

from genius.collection import kernels, partition
from genius.collection.partition import Partition
from genius.evaluate.agreement import adjusted_mutual_information
from tests.collection.world import clusters, members_of

cluster = pytest.importorskip("scipy.cluster.hierarchy")
quantization = pytest.importorskip("scipy.cluster.vq")


def test_joining_is_wards(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.random.default_rng(0).normal(size=(60, 5))
    merges, order = partition._tree(points, np.ones(60))
    theirs = cluster.linkage(points, "ward")
    for wanted in (2, 5, 12):
        ours = partition._cut(merges[order], 60, wanted)
        assert adjusted_mutual_information(
            ours, cluster.fcluster(theirs, wanted, "maxclust")
        ) == pytest.approx(1)


def test_weights_count_as_so_many_points() -> None:
    random = np.random.default_rng(1)
    points, weights = random.normal(size=(12, 4)), random.integers(1, 5, 12)
    merges, order = partition._tree(points, weights.astype(np.float64))
    theirs = cluster.linkage(np.repeat(points, weights, axis=0), "ward")
    ours = np.repeat(partition._cut(merges[order], 12, 4), weights)
    assert adjusted_mutual_information(ours, cluster.fcluster(theirs, 4, "maxclust")) == pytest.approx(1)


def made(vectors: np.ndarray, count: int, like: np.ndarray | None = None) -> tuple[np.ndarray, Partition]:
    """The group of each vector."""
    members = members_of(vectors)
    cells = members.cells(max(1, len(vectors) // 1000), first_level=1)
    earlier = None if like is None else like[members.item_keys]
    result = partition.partition(members.vectors(), cells, count, earlier)
    groups = np.empty(len(vectors), np.int64)
    groups[members.item_keys] = result.groups
    return groups, result


def test_known_groups_are_found_at_least_as_well_as_by_k_means() -> None:
    ours, theirs = [], []
    for seed in range(3):
        vectors, known = clusters(np.random.default_rng(seed), 1500, 10, 4, noise=0.9)
        groups, result = made(vectors, 10)
        sizes = np.bincount(groups)
        assert len(result.centres) == 10
        assert (np.diff(sizes) <= 0).all() and sizes.min() >= 1500 / 10 / 8 / 2, "even, the largest first"
        ours.append(adjusted_mutual_information(known, groups))
        theirs += [
            adjusted_mutual_information(
                known, quantization.kmeans2(vectors, 10, iter=30, minit="++", seed=draw)[1]
            )
            for draw in range(3)
        ]
    assert np.mean(ours) >= np.mean(theirs)


@pytest.mark.parametrize("seed", range(3))
def test_few_items_move_when_some_are_added(seed: int) -> None:
    vectors, _ = clusters(np.random.default_rng(seed), 1575, 10, 4, noise=0.9)
    before, _ = made(vectors[:1500], 10)
    after, _ = made(vectors, 10)
    assert moved(before, after[:1500]) <= 0.1
    like, _ = made(vectors, 10, np.append(before, np.full(75, -1)))
    assert moved(before, like[:1500]) <= 0.03


def moved(before: np.ndarray, after: np.ndarray) -> float:
    """The share of items that are not where most of their group went."""
    table = np.zeros((before.max() + 1, after.max() + 1))
    np.add.at(table, (before, after), 1)
    return float(1 - table.max(1).sum() / len(before))


def test_fewer_cells_than_groups_and_many_more(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, _ = clusters(np.random.default_rng(4), 300, 5, 2)
    groups, result = made(vectors[:7], 30)
    assert len(result.centres) == len(np.unique(groups)) <= 7
    monkeypatch.setattr(partition, "MAX_CELLS", 40)
    groups, result = made(vectors, 6)
    assert len(result.centres) == 6 and np.bincount(groups).sum() == 300


def test_links_are_found_again() -> None:
    parents = np.arange(6)
    assert kernels.link_all(np.array([[0, 1], [1, 0], [4, 5]]), parents).tolist() == [True, False, True]
    assert kernels.representatives(parents).tolist() == [0, 0, 2, 3, 4, 4]
