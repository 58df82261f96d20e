from __future__ import annotations

import numpy as np
import pytest

from genius.decode.geometry import Geometry
from genius.doctor.ranks import best_ranks, hit_rate, survival
from genius.quantize.quantizer import Quantizer
from tests.oracles.trie import Trie


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


@pytest.mark.parametrize("given", [True, False])
def test_survival_equals_a_direct_computation(given: bool) -> None:
    """Each level's beam is found by scoring every prefix that exists."""
    random = np.random.default_rng(1)
    books = [random.normal(size=(size, 5)).astype(np.float32) for size in (3, 6, 6)]
    geometry = Geometry(books, 1.0)
    modality = random.integers(3, size=60)
    codes = Quantizer(books).codes(random.normal(size=(60, 5)), modality)
    queries = random.normal(size=(25, 5)).astype(np.float32)
    positives = [random.choice(60, size=2, replace=False) for _ in queries]
    wanted = modality[[known[0] for known in positives]] if given else None
    measured = survival(geometry, Trie.build(codes), queries, positives, 4, wanted)
    survived = np.zeros((25, 3))
    for number, query in enumerate(queries):
        beam: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
        for level in range(3):
            following = []
            for prefix, score in beam:
                rest = query - sum((books[at][code] for at, code in enumerate(prefix)), np.zeros(5))
                logits = -np.square(rest - books[level]).sum(1)
                logits -= np.log(np.exp(logits).sum())
                below = [tuple(row[: level + 1]) for row in codes.tolist()]
                for longer in sorted({p for p in below if p[:level] == prefix}):
                    if level == 0 and wanted is not None:
                        if longer[0] == wanted[number]:
                            following.append((longer, 0.0))
                    else:
                        following.append((longer, score + float(logits[longer[-1]])))
            beam = sorted(following, key=lambda scored: -scored[1])[:4]
            alive = {prefix for prefix, _ in beam}
            answers = {tuple(codes[item, : level + 1].tolist()) for item in positives[number]}
            survived[number, level] = bool(alive & answers)
    assert measured == pytest.approx(survived.mean(axis=0))
