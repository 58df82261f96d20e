from __future__ import annotations

import numpy as np
import pytest

from genius.doctor.ranks import best_ranks, hit_rate


def test_ranks_are_those_of_a_sort() -> None:
    random = np.random.default_rng(0)
    queries, items = random.normal(size=(30, 6)), random.normal(size=(80, 6))
    items[40:] = items[:40]  # equal scores
    positives = [random.choice(80, size=random.integers(1, 4), replace=False) for _ in queries]
    expected = []
    for query, known in zip(queries, positives, strict=True):
        order = sorted(range(80), key=lambda item: (-(query @ items[item % 40]), item))
        expected.append(min(order.index(item) for item in known))
    ranks = best_ranks(queries, items, positives)
    assert ranks.tolist() == expected
    assert hit_rate(ranks, 5) == pytest.approx(np.mean(np.array(expected) < 5))


def test_a_query_without_an_answer_finds_nothing() -> None:
    ranks = best_ranks(np.eye(2), np.eye(2), [np.array([0]), np.zeros(0, np.int64)])
    assert ranks.tolist() == [0, 2]
