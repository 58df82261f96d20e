"""Plots of an examination: use of codes, recall, survival in the beam, and a map of queries and answers."""

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
from genius.doctor.health import HIT_RANK, CodedItems, CodedQueries, Health, mean_cosine
from genius.errors import require
from genius.quantize.quantizer import unit_length
from genius.search.beam import BEAMS

MAP_PAIRS = 1500
"""The most pairs of a query and an answer in a map; more would only cover each other."""

_INK = "#1b1b1f"
_STEP_COLOURS = ("#9aa0ab", "#5b8fd1", "#1f4e8c")
"""Embeddings, vectors, codes."""
_MODALITY_COLOURS = ("#2f6db5", "#d98324", "#3d9970")
"""Images, texts, pairs."""


def write_plots(health: Health, folder: Path) -> list[Path]:
    """Write use.png, recall.png and survival.png; returns their paths."""
    plots = {"use.png": _plot_use, "recall.png": _plot_recall, "survival.png": _plot_survival}
    for name, plot in plots.items():
        width = max(7.0, 0.75 * len(health.tasks) + 3) if name == "recall.png" else 7.0
        figure = _figure((width, 4.4))
        axes = figure.add_subplot()
        plot(axes, health)
        axes.spines["top"].set_visible(False)
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
        _save(figure, folder / name)
    return [folder / name for name in plots]


def _figure(size: tuple[float, float]) -> Any:
    require("matplotlib", "evaluate", "plotting")
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained")


def _save(figure: Any, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with atomic.write_file(path) as file:
        FigureCanvasAgg(figure).print_png(file)  # type: ignore[no-untyped-call]


def _plot_use(axes: Any, health: Health) -> None:
    """Bars of the share of codes used, and of the perplexity as a share of all codes."""
    places = range(1, len(health.levels) + 1)
    perplexity = [100 * level.perplexity / level.size for level in health.levels]
    axes.bar([x - 0.2 for x in places], [100 * level.used for level in health.levels], 0.4, label="used")
    axes.bar([x + 0.2 for x in places], perplexity, 0.4, label="perplexity")
    for x, level in zip(places, health.levels, strict=True):
        axes.annotate(f"{level.bits:.1f} bits", (x, 101), ha="center", fontsize=8, color=_INK)
    axes.set_xticks(places, _level_names(health))
    axes.set_ylim(0, 112)
    axes.set_ylabel("% of the level's codes")
    axes.set_title("How codes are used (says nothing about recall)")


def _plot_recall(axes: Any, health: Health) -> None:
    """Bars of the hit rate by embeddings, vectors and codes: the mean first, then each task."""
    groups = [("mean", health.embeddings, health.vectors, health.codes)]
    groups += [(task.task, task.embeddings, task.vectors, task.codes) for task in health.tasks]
    for step, name in enumerate(("joined embeddings φ", "vectors z", "codes alone ẑ")):
        heights = [100 * float(group[1 + step]) for group in groups]
        places = [number + (step - 1) * 0.27 for number in range(len(groups))]
        axes.bar(places, heights, 0.27, label=name, color=_STEP_COLOURS[step])
    axes.set_xticks(range(len(groups)), [group[0] for group in groups], rotation=40, ha="right")
    axes.set_ylabel(f"hit rate @{HIT_RANK}, %")
    axes.set_title("Where recall is lost: among items of the wanted modality")


def _plot_survival(axes: Any, health: Health) -> None:
    """Curves of what survives the beam, with the first 50 of dense search as the ceiling."""
    places = range(1, len(health.levels) + 1)
    for task in health.tasks:
        axes.plot(places, _percent(task.survival_given), color="#c8ccd3", linewidth=0.8, zorder=1)
    given, inferred = _percent(health.survival_given), _percent(health.survival_inferred)
    axes.plot(places, given, "o-", color=_STEP_COLOURS[2], linewidth=3, label="wanted modality given")
    axes.plot(places, inferred, "s--", color="#d98324", markersize=4, label="inferred")
    ceiling = 100 * health.ceiling
    axes.axhline(ceiling, linestyle=":", linewidth=1.5, color=_INK, label=f"dense search, first {BEAMS}")
    axes.set_xticks(places, _level_names(health))
    axes.set_ylim(0, 103)
    axes.set_ylabel("queries with an answer in the beam, %")
    axes.set_title(f"What survives a beam of {BEAMS} after each level (grey: single tasks)")


def _percent(shares: Sequence[float]) -> list[float]:
    return [100 * share for share in shares]


def _level_names(health: Health) -> list[str]:
    names = [f"level {number}" for number in range(1, len(health.levels) + 1)]
    if health.code_spec.first_semantic_level:
        names[0] += "\n(modality)"
    return names


def write_map(items: CodedItems, tasks: Sequence[CodedQueries], path: Path, seed: int = 0) -> Path:
    """Draw queries with one answer each in two dimensions, by joined embeddings and by quantized vectors.

    Modalities lie so far apart that they hide everything else; the lower panels show the same without them.
    """
    queries, answers, want = _pairs(tasks, seed)
    embeddings = np.concatenate([task.embeddings for task in tasks])[queries]
    quantized = np.concatenate([task.quantized for task in tasks])[queries]
    modality = items.modality[answers]
    before = unit_length(embeddings), unit_length(items.embeddings[answers])
    after = unit_length(quantized), unit_length(items.quantized[answers])
    panels = (
        ("before: joined embeddings φ", *before),
        ("after: quantized vectors ẑ", *after),
        ("before, without the modality's mean", *subtract_modality_means(*before, want, modality)),
        ("after, without the modality's mean", *subtract_modality_means(*after, want, modality)),
    )
    figure = _figure((12, 12.4))
    for number, (title, query_points, answer_points) in enumerate(panels, start=1):
        axes = figure.add_subplot(2, 2, number)
        method = _plot_map(axes, query_points, answer_points, want, modality, seed)
        matched = mean_cosine(query_points, answer_points)
        others = mean_cosine(query_points, np.roll(answer_points, 1, axis=0))
        cosines = f"cosine of a query and its answer {matched:.2f}, and another's {others:.2f}"
        axes.set_title(f"{title} ({method})\n{cosines}", fontsize=11)
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, markerscale=2, loc="outside lower center", ncols=6, frameon=False)
    _save(figure, path)
    return path


def _pairs(tasks: Sequence[CodedQueries], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Some queries, numbered over all tasks, with an answer of each and the modality that each wants [n]."""
    positives = [answers for task in tasks for answers in task.positives]
    want = np.concatenate([np.full(len(task), task.want) for task in tasks])
    answered = np.flatnonzero([len(answers) > 0 for answers in positives])
    generator = np.random.default_rng(seed)
    queries = np.sort(generator.permutation(answered)[:MAP_PAIRS])
    return queries, np.array([int(positives[query][0]) for query in queries], np.int64), want[queries]


def subtract_modality_means(
    queries: np.ndarray, answers: np.ndarray, want: np.ndarray, modality: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Queries and answers [n, width] less the mean of the answers of their modality: meaning is left.

    `want` [n] is the modality that a query wants, `modality` [n] that of an answer.
    """
    queries, answers = queries.copy(), answers.copy()
    for kind in np.unique(modality):
        mean = answers[modality == kind].mean(axis=0)
        queries[want == kind] -= mean
        answers[modality == kind] -= mean
    return queries, answers


def _plot_map(
    axes: Any, queries: np.ndarray, answers: np.ndarray, want: np.ndarray, modality: np.ndarray, seed: int
) -> str:
    """Scatter queries and answers [n, width], coloured by modality; returns the method of projection."""
    points, method = project(np.concatenate([queries, answers]), seed)
    query_points, answer_points = points[: len(queries)], points[len(queries) :]
    for number, kind in enumerate(MODALITIES):
        colour = _MODALITY_COLOURS[number]
        own, wanting = answer_points[modality == number].T, query_points[want == number].T
        axes.scatter(*own, s=12, c=colour, alpha=0.5, linewidths=0, label=f"{kind} items")
        axes.scatter(*wanting, s=14, c=colour, marker="x", linewidths=0.7, label=f"queries for {kind}")
    axes.set_xticks([])
    axes.set_yticks([])
    return method


def project(points: np.ndarray, seed: int = 0) -> tuple[np.ndarray, str]:
    """Points [n, width] in two dimensions [n, 2], and the method: UMAP if it is installed, otherwise PCA."""
    if importlib.util.find_spec("umap") is not None and len(points) > 15:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that a seed costs time
            umap = importlib.import_module("umap")
            return np.asarray(umap.UMAP(random_state=seed).fit_transform(points)), "UMAP"
    return principal_components(points), "PCA"


def principal_components(points: np.ndarray) -> np.ndarray:
    """The first two principal components of points [n, width]: [n, 2], with reproducible signs."""
    centred = points - points.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    components = directions[:2]
    largest = np.abs(components).argmax(axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    projected = centred @ (components * signs[:, None]).T
    return np.asarray(np.pad(projected, ((0, 0), (0, 2 - projected.shape[1]))))
