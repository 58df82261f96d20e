"""M-BEIR's protocol: every task's queries against its local pool and against the union."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from genius.data.mbeir import UNION, Split, Tree
from genius.data.tasks import Task
from genius.errors import GeniusError, InputError
from genius.evaluate.metrics import METRICS, evaluate

PoolName = Literal["local", "union"]
DEPTH = 50
"""How many results of each query are kept: M-BEIR asks for 50 at most."""

Found = tuple[np.ndarray, np.ndarray]
"""Scores and item numbers [queries, depth], best first; -1 is no item."""
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

    def members(self, task: Task, pool: PoolName) -> np.ndarray:
        """The numbers of the items in a task's pool."""
        source = self.tree.pool(UNION if pool == "union" else task, self.split)
        return np.array([self.item_numbers[item.id] for item in source], np.int64)


def run_protocol(
    benchmark: Benchmark, systems: Mapping[str, Search], pools: Sequence[PoolName] = ("local", "union")
) -> Evaluation:
    """Search with every system in every pool, apart, and measure.

    Raises GeniusError if a system returns an item that is not in the pool: such a figure would mean nothing.
    """
    evaluation = Evaluation()
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
                results = _named(search(task, members), members, ids, query_ids, system)
                evaluation.runs.append(Run(system, pool, task, results))
                ranking = {query: [item for item, _ in found] for query, found in results.items()}
                values = evaluate(ranking, wanted, (*METRICS, *_extra(task)))
                for metric, value in values.items():
                    evaluation.measurements.append(
                        Measurement(system, pool, str(task), metric, value, len(query_ids))
                    )
    evaluation.measurements += _means(evaluation.measurements)
    return evaluation


def _extra(task: Task) -> tuple[str, ...]:
    """The deeper ranks that M-BEIR reports for some tasks."""
    return ("hit@20", "hit@50") if task.cutoff == 10 else ()


def _named(
    found: Found, members: np.ndarray, ids: list[str], query_ids: Sequence[str], system: str
) -> dict[str, list[tuple[str, float]]]:
    scores, numbers = found
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
