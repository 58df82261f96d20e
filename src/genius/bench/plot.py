"""Queries a second over the number of items, a line for each system: the paper's Fig. 4."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from genius.bench.speed import Speed
from genius.errors import require


def plot_speeds(path: Path, found: Sequence[Speed]) -> None:
    """Draw what was measured; both axes are logarithmic."""
    require("matplotlib", "evaluate", "plotting speeds")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.add_subplot()
    for number, name in enumerate(dict.fromkeys(one.system for one in found)):
        some = sorted((one for one in found if one.system == name), key=lambda one: one.n)
        sizes, rates = [one.n for one in some], [one.queries_per_second for one in some]
        axes.plot(sizes, rates, "osv^D*"[number // 10 % 6] + "-", label=name, linewidth=1, markersize=4)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("items")
    axes.set_ylabel("queries a second, one thread")
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure).print_png(str(path))  # type: ignore[no-untyped-call]
