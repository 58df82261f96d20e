"""The figures of an examination as plots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from genius import atomic
from genius.doctor.health import RANK, Health
from genius.errors import require
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
    rows = [("mean", health.joined, health.vectors, health.codes)]
    rows += [(task.task, task.joined, task.vectors, task.codes) for task in health.tasks]
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
