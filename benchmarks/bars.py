"""The bars of generative search, which `quality.py` judges by; no script of its own.

All of them are about hit rate @5 in the union pool, with 50 beams and the wanted modality known. A bar for
tasks that a tree does not have is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from genius.data.mbeir import Split, Tree
from genius.data.tasks import Task
from genius.display import Table
from genius.evaluate.protocol import Evaluation

POOL, METRIC = "union", "hit@5"
INFERRED = ", wanted inferred"
"""Behind the name of a system whose beams are not told the wanted modality."""
UNSEEN = "default beside geometry, unseen"
"""The system of paired differences, with the ends of their 95 % interval."""
LEAST_PLAIN = 38.0
LEAST_PLAIN_SHARE = 0.98
LEAST_OF_GEOMETRY = 0.95
# row: least share of fair dense search, most items under the beams on average
RERANKED = {"fast+rerank": (1.0, 5000), "geometry+rerank": (0.98, 250)}
MEMORISED = ("grocery_task6", "grocery_task8")
"""Tasks with many targets that training showed: there a learned decoder has to earn its place."""
LEAST_SEEN = 85.0

Verdict = tuple[str, bool]


@dataclass(frozen=True)
class Difference:
    """The mean of paired differences of hit rates in percent, and the ends of its 95 % interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, first: np.ndarray, second: np.ndarray) -> Difference:
        """Of hits [queries] of two systems for the same queries, by the normal approximation."""
        apart = 100 * (first.astype(float) - second.astype(float))
        mean = float(apart.mean())
        reach = 1.96 * float(apart.std(ddof=1)) / len(apart) ** 0.5 if len(apart) > 1 else float("inf")
        return cls(mean, mean - reach, mean + reach)


def judge_search(evaluation: Evaluation, tree: Tree, split: Split) -> list[Verdict]:
    """A sentence for each bar, and whether it holds."""
    verdicts = _judge_means(evaluation) + _judge_datasets(evaluation)
    for task, known in memorised(evaluation).items():
        verdicts += _judge_memory(evaluation, task, known, tree.judgements(split, task))
    return verdicts


def memorised(evaluation: Evaluation) -> dict[Task, np.ndarray]:
    """Of the tasks where a learned decoder has to earn its place: which queries ask for a seen target."""
    return {
        task: np.array(known) for task, known in (evaluation.seen or {}).items() if str(task) in MEMORISED
    }


def beside_geometry(
    evaluation: Evaluation, task: Task, chosen: np.ndarray, relevant: Mapping[str, list[str]]
) -> Difference:
    """How much more often the default finds an answer than geometry does, for some queries of a task."""
    default, geometry = (hits(evaluation, name, task, relevant)[chosen] for name in ("default", "geometry"))
    return Difference.of(default, geometry)


def _judge_means(evaluation: Evaluation) -> list[Verdict]:
    dense_baseline, plain = (
        100 * evaluation.value(name, POOL, "mean", METRIC) for name in ("dense-fair", "default")
    )
    verdicts = [
        (
            f"plain, share of fair dense: {plain / dense_baseline:.3f} >= {LEAST_PLAIN_SHARE}",
            plain >= LEAST_PLAIN_SHARE * dense_baseline,
        ),
        (f"plain: {plain:.2f} >= {LEAST_PLAIN}", plain >= LEAST_PLAIN),
    ]
    for name, (share, most) in RERANKED.items():
        value = 100 * evaluation.value(name, POOL, "mean", METRIC)
        items = evaluation.value(name, POOL, "mean", "items")
        verdicts += [
            (
                f"{name}, share of fair dense: {value / dense_baseline:.3f} >= {share}",
                value >= share * dense_baseline,
            ),
            (f"{name}, items under the beams: {items:,.0f} <= {most:,}", items <= most),
        ]
    return verdicts


def _judge_datasets(evaluation: Evaluation) -> list[Verdict]:
    verdicts = []
    tasks = {run.task for run in evaluation.runs}
    for dataset in sorted({task.dataset for task in tasks}):
        mine = [str(task) for task in tasks if task.dataset == dataset]
        plain, geometry = (
            100 * float(np.mean([evaluation.value(name, POOL, task, METRIC) for task in mine]))
            for name in ("default", "geometry")
        )
        least = LEAST_OF_GEOMETRY * geometry
        verdicts.append(
            (f"{dataset}, plain: {plain:.2f} >= {LEAST_OF_GEOMETRY} × {geometry:.2f}", plain >= least)
        )
    return verdicts


def _judge_memory(
    evaluation: Evaluation, task: Task, known: np.ndarray, relevant: Mapping[str, list[str]]
) -> list[Verdict]:
    """Targets that training showed, and those that it did not, beside geometry."""
    default, geometry = (hits(evaluation, name, task, relevant) for name in ("default", "geometry"))
    verdicts = []
    if known.any():
        seen, beside = 100 * default[known].mean(), 100 * geometry[known].mean()
        verdicts.append(
            (f"{task}, seen: {seen:.2f} >= {LEAST_SEEN} (geometry {beside:.2f})", seen >= LEAST_SEEN)
        )
    if not known.all():
        apart = beside_geometry(evaluation, task, ~known, relevant)
        verdicts.append(
            (
                f"{task}, unseen: {100 * default[~known].mean():.2f}, beside geometry {apart.mean:+.2f} with "
                f"the 95 % interval {apart.low:+.2f} to {apart.high:+.2f}, which should reach 0",
                apart.high >= 0,
            )
        )
    return verdicts


def hits(evaluation: Evaluation, system: str, task: Task, relevant: Mapping[str, list[str]]) -> np.ndarray:
    """Whether each query of a task has an answer among the first five, bool [queries]."""
    for run in evaluation.runs:
        if (run.system, run.pool, run.task) == (system, POOL, task):
            return np.array(
                [
                    any(item in relevant.get(query, ()) for item, _ in found[:5])
                    for query, found in run.results.items()
                ]
            )
    raise LookupError(f"{system} was not run for {task}")


def seen_and_unseen(evaluation: Evaluation) -> Table:
    """A row for each system: hit rates of seen and of unseen targets, for the tasks that have both."""
    found = {
        (one.system, one.task, one.metric): 100 * one.value
        for one in evaluation.measurements
        if one.pool == POOL and one.task != "mean"
    }
    tasks = {str(run.task): f"hit@{run.task.cutoff}" for run in evaluation.runs}
    systems = list(dict.fromkeys(run.system for run in evaluation.runs))
    kinds = ("seen", "unseen")
    both = [
        (task, metric)
        for task, metric in tasks.items()
        if all((systems[0], task, f"{metric}, {kind}") in found for kind in kinds)
    ]
    table = Table(("system", *(f"{task}, {kind}" for task, _ in both for kind in kinds)))
    for system in systems:
        values = (found.get((system, task, f"{metric}, {kind}")) for task, metric in both for kind in kinds)
        table.add(system, *values)
    return table
