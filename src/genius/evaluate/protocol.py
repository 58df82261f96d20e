"""M-BEIR's protocol: every task's queries against its local pool and against the union."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from genius.data.mbeir import UNION, Split, Tree
from genius.data.tasks import Task
from genius.errors import GeniusError, InputError
from genius.evaluate.metrics import METRICS, by_query, mean

PoolName = Literal["local", "union", "split"]
"""A task's own pool; that of all tasks; or what of a task's pool belongs to the split, where a tree has such
a pool (as `flickr8k_task0_test`): captions and photos are usually measured in that."""
DEPTH = 50
"""How many results of each query are kept: M-BEIR asks for 50 at most."""


class Found(NamedTuple):
    """Scores and item numbers [queries, depth], best first; -1 is no item.

    `looked` is how many items were ranked for each query, where a search looks at some only.
    """

    scores: np.ndarray
    numbers: np.ndarray
    looked: np.ndarray | None = None


Search = Callable[[Task, np.ndarray], Found]
"""A system: the results for all queries of a task among the items with these numbers."""


@dataclass(frozen=True)
class Measurement:
    """One figure: of a system, in a pool, for a task (or the mean of tasks), by a metric."""

    system: str
    pool: str
    task: str
    metric: str
    value: float
    queries: int


@dataclass(frozen=True)
class Run:
    """What a system found for the queries of a task in a pool: item ids and scores, best first."""

    system: str
    pool: str
    task: Task
    results: Mapping[str, list[tuple[str, float]]]

    def lines(self) -> Iterator[str]:
        """The run in TREC's format: query, Q0, item, rank, score, system."""
        for query, found in self.results.items():
            for rank, (item, score) in enumerate(found, start=1):
                yield f"{query} Q0 {item} {rank} {score:.6f} {self.system}\n"


@dataclass
class Evaluation:
    """All figures of an evaluation, and the rankings that they were computed from."""

    measurements: list[Measurement] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    seen: Mapping[Task, Sequence[bool]] | None = None
    """Of each query, whether an item that answers it was an answer in training, if that is known."""

    def value(self, system: str, pool: str, task: str, metric: str) -> float:
        """One figure."""
        for one in self.measurements:
            if (one.system, one.pool, one.task, one.metric) == (system, pool, task, metric):
                return one.value
        raise InputError(f"there is no {metric} of {system} for {task} in the {pool} pool")


@dataclass(frozen=True)
class Benchmark:
    """The items and queries of one split of a tree, numbered as the systems see them."""

    tree: Tree
    split: Split
    item_numbers: Mapping[str, int]
    query_ids: Mapping[Task, Sequence[str]]
    seen: Mapping[Task, Sequence[bool]] | None = None
    """Of each query, whether an item that answers it was an answer in training."""

    def members(self, task: Task, pool: PoolName) -> np.ndarray:
        """The numbers of the items in a task's pool."""
        names = {"local": str(task), "union": UNION, "split": f"{task}_{self.split}"}
        source = self.tree.pool(names[pool], self.split)
        return np.array([self.item_numbers[item.id] for item in source], np.int64)


def run_protocol(
    benchmark: Benchmark, systems: Mapping[str, Search], pools: Sequence[PoolName] = ("local", "union")
) -> Evaluation:
    """Search with every system in every pool, apart, and measure.

    Raises GeniusError if a system returns an item that is not in the pool: such a figure would mean nothing.
    """
    evaluation = Evaluation(seen=benchmark.seen)
    ids = list(benchmark.item_numbers)
    unions: np.ndarray | None = None
    for task, query_ids in benchmark.query_ids.items():
        relevant = benchmark.tree.judgements(benchmark.split, task)
        wanted = {query: relevant.get(query, []) for query in query_ids}
        for pool in pools:
            if pool == "union" and unions is None:
                unions = benchmark.members(task, pool)
            members = unions if pool == "union" and unions is not None else benchmark.members(task, pool)
            for system, search in systems.items():
                found = search(task, members)
                results = _named(found, members, ids, query_ids, system)
                run = Run(system, pool, task, results)
                evaluation.runs.append(run)
                evaluation.measurements += _measure(run, wanted, benchmark.seen)
                if found.looked is not None:
                    mean = float(np.mean(found.looked))
                    evaluation.measurements.append(
                        Measurement(system, pool, str(task), "items", mean, len(query_ids))
                    )
    evaluation.measurements += _means(evaluation.measurements)
    return evaluation


def _measure(
    run: Run, wanted: Mapping[str, Sequence[str]], seen: Mapping[Task, Sequence[bool]] | None
) -> Iterator[Measurement]:
    """All metrics of a run, and the hit rate at the task's rank for seen and unseen answers apart."""
    task = run.task
    ranking = {query: [item for item, _ in found] for query, found in run.results.items()}
    values = by_query(ranking, wanted, (*METRICS, *_extra(task)))
    for metric, each in values.items():
        yield Measurement(run.system, run.pool, str(task), metric, mean(each), len(ranking))
    if seen is None:
        return
    metric = f"hit@{task.cutoff}"
    for name, kind in (("seen", True), ("unseen", False)):
        some = [query for query, known in zip(ranking, seen[task], strict=True) if known is kind]
        if some:
            value = mean({query: values[metric][query] for query in some if query in values[metric]})
            yield Measurement(run.system, run.pool, str(task), f"{metric}, {name}", value, len(some))


def _extra(task: Task) -> tuple[str, ...]:
    """The deeper ranks that M-BEIR reports for some tasks."""
    return ("hit@20", "hit@50") if task.cutoff == 10 else ()


def _named(
    found: Found, members: np.ndarray, ids: list[str], query_ids: Sequence[str], system: str
) -> dict[str, list[tuple[str, float]]]:
    scores, numbers, _ = found
    if not np.isin(numbers[numbers >= 0], members).all():
        raise GeniusError(
            f"{system} returned an item that is not in the pool: the index belongs to another pool"
        )
    return {
        query: [(ids[number], float(score)) for number, score in zip(row, values, strict=True) if number >= 0]
        for query, row, values in zip(query_ids, numbers, scores, strict=True)
    }


def _means(measurements: Sequence[Measurement]) -> list[Measurement]:
    """The plain mean over tasks of each metric, and `headline`: each task at its own rank."""
    groups: dict[tuple[str, str, str], list[Measurement]] = {}
    for one in measurements:
        groups.setdefault((one.system, one.pool, one.metric), []).append(one)
        dataset, _, number = one.task.rpartition("_task")
        if one.metric == f"hit@{Task(dataset, int(number)).cutoff}":
            groups.setdefault((one.system, one.pool, "headline"), []).append(one)
    tasks = max((len(group) for group in groups.values()), default=0)
    return [
        Measurement(
            system,
            pool,
            "mean",
            metric,
            float(np.mean([m.value for m in group])),
            sum(m.queries for m in group),
        )
        for (system, pool, metric), group in groups.items()
        if len(group) == tasks
    ]
