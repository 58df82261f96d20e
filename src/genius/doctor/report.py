"""An examination for people and for programs: tables, and one JSON object."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from genius.data.records import MODALITIES
from genius.display import Table
from genius.doctor.health import RANK, Health, TaskHealth
from genius.doctor.verdict import Verdict
from genius.search.beam import BEAMS

_CAPTIONS = ("_task0", "_task3")
"""The tasks from texts to pictures and back: a picture and its caption."""


def tables(health: Health) -> list[Table]:
    """Recall, survival, agreement, use and sharing of codes, and what first codes stand for; in percent."""
    made = [_recall(health), _survival(health), _agreement(health), _use(health), _sharing(health)]
    return [*made, _first_codes(health)] if health.confusion else made


def _recall(health: Health) -> Table:
    made = Table(
        ("task", "queries", "dense", "dense-z", "codes", "codes/fair", f"dense@{BEAMS}"),
        title=f"where recall is lost: hit rate @{RANK} in the wanted modality of the union pool, % "
        f"(fair dense: by {health.coding.dense_baseline})",
    )
    for task in health.tasks:
        dense_baseline = task.vectors if health.coding.dense_baseline == "vectors" else task.embeddings
        kept = task.codes / dense_baseline if dense_baseline else None
        figures = (task.embeddings, task.vectors, task.codes)
        made.add(task.task, task.queries, *map(_percent, figures), kept, 100 * task.ceiling)
    means = map(_percent, (health.embeddings, health.vectors, health.codes))
    made.add("mean", health.queries, *means, health.kept, 100 * health.ceiling)
    return made


def _survival(health: Health) -> Table:
    levels = [f"level {number}" for number in range(1, len(health.levels) + 1)]
    title = f"queries with an answer left in a beam of {BEAMS}, %"
    made = Table(("wanted modality", *levels), title=title)
    made.add("given", *map(_percent, health.known))
    made.add("inferred", *map(_percent, health.inferred))
    return made


def _agreement(health: Health) -> Table:
    made = Table(
        ("pairs", "first", "first 2", "first 3"), title="pairs with the same leading semantic codes, %"
    )
    captions = [task for task in health.tasks if task.task.endswith(_CAPTIONS)]
    rows: list[tuple[str, Callable[[TaskHealth], tuple[float, ...]]]] = [
        ("matched", lambda task: task.matched),
        ("random", lambda task: task.random),
    ]
    for among, tasks in (("query and answer", health.tasks), ("picture and caption", captions)):
        part = dataclasses.replace(health, tasks=tuple(tasks))
        for name, figures in rows:
            if values := part.means(figures):
                made.add(f"{among}, {name}", *map(_percent, values), *(None,) * (3 - len(values)))
    return made


def _use(health: Health) -> Table:
    made = Table(("level", "codes", "used, %", "perplexity", "bits"), title="how codes are used")
    for number, level in enumerate(health.levels, start=1):
        name = f"{number} (modality)" if number <= health.coding.semantic else str(number)
        made.add(name, level.size, 100 * level.used, level.perplexity, level.bits)
    return made


def _sharing(health: Health) -> Table:
    shared = health.buckets
    made = Table(("of all items", ""), title="how codes are shared")
    made.add("items", f"{shared.items:,}")
    made.add("different contents", f"{shared.contents:,}")
    made.add("different codes", f"{shared.unique:,}")
    made.add("contents with a code of their own", f"{100 * shared.own:.2f} %")
    made.add("items of the largest bucket", f"{shared.largest:,}")
    for group in shared.groups:
        share = 100 * group.colliding / group.items
        made.add(f"{group.modality} items that share a code with other content", f"{share:.2f} %")
    made.add("mean cosine of vector and quantized vector", f"{health.cosine:.3f}")
    return made


def _first_codes(health: Health) -> Table:
    made = Table(
        ("first code", *(kind.value for kind in MODALITIES), "stands for"),
        title=f"first codes ({health.coding.first}), {100 * health.purity:.2f} % pure",
    )
    for code, counts in enumerate(health.confusion):
        meaning = MODALITIES[health.coding.modality_of[code]].value
        made.add(str(code), *counts, meaning)
    return made


def as_json(health: Health, verdict: Verdict) -> dict[str, Any]:
    """All figures as shares between 0 and 1, under the names that evaluations use, and the verdict."""
    systems: dict[str, Callable[[TaskHealth], float]] = {
        "dense": lambda task: task.embeddings,
        "dense-z": lambda task: task.vectors,
        "codes": lambda task: task.codes,
        f"dense@{BEAMS}": lambda task: task.ceiling,
    }
    by_level: dict[str, Callable[[TaskHealth], tuple[float, ...]]] = {
        "known": lambda task: task.known,
        "inferred": lambda task: task.inferred,
        "matched": lambda task: task.matched,
        "random": lambda task: task.random,
    }
    several = {
        name: {"mean": health.means(get)} | {task.task: get(task) for task in health.tasks}
        for name, get in by_level.items()
    }
    return {
        "verdict": {"summary": verdict.summary, **dataclasses.asdict(verdict)},
        "coding": {**dataclasses.asdict(health.coding), "semantic": health.coding.semantic},
        "queries": health.queries,
        "not_finite": health.not_finite,
        "recall": {
            name: {"mean": health.mean(get)} | {task.task: get(task) for task in health.tasks}
            for name, get in systems.items()
        },
        "kept": health.kept,
        "survival": {name: several[name] for name in ("known", "inferred")},
        "agreement": {name: several[name] for name in ("matched", "random")},
        "levels": [dataclasses.asdict(level) for level in health.levels],
        "buckets": dataclasses.asdict(health.buckets),
        "purity": health.purity,
        "confusion": health.confusion,
        "cosine": health.cosine,
    }


def _percent(share: float) -> float:
    return 100 * share
