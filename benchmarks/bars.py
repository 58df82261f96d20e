"""The bars of generative search that `quality.py` checks; not a script itself.

All are about hit rate @5 in the union pool, with 50 beams and the wanted modality known. Bars for tasks
that a tree does not have are left out.
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
"""What follows the name of a system that searched without knowing the wanted modality."""
UNSEEN = "default beside geometry, unseen"
"""The name under which paired differences and the ends of their 95 % interval are printed."""
LEAST_PLAIN = 38.0
LEAST_PLAIN_SHARE = 0.98
LEAST_OF_GEOMETRY = 0.95
# system: least share of the dense baseline, most items below the beams on average
RERANKED = {"fast+rerank": (1.0, 5000), "geometry+rerank": (0.98, 250)}
MEMORISED = ("grocery_task6", "grocery_task8")
"""Tasks with many targets that were targets in training: there a learned decoder has to earn its place."""
LEAST_SEEN = 85.0

Verdict = tuple[str, bool]


@dataclass(frozen=True)
class Difference:
    """The mean of paired differences of hit rates, in percent, and its 95 % interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, first: np.ndarray, second: np.ndarray) -> Difference:
        """The difference of two systems' hits [queries] for the same queries, by the normal approximation."""
        differences = 100 * (first.astype(float) - second.astype(float))
        mean, count = float(differences.mean()), len(differences)
        margin = 1.96 * float(differences.std(ddof=1)) / count**0.5 if count > 1 else float("inf")
        return cls(mean, mean - margin, mean + margin)


def judge_search(evaluation: Evaluation, tree: Tree, split: Split) -> list[Verdict]:
    """A sentence for each bar, and whether it was held."""
    verdicts = _judge_means(evaluation) + _judge_datasets(evaluation)
    for task, seen in memorised(evaluation).items():
        verdicts += _judge_seen(evaluation, task, seen, tree.judgements(split, task))
    return verdicts


def memorised(evaluation: Evaluation) -> dict[Task, np.ndarray]:
    """By task of `MEMORISED`: which queries have a target that was a target in training, bool [queries]."""
    return {task: np.array(seen) for task, seen in (evaluation.seen or {}).items() if str(task) in MEMORISED}


def beside_geometry(
    evaluation: Evaluation, task: Task, chosen: np.ndarray, relevant: Mapping[str, list[str]]
) -> Difference:
    """How much more often `default` finds an answer than `geometry`, for the chosen queries of a task."""
    default, geometry = (hits(evaluation, name, task, relevant)[chosen] for name in ("default", "geometry"))
    return Difference.of(default, geometry)


def _judge_means(evaluation: Evaluation) -> list[Verdict]:
    dense_baseline, plain = (
        100 * evaluation.value(name, POOL, "mean", METRIC) for name in ("dense-fair", "default")
    )
    verdicts = [
        (
            f"plain, share of the dense baseline: {plain / dense_baseline:.3f} >= {LEAST_PLAIN_SHARE}",
            plain >= LEAST_PLAIN_SHARE * dense_baseline,
        ),
        (f"plain: {plain:.2f} >= {LEAST_PLAIN}", plain >= LEAST_PLAIN),
    ]
    for name, (share, most) in RERANKED.items():
        value = 100 * evaluation.value(name, POOL, "mean", METRIC)
        items = evaluation.value(name, POOL, "mean", "items")
        verdicts += [
            (
                f"{name}, share of the dense baseline: {value / dense_baseline:.3f} >= {share}",
                value >= share * dense_baseline,
            ),
            (f"{name}, items below the beams: {items:,.0f} <= {most:,}", items <= most),
        ]
    return verdicts


def _judge_datasets(evaluation: Evaluation) -> list[Verdict]:
    verdicts = []
    tasks = {run.task for run in evaluation.runs}
    for dataset in sorted({task.dataset for task in tasks}):
        names = [str(task) for task in tasks if task.dataset == dataset]
        plain, geometry = (
            100 * float(np.mean([evaluation.value(name, POOL, task, METRIC) for task in names]))
            for name in ("default", "geometry")
        )
        least = LEAST_OF_GEOMETRY * geometry
        verdicts.append(
            (f"{dataset}, plain: {plain:.2f} >= {LEAST_OF_GEOMETRY} × {geometry:.2f}", plain >= least)
        )
    return verdicts


def _judge_seen(
    evaluation: Evaluation, task: Task, seen: np.ndarray, relevant: Mapping[str, list[str]]
) -> list[Verdict]:
    """The bars for targets that were targets in training, and for those that were not, beside geometry."""
    default, geometry = (hits(evaluation, name, task, relevant) for name in ("default", "geometry"))
    verdicts = []
    if seen.any():
        value, beside = 100 * default[seen].mean(), 100 * geometry[seen].mean()
        verdicts.append(
            (f"{task}, seen: {value:.2f} >= {LEAST_SEEN} (geometry {beside:.2f})", value >= LEAST_SEEN)
        )
    if not seen.all():
        difference = beside_geometry(evaluation, task, ~seen, relevant)
        verdicts.append(
            (
                f"{task}, unseen: {100 * default[~seen].mean():.2f}, beside geometry {difference.mean:+.2f} "
                f"with the 95 % interval {difference.low:+.2f} to {difference.high:+.2f}, "
                "which should reach 0",
                difference.high >= 0,
            )
        )
    return verdicts


def hits(
    evaluation: Evaluation, system: str, task: Task, relevant: Mapping[str, list[str]], pool: str = POOL
) -> np.ndarray:
    """Whether each query of a task has an answer among its first five results, bool [queries]."""
    for run in evaluation.runs:
        if (run.system, run.pool, run.task) == (system, pool, task):
            return np.array(
                [
                    any(item in relevant.get(query, ()) for item, _ in results[:5])
                    for query, results in run.results.items()
                ]
            )
    raise LookupError(f"{system} was not run for {task}")


def seen_and_unseen(evaluation: Evaluation) -> Table:
    """A row for each system: hit rates of seen and of unseen targets, for the tasks that have both."""
    hit_rates = {
        (measured.system, measured.task, measured.metric): 100 * measured.value
        for measured in evaluation.measurements
        if measured.pool == POOL and measured.task != "mean"
    }
    tasks = {str(run.task): f"hit@{run.task.cutoff}" for run in evaluation.runs}
    systems = list(dict.fromkeys(run.system for run in evaluation.runs))
    kinds = ("seen", "unseen")
    both = [
        (task, metric)
        for task, metric in tasks.items()
        if all((systems[0], task, f"{metric}, {kind}") in hit_rates for kind in kinds)
    ]
    table = Table(("system", *(f"{task}, {kind}" for task, _ in both for kind in kinds)))
    for system in systems:
        values = (
            hit_rates.get((system, task, f"{metric}, {kind}")) for task, metric in both for kind in kinds
        )
        table.add(system, *values)
    return table
