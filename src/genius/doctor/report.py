"""An examination for people and for programs: tables, one JSON object, and images."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from genius.data.records import MODALITIES
from genius.display import Table
from genius.doctor.codes import distinct_contents
from genius.doctor.examine import Examination
from genius.doctor.health import HIT_RANK, Health, TaskHealth
from genius.doctor.plots import write_map, write_plots
from genius.doctor.sheets import Pattern, mixed_codes, write_sheets
from genius.doctor.verdict import Verdict
from genius.search.beam import BEAMS

_CAPTIONS = ("_task0", "_task3")
"""The tasks from text to image and back: an image and its caption."""

_ByLevel = Callable[[TaskHealth], tuple[float, ...]]


def tables(health: Health) -> list[Table]:
    """Recall, survival, agreement, use and sharing of codes, and modality codes if there are; in percent."""
    shown = [_recall(health), _survival(health), _agreement(health), _use(health), _sharing(health)]
    return [*shown, _modality_codes(health)] if health.confusion else shown


def _recall(health: Health) -> Table:
    spec = health.code_spec
    table = Table(
        ("task", "queries", "embeddings", "vectors", "codes", "codes/baseline", f"embeddings@{BEAMS}"),
        title=f"where recall is lost: hit rate @{HIT_RANK} in the wanted modality of the union pool, % "
        f"(dense baseline: {spec.dense_baseline})",
    )
    for task in health.tasks:
        baseline = task.dense_baseline(spec)
        kept = task.codes / baseline if baseline else None
        rates = (task.embeddings, task.vectors, task.codes)
        table.add(task.task, task.queries, *map(_percent, rates), kept, 100 * task.ceiling)
    means = map(_percent, (health.embeddings, health.vectors, health.codes))
    table.add("mean", health.queries, *means, health.recall_kept, 100 * health.ceiling)
    return table


def _survival(health: Health) -> Table:
    levels = [f"level {number}" for number in range(1, len(health.levels) + 1)]
    title = f"queries with an answer left in a beam of {BEAMS}, %"
    table = Table(("wanted modality", *levels), title=title)
    table.add("given", *map(_percent, health.survival_given))
    table.add("inferred", *map(_percent, health.survival_inferred))
    return table


def _agreement(health: Health) -> Table:
    table = Table(
        ("pairs", "first", "first 2", "first 3"), title="pairs with the same leading semantic codes, %"
    )
    captions = [task for task in health.tasks if task.task.endswith(_CAPTIONS)]
    rows: list[tuple[str, _ByLevel]] = [
        ("matched", lambda task: task.agreement_matched),
        ("random", lambda task: task.agreement_random),
    ]
    for pairs, tasks in (("query and answer", health.tasks), ("image and caption", captions)):
        selected = dataclasses.replace(health, tasks=tuple(tasks))
        for name, figures in rows:
            if shares := selected.means(figures):
                table.add(f"{pairs}, {name}", *map(_percent, shares), *(None,) * (3 - len(shares)))
    return table


def _use(health: Health) -> Table:
    table = Table(("level", "codes", "used, %", "perplexity", "bits"), title="how codes are used")
    for number, level in enumerate(health.levels, start=1):
        is_modality = number <= health.code_spec.first_semantic_level
        name = f"{number} (modality)" if is_modality else str(number)
        table.add(name, level.size, 100 * level.used, level.perplexity, level.bits)
    return table


def _sharing(health: Health) -> Table:
    buckets = health.buckets
    table = Table(("all items", ""), title="how codes are shared")
    table.add("items", f"{buckets.items:,}")
    table.add("distinct contents", f"{buckets.distinct_contents:,}")
    table.add("distinct codes", f"{buckets.distinct_codes:,}")
    table.add("contents with a code of their own", f"{100 * buckets.own_code:.2f} %")
    table.add("items in the largest bucket", f"{buckets.largest:,}")
    for group in buckets.by_modality:
        share = 100 * group.colliding / group.items
        table.add(f"{group.modality} items that share a code with other content", f"{share:.2f} %")
    table.add("mean cosine of vector and quantized vector", f"{health.cosine:.3f}")
    return table


def _modality_codes(health: Health) -> Table:
    spec = health.code_spec
    table = Table(
        ("modality code", *(kind.value for kind in MODALITIES), "stands for"),
        title=f"modality codes ({spec.modality_code}), {100 * health.purity:.2f} % pure",
    )
    for code, counts in enumerate(health.confusion):
        table.add(str(code), *counts, MODALITIES[spec.modality_of[code]].value)
    return table


def as_json(health: Health, verdict: Verdict) -> dict[str, Any]:
    """All figures as shares between 0 and 1, by task and as means over tasks, and the verdict."""
    spec = health.code_spec

    def by_task(figure: Callable[[TaskHealth], float]) -> dict[str, float]:
        return {"mean": health.mean(figure)} | {task.task: figure(task) for task in health.tasks}

    def by_level(figures: _ByLevel) -> dict[str, tuple[float, ...]]:
        return {"mean": health.means(figures)} | {task.task: figures(task) for task in health.tasks}

    return {
        "verdict": {"summary": verdict.summary, **dataclasses.asdict(verdict)},
        "code_spec": {**dataclasses.asdict(spec), "first_semantic_level": spec.first_semantic_level},
        "queries": health.queries,
        "not_finite": health.not_finite,
        "recall": {
            "embeddings": by_task(lambda task: task.embeddings),
            "vectors": by_task(lambda task: task.vectors),
            "codes": by_task(lambda task: task.codes),
            f"embeddings@{BEAMS}": by_task(lambda task: task.ceiling),
        },
        "recall_kept": health.recall_kept,
        "survival": {
            "modality_given": by_level(lambda task: task.survival_given),
            "modality_inferred": by_level(lambda task: task.survival_inferred),
        },
        "agreement": {
            "matched": by_level(lambda task: task.agreement_matched),
            "random": by_level(lambda task: task.agreement_random),
        },
        "levels": [dataclasses.asdict(level) for level in health.levels],
        "buckets": dataclasses.asdict(health.buckets),
        "purity": health.purity,
        "confusion": health.confusion,
        "cosine": health.cosine,
    }


def write_report_images(
    examination: Examination, folder: Path, patterns: Sequence[Pattern] = ()
) -> list[Path]:
    """Write all images of an examination to a folder: plots, a map, and contact sheets of codes.

    Without `patterns`, the sheets show the codes with the most mixed items; see `mixed_codes`.
    """
    items, spec = examination.items, examination.health.code_spec
    if not patterns:
        distinct = distinct_contents(items.codes, items.vectors)
        codes, modality = items.codes[distinct], items.modality[distinct]
        patterns = mixed_codes(codes, modality, spec.first_semantic_level)
    paths = write_plots(examination.health, folder)
    paths.append(write_map(items, examination.tasks, folder / "map.png"))
    return paths + write_sheets(
        examination.tree, examination.split, items.codes, items.modality, patterns, folder / "codes"
    )


def _percent(share: float) -> float:
    return 100 * share
