"""What is kept of an evaluation for `systems.py`: hit rates by task, and intervals over queries; not a script
itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from bars import hits
from system_rows import DENSE_BASELINE

from genius.data.mbeir import Split, Tree
from genius.evaluate.protocol import Evaluation

METRICS = ("hit@1", "hit@5", "hit@10")
KINDS = ("seen", "unseen")
DRAWS = 1000
"""Of the bootstrap."""
ENDS = (0.025, 0.975)


def evaluation_record(evaluation: Evaluation, pool: str, tree: Tree, split: Split) -> dict[str, Any]:
    """Of one pool, by system: the hit rates of each task, also for seen and unseen answers apart, the items
    that are ranked, and 95 % intervals of the mean over tasks and of its ratio to the dense baseline."""
    runs = [run for run in evaluation.runs if run.pool == pool]
    if not runs:  # nothing is unseen
        return {"queries": {}, "systems": {}}
    systems = list(dict.fromkeys(run.system for run in runs))
    tasks = list(dict.fromkeys(run.task for run in runs))
    judgements = {task: tree.judgements(split, task) for task in tasks}
    found_by_task = [
        np.stack([hits(evaluation, system, task, judgements[task], pool) for system in systems])
        for task in tasks
    ]
    intervals = bootstrap(found_by_task, systems.index(DENSE_BASELINE))
    record: dict[str, Any] = {"queries": {}, "systems": {}}
    for system, (of_mean, of_ratio) in zip(systems, intervals, strict=True):
        record["systems"][system] = {"tasks": {}, "interval": of_mean, "ratio_interval": of_ratio}
    for measured in evaluation.measurements:
        if measured.pool != pool or measured.task == "mean":
            continue
        name = _kept_name(measured.metric)
        if name is not None:
            by_task = record["systems"][measured.system]["tasks"].setdefault(measured.task, {})
            by_task[name] = measured.value
            if name == "hit@5":
                record["queries"][measured.task] = measured.queries
    return record


def _kept_name(metric: str) -> str | None:
    """The name under which a figure is kept, if it is: seen and unseen answers are counted at the task's
    rank."""
    rank, _, kind = metric.partition(", ")
    if kind in KINDS and rank.startswith("hit@"):
        return kind
    return metric if metric in METRICS or metric == "items" else None


def bootstrap(
    found_by_task: Sequence[np.ndarray], baseline: int, draws: int = DRAWS, seed: int = 0
) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """For each system the 95 % intervals of its mean over tasks and of the ratio to the baseline's.

    `found_by_task` says which queries of a task each system answered, bool [systems, queries]. Queries are
    drawn task by task, the same ones for all systems.
    """
    random = np.random.default_rng(seed)
    means = np.zeros((len(found_by_task[0]), draws))
    for task in found_by_task:
        count = task.shape[1]
        weights = random.multinomial(count, np.full(count, 1 / count), size=draws) / count
        means += task @ weights.T / len(found_by_task)
    ratios = means / np.maximum(means[baseline], 1e-12)
    ends = (np.quantile(rows, ENDS, axis=1).T for rows in (means, ratios))
    return [((float(a), float(b)), (float(c), float(d))) for (a, b), (c, d) in zip(*ends, strict=True)]
