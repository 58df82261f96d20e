"""Queries with their positives: one is drawn, the others are masked, and hits are counted."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")
import torch

from genius.errors import InputError
from genius.train.pairs import (
    draw_positives,
    held_out_items,
    hit_rate,
    hit_rate_by_scores,
    mask_other_positives,
    without_held_out,
)
from tests.train import small_quantizer


@dataclass(frozen=True)
class Queries:
    answers: list[list[int]]

    @property
    def starts(self) -> np.ndarray:
        return np.cumsum([0, *map(len, self.answers)])

    @property
    def items(self) -> np.ndarray:
        return np.concatenate([np.array(answer, np.int64) for answer in self.answers])

    def positives(self, query: int) -> np.ndarray:
        return np.array(self.answers[query], np.int64)


queries = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=4, unique=True), min_size=1, max_size=8)


def test_every_positive_is_drawn_equally_often() -> None:
    known = Queries([[4, 7, 9], [2], [1, 3]])
    drawn = draw_positives(known, np.repeat([0, 1, 2], 3000), np.random.default_rng(0)).reshape(3, 3000)
    for answer, row in zip(known.answers, drawn, strict=True):
        items, counts = np.unique(row, return_counts=True)
        assert items.tolist() == answer
        np.testing.assert_allclose(counts / 3000, 1 / len(answer), atol=0.03)


@given(queries, st.sets(st.integers(0, 12)), st.randoms(use_true_random=False))
def test_other_positives_are_masked_and_nothing_else(
    answers: list[list[int]], others: set[int], random: Random
) -> None:
    known, chosen = Queries(answers), [random.choice(answer) for answer in answers]
    candidates = np.array(sorted({*chosen, *others}))
    targets = torch.from_numpy(np.searchsorted(candidates, chosen))
    mask = mask_other_positives(known, np.arange(len(answers)), candidates, targets)
    for row, answer in enumerate(answers):
        assert set(candidates[mask[row].numpy()].tolist()) == (set(answer) & set(candidates)) - {chosen[row]}


def test_a_hit_is_any_positive_among_the_results() -> None:
    known = Queries([[4, 7], [2], [1, 3]])
    results = np.array([[0, 7], [5, 6], [3, 1]])
    assert hit_rate(known, np.array([0, 1, 2]), results) == pytest.approx(2 / 3)
    assert hit_rate(known, np.array([1, 0]), np.array([[2], [2]])) == pytest.approx(1 / 2)


def test_hits_by_scores_are_those_of_sorting() -> None:
    known = Queries([[4, 7], [2], [1, 3]])
    random = np.random.default_rng(0)
    items, rows = np.array([0, 1, 3, 4, 6]), np.array([0, 2, 1])
    for k in (1, 2, 5):
        scores = random.normal(size=(3, len(items)))
        best = items[np.argsort(-scores, axis=1)[:, :k]]
        assert hit_rate_by_scores(known, rows, scores, items, k) == pytest.approx(hit_rate(known, rows, best))


def test_queries_of_held_out_answers_are_left_out() -> None:
    corpus = small_quantizer.world(1)
    tasks, ids = list(corpus.tasks.values()), [f"item {number}" for number in range(len(corpus.pool.ids))]
    held_out = set(np.flatnonzero(held_out_items(ids, 0.2)).tolist())
    kept = without_held_out(tasks, ids, 0.2)
    for task, rest in zip(tasks, kept, strict=True):
        expected = {
            task.ids[row]: task.positives(row).tolist()
            for row in range(len(task))
            if not held_out & set(task.positives(row).tolist())
        }
        assert {id: rest.positives(row).tolist() for row, id in enumerate(rest.ids)} == expected
        assert 0 < len(rest) < len(task)
        assert len(rest.contents.image) == len(rest.own_texts) == len(rest.negatives) == len(rest)
    assert without_held_out(tasks, ids, 0.0) == tasks
    with pytest.raises(InputError, match=r"held_out = 0.9999 leaves no training query"):
        without_held_out(tasks, ids, 0.9999)


def test_what_is_held_out_depends_on_ids_alone() -> None:
    ids = [str(number) for number in range(20_000)]
    held_out = held_out_items(ids, 0.2)
    assert held_out.mean() == pytest.approx(0.2, abs=0.01)
    np.testing.assert_array_equal(held_out_items(ids[::-1], 0.2)[::-1], held_out)
    assert not (held_out & ~held_out_items(ids, 0.3)).any(), "more is held out, none of it put back"
