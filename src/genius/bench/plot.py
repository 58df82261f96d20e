"""Queries per second by the number of items, a line for each system: the paper's Fig. 4."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from genius.bench.speed import Speed
from genius.errors import require

RIVALS = ("HF", "faiss", "usearch")


def plot_speeds(path: Path, speeds: Sequence[Speed]) -> None:
    """Draw speeds as a PNG with two logarithmic axes; rivals are dashed.

    Systems that differ from another only by the given modality are left out.
    """
    require("matplotlib", "evaluate", "plotting speeds")
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), layout="constrained")
    axes = figure.add_subplot()
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
    axes.set_ylabel("queries per second, one thread")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.grid(alpha=0.2)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure).print_png(str(path))  # type: ignore[no-untyped-call]


def _lines(speeds: Sequence[Speed]) -> dict[str, list[Speed]]:
    """The speeds of each system by its number of items; the fastest system first, as in a legend."""
    lines: dict[str, list[Speed]] = {}
    for speed in sorted(speeds, key=lambda speed: speed.n):
        if not speed.system.endswith(" km"):
            lines.setdefault(re.sub(r"IVF\d+", "IVF", speed.system), []).append(speed)
    return dict(sorted(lines.items(), key=lambda line: -line[1][-1].queries_per_second))
