from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from genius.data.mbeir import Tree
from genius.data.tasks import Task
from genius.errors import GeniusError, InputError
from genius.evaluate.protocol import Benchmark, Evaluation, Measurement, Rankings, System, run_protocol


@pytest.fixture(scope="module")
def benchmark(miniature: Path) -> Benchmark:
    tree = Tree(miniature)
    numbers = {item.id: number for number, item in enumerate(tree.pool("union", "test"))}
    tasks = {task: [query.id for query in tree.queries("test", task)] for task in tree.tasks("test")}
    seen = {task: [place == 0 for place in range(len(ids))] for task, ids in tasks.items()}
    return Benchmark(tree, "test", numbers, tasks, seen)


def oracle(benchmark: Benchmark, misses: int = 0, *, scanned: bool | None = None) -> System:
    """A system that returns each query's answers, but none for the first `misses` queries of a task."""

    def search(task: Task, members: np.ndarray) -> Rankings:
        queries = list(benchmark.tree.queries("test", task))
        numbers = np.full((len(queries), 2), -1)
        for place, query in enumerate(queries):
            if place >= misses:
                number = benchmark.item_numbers[query.positives[0]]
                assert number in members
                numbers[place, 0] = number
        scores = np.where(numbers >= 0, 1.0, -np.inf)
        flags = None if scanned is None else np.full(len(queries), scanned)
        return Rankings(scores, numbers, np.full(len(queries), 7), flags)

    return search


def test_every_system_is_measured_in_every_pool(benchmark: Benchmark) -> None:
    systems = {"all": oracle(benchmark, scanned=True), "most": oracle(benchmark, misses=1)}
    evaluation = run_protocol(benchmark, systems)
    assert len(evaluation.runs) == 8 * 2 * 2
    for pool in ("local", "union"):
        assert evaluation.value("all", pool, "mean", "headline") == 1
        assert evaluation.value("most", pool, "mean", "headline") == 0.75
        assert evaluation.value("most", pool, "oven_task8", "hit@5") == 0.75
        assert evaluation.value("most", pool, "mean", "items") == 7
    assert evaluation.value("all", "union", "mean", "scanned") == 1
    with pytest.raises(InputError, match="there is no scanned of most for mean"):
        evaluation.value("most", "union", "mean", "scanned")


def test_seen_and_unseen_answers_are_measured_apart(benchmark: Benchmark) -> None:
    evaluation = run_protocol(benchmark, {"most": oracle(benchmark, misses=1)}, pools=("union",))
    rates = {
        (m.metric, m.value, m.queries)
        for m in evaluation.measurements
        if m.task == "oven_task8" and "," in m.metric
    }
    assert rates == {("hit@5, seen", 0.0, 1), ("hit@5, unseen", 1.0, 3)}


def test_a_run_is_written_as_trec_reads_it(benchmark: Benchmark) -> None:
    evaluation = run_protocol(benchmark, {"all": oracle(benchmark)}, pools=("local",))
    run = next(run for run in evaluation.runs if str(run.task) == "webqa_task1")
    assert next(run.lines()) == "2:2011 Q0 2:101 1 1.000000 all\n"


def test_an_item_that_is_not_in_the_pool_is_refused(benchmark: Benchmark) -> None:
    def wrong(task: Task, members: np.ndarray) -> Rankings:
        outside = np.setdiff1d(np.arange(len(benchmark.item_numbers)), members)[:1]
        return Rankings(np.ones((4, 1)), np.tile(outside, (4, 1)))

    with pytest.raises(GeniusError, match="wrong returned an item that is not in the pool"):
        run_protocol(benchmark, {"wrong": wrong}, pools=("local",))


def test_a_figure_is_found_by_its_key() -> None:
    evaluation = Evaluation([Measurement("dense", "union", "mean", "mrr", 0.5, 3)])
    assert evaluation.value("dense", "union", "mean", "mrr") == 0.5
    with pytest.raises(InputError, match="there is no mrr of dense for mean in the local pool"):
        evaluation.value("dense", "local", "mean", "mrr")
