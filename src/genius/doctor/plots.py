"""The figures of an examination as plots."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from genius import atomic
from genius.data.records import MODALITIES
from genius.doctor.health import RANK, CodedItems, CodedQueries, Health, mean_cosine
from genius.errors import require
from genius.quantize.quantizer import unit_length
from genius.search.beam import BEAMS

_INK = "#1b1b1f"
_SYSTEMS = ("#9aa0ab", "#5b8fd1", "#1f4e8c")


def write_plots(health: Health, folder: Path) -> list[Path]:
    """Write use.png, recall.png and survival.png."""
    drawn = {"use.png": _use, "recall.png": _recall, "survival.png": _survival}
    for name, draw in drawn.items():
        figure = _figure(
            (max(7.0, 0.75 * len(health.tasks) + 3), 4.4) if name == "recall.png" else (7.0, 4.4)
        )
        draw(figure.add_subplot(), health)
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
        _save(figure, folder / name)
    return [folder / name for name in drawn]


def _figure(size: tuple[float, float]) -> Any:
    require("matplotlib", "evaluate", "plotting")
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained")


def _save(figure: Any, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    for axes in figure.axes:
        axes.spines["top"].set_visible(False)
    with atomic.write_file(path) as file:
        FigureCanvasAgg(figure).print_png(file)  # type: ignore[no-untyped-call]


def _use(axes: Any, health: Health) -> None:
    """Bars of the share of codes used, and of the perplexity as a share of the codes there are."""
    places = range(1, len(health.levels) + 1)
    even = [100 * level.perplexity / level.size for level in health.levels]
    axes.bar([x - 0.2 for x in places], [100 * level.used for level in health.levels], 0.4, label="used")
    axes.bar([x + 0.2 for x in places], even, 0.4, label="perplexity")
    for x, level in zip(places, health.levels, strict=True):
        axes.annotate(f"{level.bits:.1f} bits", (x, 101), ha="center", fontsize=8, color=_INK)
    axes.set_xticks(places, _levels(health))
    axes.set_ylim(0, 112)
    axes.set_ylabel("% of the level's codes")
    axes.set_title("How codes are used (says nothing about recall)")


def _recall(axes: Any, health: Health) -> None:
    """Bars of the hit rate by task: joined, vectors, codes; the mean first."""
    rows = [("mean", health.embeddings, health.vectors, health.codes)]
    rows += [(task.task, task.embeddings, task.vectors, task.codes) for task in health.tasks]
    for place, name in enumerate(("joined (fair dense)", "vectors z", "codes alone ẑ")):
        heights = [100 * float(row[1 + place]) for row in rows]
        offsets = [number + (place - 1) * 0.27 for number in range(len(rows))]
        axes.bar(offsets, heights, 0.27, label=name, color=_SYSTEMS[place])
    axes.set_xticks(range(len(rows)), [row[0] for row in rows], rotation=40, ha="right")
    axes.set_ylabel(f"hit rate @{RANK}, %")
    axes.set_title("Where recall is lost: among items of the wanted modality")


def _survival(axes: Any, health: Health) -> None:
    """Curves of what survives the beam, with dense search's first 50 as the ceiling."""
    places = range(1, len(health.levels) + 1)
    for task in health.tasks:
        axes.plot(places, _percent(task.known), color="#c8ccd3", linewidth=0.8, zorder=1)
    known, inferred = _percent(health.known), _percent(health.inferred)
    axes.plot(places, known, "o-", color=_SYSTEMS[2], linewidth=3, label="wanted modality given")
    axes.plot(places, inferred, "s--", color="#d98324", markersize=4, label="inferred")
    ceiling = 100 * health.ceiling
    axes.axhline(ceiling, linestyle=":", linewidth=1.5, color=_INK, label=f"dense search, first {BEAMS}")
    axes.set_xticks(places, _levels(health))
    axes.set_ylim(0, 103)
    axes.set_ylabel("queries with an answer in the beam, %")
    axes.set_title(f"What survives a beam of {BEAMS} after each level (grey: single tasks)")


def _percent(shares: Sequence[float]) -> list[float]:
    return [100 * share for share in shares]


def _levels(health: Health) -> list[str]:
    names = [f"level {number}" for number in range(1, len(health.levels) + 1)]
    if health.coding.semantic:
        names[0] += "\n(modality)"
    return names


POINTS = 1500
"""Pairs of a query and an answer that a map shows; more only cover each other."""
COLOURS = ("#2f6db5", "#d98324", "#3d9970")
"""Of pictures, texts and pairs."""


def project(points: np.ndarray, seed: int = 0) -> tuple[np.ndarray, str]:
    """Points [n, width] in two dimensions, and how: by UMAP if it is installed, else by main components."""
    if importlib.util.find_spec("umap") is not None and len(points) > 15:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that a seed costs time
            umap = importlib.import_module("umap")
            return np.asarray(umap.UMAP(random_state=seed).fit_transform(points)), "UMAP"
    return main_components(points), "PCA"


def main_components(points: np.ndarray) -> np.ndarray:
    """The two directions of most variance: coordinates [n, 2]; the same points give the same signs."""
    centred = points - points.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    found = directions[:2]
    largest = np.abs(found).argmax(axis=1)
    signs = np.sign(found[np.arange(len(found)), largest])
    placed = centred @ (found * signs[:, None]).T
    return np.asarray(np.pad(placed, ((0, 0), (0, 2 - placed.shape[1]))))


def without_modality(
    asked: np.ndarray, answered: np.ndarray, want: np.ndarray, modality: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Queries and answers less the mean of the answers of their modality: what is left is meaning."""
    asked, answered = asked.copy(), answered.copy()
    for kind in np.unique(modality):
        mean = answered[modality == kind].mean(axis=0)
        asked[want == kind] -= mean
        answered[modality == kind] -= mean
    return asked, answered


def write_map(items: CodedItems, tasks: Sequence[CodedQueries], path: Path, seed: int = 0) -> Path:
    """Draw queries and answers of theirs: by joined embeddings, and by quantized vectors.

    Modalities lie so far apart that they hide the rest; below, the same without them.
    """
    require("matplotlib", "evaluate", "drawing maps")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows, answers, want = _pairs(tasks, seed)
    embeddings = np.concatenate([task.embeddings for task in tasks])[rows]
    quantized = np.concatenate([task.quantized for task in tasks])[rows]
    modality = items.modality[answers]
    before = unit_length(embeddings), unit_length(items.embeddings[answers])
    after = unit_length(quantized), unit_length(items.quantized[answers])
    panels = (
        ("before: joined embeddings", *before),
        ("after: quantized vectors ẑ", *after),
        ("before, without the modality's mean", *without_modality(*before, want, modality)),
        ("after, without the modality's mean", *without_modality(*after, want, modality)),
    )
    figure = Figure(figsize=(12, 12.4), layout="constrained")
    for number, (title, asked, answered) in enumerate(panels, start=1):
        axes = figure.add_subplot(2, 2, number)
        _draw(axes, title, asked, answered, want, modality, seed)
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, markerscale=2, loc="outside lower center", ncols=6, frameon=False)
    with atomic.write_file(path) as file:
        FigureCanvasAgg(figure).print_png(file)  # type: ignore[no-untyped-call]
    return path


def _pairs(tasks: Sequence[CodedQueries], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries by their number over all tasks, an answer of each, and what they want."""
    known = [answers for task in tasks for answers in task.positives]
    want = np.concatenate([np.full(len(task), task.want) for task in tasks])
    answered = np.flatnonzero([len(answers) > 0 for answers in known])
    generator = np.random.default_rng(seed)
    rows = np.sort(generator.permutation(answered)[:POINTS])
    return rows, np.array([int(known[row][0]) for row in rows], np.int64), want[rows]


def _draw(
    axes: Any,
    title: str,
    asked: np.ndarray,
    answered: np.ndarray,
    want: np.ndarray,
    modality: np.ndarray,
    seed: int,
) -> None:
    places, method = project(np.concatenate([asked, answered]), seed)
    queries, items = places[: len(asked)], places[len(asked) :]
    for number, kind in enumerate(MODALITIES):
        mine, wanted = modality == number, want == number
        axes.scatter(*items[mine].T, s=12, c=COLOURS[number], alpha=0.5, linewidths=0, label=f"{kind} items")
        axes.scatter(
            *queries[wanted].T,
            s=14,
            c=COLOURS[number],
            marker="x",
            linewidths=0.7,
            label=f"queries for {kind}",
        )
    apart = mean_cosine(asked, np.roll(answered, 1, axis=0))
    axes.set_title(
        f"{title} ({method})\n"
        f"cosine of a query and its answer {mean_cosine(asked, answered):.2f}, and another's {apart:.2f}",
        fontsize=11,
    )
    axes.set_xticks([])
    axes.set_yticks([])
