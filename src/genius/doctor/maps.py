"""A map in two dimensions of queries and items, before the quantizer and after (the supplement's Fig. 1)."""

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
from genius.doctor.health import CodedItems, CodedQueries, mean_cosine
from genius.errors import require
from genius.quantize.quantizer import unit_length

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
    joined = np.concatenate([task.joined for task in tasks])[rows]
    quantized = np.concatenate([task.quantized for task in tasks])[rows]
    modality = items.modality[answers]
    before = unit_length(joined), unit_length(items.joined[answers])
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
