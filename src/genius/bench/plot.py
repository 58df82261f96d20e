"""Queries a second over the number of items, a line for each system: the paper's Fig. 4."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from genius.bench.speed import Speed
from genius.errors import require


def plot_speeds(path: Path, found: Sequence[Speed]) -> None:
    """Draw what was measured; both axes are logarithmic. Others' systems are dashed; rows that only differ in
    being told the modality are left out."""
    require("matplotlib", "evaluate", "plotting speeds")
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), layout="constrained")
    axes = figure.add_subplot()
    for number, (name, some) in enumerate(_lines(found).items()):
        theirs = name.startswith(("HF", "faiss", "usearch"))
        axes.plot(
            [one.n for one in some],
            [one.queries_per_second for one in some],
            "s--" if theirs else "o-",
            color=colormaps["tab20"](number % 20),
            label=name,
            linewidth=1.3,
            markersize=4,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("items")
    axes.set_ylabel("queries a second, one thread")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.grid(alpha=0.2)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure).print_png(str(path))  # type: ignore[no-untyped-call]


def _lines(found: Sequence[Speed]) -> dict[str, list[Speed]]:
    """Systems by name, the quickest first, as a legend is read; each by its number of items."""
    lines: dict[str, list[Speed]] = {}
    for one in sorted(found, key=lambda one: one.n):
        if not one.system.endswith(" km"):
            lines.setdefault(re.sub(r"IVF\d+", "IVF", one.system), []).append(one)
    return dict(sorted(lines.items(), key=lambda line: -line[1][-1].queries_per_second))
