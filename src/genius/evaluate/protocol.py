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
from genius.progress import bar

PoolName = Literal["local", "union", "split", "unseen"]
"""A task's own pool; that of all tasks; what of a task's pool belongs to the split, where a tree has such a
pool (as `flickr8k_task0_test`): captions and photos are usually measured in that; or the items of that, and
otherwise of the task's own pool, that answer no training query, for the queries that these answer."""
DEPTH = 50
"""How many results of each query are kept: M-BEIR asks for 50 at most."""


class Rankings(NamedTuple):
    """What a system returns for the queries of a task.

    Attributes:
        scores: [queries, depth], best first.
        numbers: of items [queries, depth]; -1 is no item.
        num_candidates: how many items were ranked for each query, where a search ranks some only.
        scanned: whether each query was answered by a scan of the pool, where the engine searched.
    """

    scores: np.ndarray
    numbers: np.ndarray
    num_candidates: np.ndarray | None = None
    scanned: np.ndarray | None = None

    def first(self, depth: int) -> Rankings:
        """Those up to a rank."""
        return self._replace(scores=self.scores[:, :depth], numbers=self.numbers[:, :depth])

    def of(self, queries: np.ndarray) -> Rankings:
        """Those of some of the queries, by their places [n]."""
        counts, scanned = (None if rows is None else rows[queries] for rows in self[2:])
        return Rankings(self.scores[queries], self.numbers[queries], counts, scanned)


System = Callable[[Task, np.ndarray], Rankings]
"""Results for all queries of a task among the items with these numbers."""


@dataclass(frozen=True)
class Measurement:
    """One figure: of a system, in a pool, for a task (or the mean of tasks), by a metric."""

    system: str
    pool: str
    task: str
    metric: str
    value: float
    queries: int

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What is measured: system, pool, task and metric."""
        return self.system, self.pool, self.task, self.metric


@dataclass(frozen=True)
class Run:
    """What a system found for the queries of a task in a pool: item ids and scores, best first."""

    system: str
    pool: str
    task: Task
    results: Mapping[str, list[tuple[str, float]]]

    def lines(self) -> Iterator[str]:
        """The run in TREC's format: query, Q0, item, rank, score, system."""
        for query, results in self.results.items():
            for rank, (item, score) in enumerate(results, start=1):
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
        for measurement in self.measurements:
            if measurement.key == (system, pool, task, metric):
                return measurement.value
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
    trained: np.ndarray | None = None
    """Of each item, whether it answers a training query of the tree, bool [items]: for the pool `unseen`."""

    def members(self, task: Task, pool: PoolName) -> np.ndarray:
        """The numbers of the items in a task's pool.

        Raises InputError for the pool `unseen` where it is not known what training saw.
        """
        by_split = f"{task}_{self.split}"
        names = {"local": str(task), "union": UNION, "split": by_split}
        names["unseen"] = by_split if by_split in self.tree.pools else str(task)
        source = self.tree.pool(names[pool], self.split)
        numbers = np.array([self.item_numbers[item.id] for item in source], np.int64)
        if pool != "unseen":
            return numbers
        if self.trained is None:
            raise InputError(
                "has no training queries, so that no item is known as unseen: evaluate in its local pools "
                "(--pool local)",
                path=self.tree.path,
            )
        return np.asarray(numbers[~self.trained[numbers]])


def run_protocol(
    benchmark: Benchmark,
    systems: Mapping[str, System],
    pools: Sequence[PoolName] = ("local", "union"),
    depth: int = DEPTH,
) -> Evaluation:
    """Search with every system in every pool, apart, and measure the first `depth` results.

    Raises GeniusError if a system returns an item that is not in the pool: such a figure would mean nothing.
    A task that the pool `unseen` has no answers for has no figures there.
    """
    evaluation = Evaluation(seen=benchmark.seen)
    searches = len(benchmark.query_ids) * len(pools) * len(systems)
    union: np.ndarray | None = None
    with bar("searching", total=searches, unit="runs") as shown:
        for task in benchmark.query_ids:
            relevant = benchmark.tree.judgements(benchmark.split, task)
            for pool in pools:
                if pool == "union" and union is None:
                    union = benchmark.members(task, pool)
                members = union if pool == "union" and union is not None else benchmark.members(task, pool)
                for _ in _run_systems(benchmark, systems, task, pool, members, relevant, depth, evaluation):
                    shown.advance()
    evaluation.measurements += _means(evaluation.measurements)
    return evaluation


def _run_systems(
    benchmark: Benchmark,
    systems: Mapping[str, System],
    task: Task,
    pool: PoolName,
    members: np.ndarray,
    relevant: Mapping[str, Sequence[str]],
    depth: int,
    evaluation: Evaluation,
) -> Iterator[Run]:
    """Search one pool for the answers of one task with every system; figures are added to the evaluation."""
    ids = list(benchmark.item_numbers)
    wanted, kept = _answers(benchmark, task, pool, members, relevant)
    if not len(kept):  # a pool of unseen items may answer none
        return
    for name, system in systems.items():
        rankings = system(task, members).first(depth).of(kept)
        run = Run(name, pool, task, _named(rankings, members, ids, list(wanted), name))
        evaluation.runs.append(run)
        evaluation.measurements += _measure(run, wanted, _chosen(benchmark.seen, task, kept), depth)
        for metric, values in (("items", rankings.num_candidates), ("scanned", rankings.scanned)):
            if values is not None:
                value = float(np.mean(values))
                evaluation.measurements.append(Measurement(name, pool, str(task), metric, value, len(kept)))
        yield run


def _answers(
    benchmark: Benchmark,
    task: Task,
    pool: PoolName,
    members: np.ndarray,
    relevant: Mapping[str, Sequence[str]],
) -> tuple[dict[str, Sequence[str]], np.ndarray]:
    """The answers of a task's queries by id, and the places of these queries among all of the task.

    In the pool `unseen`, only answers that it holds count, and only queries that have one.
    """
    query_ids = benchmark.query_ids[task]
    wanted: dict[str, Sequence[str]] = {query: relevant.get(query, []) for query in query_ids}
    if pool != "unseen":
        return wanted, np.arange(len(query_ids))
    inside = set(members.tolist())
    held = {
        query: [item for item in items if benchmark.item_numbers.get(item, -1) in inside]
        for query, items in wanted.items()
    }
    kept = np.array([place for place, query in enumerate(query_ids) if held[query]], np.int64)
    return {query_ids[place]: held[query_ids[place]] for place in kept.tolist()}, kept


def _chosen(
    seen: Mapping[Task, Sequence[bool]] | None, task: Task, kept: np.ndarray
) -> Sequence[bool] | None:
    return None if seen is None else [seen[task][place] for place in kept.tolist()]


def _measure(
    run: Run, wanted: Mapping[str, Sequence[str]], seen: Sequence[bool] | None, depth: int
) -> Iterator[Measurement]:
    """All metrics of a run, and the hit rate at the task's rank for seen and unseen answers apart."""
    task = run.task
    ranking = {query: [item for item, _ in results] for query, results in run.results.items()}
    values = by_query(ranking, wanted, (*METRICS, *_extra(task, depth)))
    for metric, each in values.items():
        yield Measurement(run.system, run.pool, str(task), metric, mean(each), len(ranking))
    if seen is None:
        return
    metric = f"hit@{task.cutoff}"
    for name, kind in (("seen", True), ("unseen", False)):
        queries = [query for query, is_seen in zip(ranking, seen, strict=True) if is_seen is kind]
        if queries:
            value = mean({query: values[metric][query] for query in queries if query in values[metric]})
            yield Measurement(run.system, run.pool, str(task), f"{metric}, {name}", value, len(queries))


def _extra(task: Task, depth: int) -> list[str]:
    """The deeper ranks that M-BEIR reports for some tasks, as far as they are searched."""
    return [f"hit@{rank}" for rank in (20, 50) if task.cutoff == 10 and rank <= depth]


def _named(
    rankings: Rankings, members: np.ndarray, ids: list[str], query_ids: Sequence[str], system: str
) -> dict[str, list[tuple[str, float]]]:
    scores, numbers = rankings.scores, rankings.numbers
    if not np.isin(numbers[numbers >= 0], members).all():
        raise GeniusError(
            f"{system} returned an item that is not in the pool: the index belongs to another pool"
        )
    return {
        query: [(ids[number], float(score)) for number, score in zip(row, values, strict=True) if number >= 0]
        for query, row, values in zip(query_ids, numbers, scores, strict=True)
    }


def _means(measurements: Sequence[Measurement]) -> list[Measurement]:
    """The plain mean over the tasks of a pool of each metric, and `headline`: each task at its own rank."""
    groups: dict[tuple[str, str, str], list[Measurement]] = {}
    tasks: dict[str, set[str]] = {}
    for measurement in measurements:
        system, pool, task, metric = measurement.key
        tasks.setdefault(pool, set()).add(task)
        groups.setdefault((system, pool, metric), []).append(measurement)
        if metric == f"hit@{Task.parse(task).cutoff}":
            groups.setdefault((system, pool, "headline"), []).append(measurement)
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
        if len(group) == len(tasks[pool])
    ]
