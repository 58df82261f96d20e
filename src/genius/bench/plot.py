"""Queries per second, a line for each system: by the number of items (the paper's Fig. 4) or by recall."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from genius.bench.curves import CurvePoint
from genius.bench.speed import Speed
from genius.errors import require

RIVALS = ("HF", "faiss", "usearch")


def plot_speeds(path: Path, speeds: Sequence[Speed]) -> None:
    """Draw speeds as a PNG with two logarithmic axes; rivals are dashed.

    Systems that differ from another only by the given modality are left out.
    """
    figure, axes = _figure("plotting speeds")
    from matplotlib import colormaps

    for number, (name, line) in enumerate(_lines(speeds).items()):
        axes.plot(
            [speed.n for speed in line],
            [speed.queries_per_second for speed in line],
            "s--" if name.startswith(RIVALS) else "o-",
            color=colormaps["tab20"](number % 20),
            label=name,
            linewidth=1.3,
            markersize=4,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("items")
    _finish(path, figure, axes)


def _figure(purpose: str) -> tuple[Any, Any]:
    """A figure and its axes."""
    require("matplotlib", "evaluate", purpose)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), layout="constrained")
    return figure, figure.add_subplot()


def _finish(path: Path, figure: Any, axes: Any) -> None:
    """Label speeds, add the legend, and write the PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    axes.set_ylabel("queries per second, one thread")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.grid(alpha=0.2)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure).print_png(str(path))  # type: ignore[no-untyped-call]


def plot_curves(path: Path, points: Sequence[CurvePoint]) -> None:
    """Draw recall against queries per second as a PNG, a line for each system; rivals are dashed."""
    figure, axes = _figure("plotting curves")
    lines: dict[str, list[CurvePoint]] = {}
    for point in sorted(points, key=lambda point: point.recall):
        lines.setdefault(re.sub(r"IVF\d+", "IVF", point.system), []).append(point)
    for name, line in lines.items():
        recalls, speeds = [point.recall for point in line], [point.queries_per_second for point in line]
        axes.plot(
            recalls,
            speeds,
            "s--" if name.startswith(RIVALS) else "o-",
            label=name,
            linewidth=1.3,
            markersize=4,
        )
    axes.set_yscale("log")
    axes.set_xlabel("recall against exact search")
    _finish(path, figure, axes)


def _lines(speeds: Sequence[Speed]) -> dict[str, list[Speed]]:
    """The speeds of each system by its number of items; the fastest system first, as in a legend."""
    lines: dict[str, list[Speed]] = {}
    for speed in sorted(speeds, key=lambda speed: speed.n):
        if not speed.system.endswith(" km"):
            lines.setdefault(re.sub(r"IVF\d+", "IVF", speed.system), []).append(speed)
    return dict(sorted(lines.items(), key=lambda line: -line[1][-1].queries_per_second))
