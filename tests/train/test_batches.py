"""Which task and which rows a step sees."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from genius.errors import InputError
from genius.train.batches import ROUND, TaskSchedule, TrainingQueries, shuffled_rows
from tests.train import small_quantizer


@pytest.mark.parametrize(("power", "shares"), [(1.0, (0.1, 0.9)), (0.5, (0.25, 0.75)), (0.0, (0.5, 0.5))])
def test_a_task_s_turns_go_by_its_size_to_a_power(power: float, shares: tuple[float, float]) -> None:
    turns = 20 * ROUND
    schedule = TaskSchedule([100, 900], turns, power=power, seed=0)
    seen = [0, 0]
    for turn in range(turns):
        task, earlier_turns = schedule[turn]
        assert earlier_turns == seen[task]
        seen[task] += 1
        if (turn + 1) % (2 * ROUND) == 0:  # evenly spread, not only in the end
            assert seen[0] / (turn + 1) == pytest.approx(shares[0], abs=0.03)


def test_a_schedule_is_a_function_of_its_seed() -> None:
    schedules = [TaskSchedule([5, 5, 5], 50, power=1.0, seed=seed) for seed in (0, 0, 1)]
    first, same, other = ([schedule[turn] for turn in range(50)] for schedule in schedules)
    assert first == same != other


def test_rows_are_fresh_permutations_one_after_the_other() -> None:
    rows = np.concatenate([shuffled_rows(10, start, 7, seed=(3,)) for start in range(0, 70, 7)])
    epochs = rows.reshape(7, 10)
    assert (np.sort(epochs, axis=1) == np.arange(10)).all()
    assert len({epoch.tobytes() for epoch in epochs}) == 7
    assert np.array_equal(shuffled_rows(10, 0, 70, seed=(3,)), rows)
    assert not np.array_equal(shuffled_rows(10, 0, 70, seed=(4,)), rows)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_the_queries_of_all_tasks_keep_their_positives(power: float) -> None:
    embedded = small_quantizer.world(1, positives=3)
    queries, start = TrainingQueries.concatenate(embedded, power), 0
    for name, task in embedded.tasks.items():
        rows = np.arange(start, start + len(task))
        for row in range(len(task)):
            assert queries.positives(start + row).tolist() == task.positives(row).tolist()
        assert (queries.want[rows] == task.want).all()
        np.testing.assert_array_equal(queries.inputs[rows]["image"], embedded.queries[name][:]["image"])
        start += len(task)
    assert len(queries.probabilities) == start
    assert queries.probabilities.sum() == pytest.approx(1)


def test_a_task_is_drawn_by_its_size_to_a_power() -> None:
    embedded = small_quantizer.world(1)
    large, small = embedded.tasks
    rows, count = np.arange(10), small_quantizer.QUERIES
    task = embedded.tasks[small]
    fewer = type(task)(
        small, task.ids[:10], task.contents[rows], task.starts[:11], task.items[:10], [], task.prompts, rows
    )
    unequal = type(embedded)(
        embedded.pool,
        embedded.items,
        {large: embedded.tasks[large], small: fewer},
        {large: embedded.queries[large], small: small_quantizer.fusion_inputs(np.ones((10, 24)))},
    )
    for power in (0.0, 0.5, 1.0):
        drawn = TrainingQueries.concatenate(unequal, power).probabilities
        expected = count**power / (count**power + 10**power)
        assert drawn[:count].sum() == pytest.approx(expected)
        assert np.ptp(drawn[:count]) == np.ptp(drawn[count:]) == 0


def test_queries_are_drawn_as_often_as_the_mix_has_them() -> None:
    world = small_quantizer.world(1)
    evenly = TrainingQueries.concatenate(world, 1.0)
    np.testing.assert_allclose(evenly.probabilities, 1 / len(evenly.probabilities))
    repetitions = {"0": 3, "1": 1}  # both tasks have queries of these ids, and many more
    mixed = TrainingQueries.concatenate(world, 1.0, repetitions).probabilities
    task = mixed[: small_quantizer.QUERIES]
    assert task[:2].tolist() == pytest.approx([3 / 8, 1 / 8]) and not task[2:].any()
    with pytest.raises(InputError, match=r"M-BEIR's mix .* has none of the training queries"):
        TrainingQueries.concatenate(world, 1.0, {"elsewhere": 1})
