"""Adjusted mutual information, against its definition and known values."""

from __future__ import annotations

import numpy as np
import pytest

from genius.evaluate.agreement import _expected_information, adjusted_mutual_information


def information(groups: np.ndarray, other: np.ndarray) -> float:
    """Mutual information by its definition."""
    total = 0.0
    for a in np.unique(groups):
        for b in np.unique(other):
            both = float(((groups == a) & (other == b)).mean())
            if both:
                total += both * np.log(both / ((groups == a).mean() * (other == b).mean()))
    return total


def test_equal_partitions_agree_whatever_their_names() -> None:
    groups = np.array([0, 0, 1, 1, 2, 2, 2])
    assert adjusted_mutual_information(groups, 7 - groups) == pytest.approx(1)
    assert adjusted_mutual_information(np.zeros(5), np.zeros(5)) == 1


def test_unrelated_partitions_do_not() -> None:
    random = np.random.default_rng(0)
    scores = [
        adjusted_mutual_information(random.integers(0, 5, 60), random.integers(0, 7, 60)) for _ in range(200)
    ]
    assert abs(np.mean(scores)) < 0.01


def test_what_chance_shares_is_the_mean_over_all_orders() -> None:
    random = np.random.default_rng(1)
    groups, other = np.repeat([0, 1, 2], (5, 3, 2)), np.repeat([0, 1], (6, 4))
    drawn = np.mean([information(random.permutation(groups), other) for _ in range(4000)])
    assert _expected_information(np.array([5, 3, 2]), np.array([6, 4])) == pytest.approx(drawn, rel=0.03)


def test_a_value_worked_out_by_others() -> None:
    # As sklearn.metrics.adjusted_mutual_info_score([0, 0, 1, 1], [0, 0, 1, 2]) documents its kin.
    groups, other = np.array([0, 0, 1, 1]), np.array([0, 0, 1, 2])
    assert adjusted_mutual_information(groups, other) == pytest.approx(4 / 7, abs=1e-9)
