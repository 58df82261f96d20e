from __future__ import annotations

import dataclasses
import functools
import json
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
                numbers[place, 0] = number if number in members else -1
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


def _trained(tree: Tree, numbers: dict[str, int]) -> np.ndarray:
    answers = {answer for query in tree.queries("train") for answer in query.positives}
    return np.array([id in answers for id in numbers])


@pytest.mark.parametrize("own_pools", [False, True])
def test_a_pool_of_unseen_items(own_miniature: Path, own_pools: bool) -> None:
    """Against brute force: the items of the pool file that no training file names, and their queries."""
    local = own_miniature / "cand_pool" / "local"
    by_split = local / "mbeir_oven_task8_test_cand_pool.jsonl"
    pool_file = local / "mbeir_oven_task8_cand_pool.jsonl"
    if own_pools:
        by_split.write_text("".join(pool_file.read_text().splitlines(keepends=True)[3:9]))
        pool_file = by_split
    # The training queries are answered by items 201 to 204; some test queries get others.
    judged = own_miniature / "qrels/test/mbeir_oven_task8_test_qrels.txt"
    judged.write_text(
        "5:2081 0 5:206 1 8\n5:2082 0 5:202 1 8\n5:2083 0 5:203 1 8\n5:2083 0 5:207 1 8\n5:2084 0 5:204 1 8\n"
    )
    tree, task = Tree(own_miniature), Task("oven", 8)
    numbers = {item.id: number for number, item in enumerate(tree.pool("union", "test"))}
    ids = [query.id for query in tree.queries("test", task)]
    benchmark = Benchmark(
        tree, "test", numbers, {task: ids}, {task: [False, True, True, True]}, _trained(tree, numbers)
    )
    listed = [json.loads(line)["did"] for line in pool_file.read_text().splitlines()]
    named = "".join(file.read_text() for file in (own_miniature / "query/train").iterdir())
    unseen = [numbers[did] for did in listed if f'"{did}"' not in named]
    assert 0 < len(unseen) < len(listed)
    searched = []

    def system(task: Task, members: np.ndarray) -> Rankings:
        searched.append(members.tolist())
        best = [numbers["5:205"], numbers["5:208"], numbers["5:207"], numbers["5:206"]]  # one right answer
        return Rankings(np.ones((4, 1)), np.array(best)[:, None], np.arange(4), np.arange(4) > 2)

    evaluation = run_protocol(benchmark, {"x": system}, pools=("unseen",))
    assert searched == [unseen]
    (run,) = evaluation.runs
    assert list(run.results) == ["5:2081", "5:2083"], "of the others all answers were seen in training"
    assert run.results["5:2083"] == [("5:207", 1.0)]
    value = functools.partial(evaluation.value, "x", "unseen")
    assert value("mean", "hit@5") == value(str(task), "hit@1") == 0.5
    assert value(str(task), "recall@5") == 0.5, "an answer that is not in the pool does not count"
    assert value(str(task), "items") == 1.0
    assert value(str(task), "hit@5, seen") == 1 and value(str(task), "hit@5, unseen") == 0
    with pytest.raises(InputError, match="has no training queries, so that no item is known as unseen"):
        run_protocol(dataclasses.replace(benchmark, trained=None), {"x": system}, pools=("unseen",))


def test_tasks_without_unseen_answers_are_left_out(benchmark: Benchmark) -> None:
    """In the miniature test and training queries have the same answers, but for what is marked here."""
    numbers = dict(benchmark.item_numbers)
    trained = _trained(benchmark.tree, numbers)
    trained[numbers["5:201"]] = False  # the answer to the first queries of the tasks with pairs as targets
    changed = dataclasses.replace(benchmark, trained=trained)
    evaluation = run_protocol(changed, {"all": oracle(benchmark)}, pools=("unseen", "local"))
    unseen = {run.task: list(run.results) for run in evaluation.runs if run.pool == "unseen"}
    assert unseen == {Task("oven", 8): ["5:2081"]}
    assert evaluation.value("all", "unseen", "mean", "headline") == 1
    assert evaluation.value("all", "local", "mean", "headline") == 1
    (mean,) = [m for m in evaluation.measurements if m.key == ("all", "unseen", "mean", "hit@5")]
    assert mean.queries == 1
    trained[numbers["5:201"]] = True
    nothing = run_protocol(changed, {"all": oracle(benchmark)}, pools=("unseen",))
    assert not nothing.runs and not nothing.measurements


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
