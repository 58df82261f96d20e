"""Results for people and for later: a table, runs, a plot, and all figures as JSON, in one artifact."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import orjson

from genius import storage
from genius.data.tasks import Task
from genius.display import Table
from genius.errors import require
from genius.evaluate.paper import PaperComparison
from genius.evaluate.protocol import Evaluation, Measurement
from genius.evaluate.run import Result

KIND = "results"
FORMAT = 1


BASELINE = "dense-fair"


def table(evaluation: Evaluation, pool: str) -> Table:
    """A row per task, a column per system: the hit rate at the task's rank, in percent; then the mean, its
    share of the dense baseline's, and for how many queries the engine scanned the pool instead of searching
    codes."""
    by_task = _by_task(evaluation, pool)
    means = dict(zip(by_task.columns, by_task.rows[-1], strict=True)) if by_task.rows else {}
    baseline = means.get(BASELINE)
    if isinstance(baseline, float) and baseline > 0:
        shares = [100 * mean / baseline if isinstance(mean, float) else None for mean in by_task.rows[-1][2:]]
        by_task.add(f"% of {BASELINE}", None, *shares)
    scanned = {
        measurement.system: 100 * measurement.value
        for measurement in evaluation.measurements
        if (measurement.pool, measurement.task, measurement.metric) == (pool, "mean", "scanned")
    }
    if any(scanned.values()):
        by_task.add("% scanned", None, *(scanned.get(system) for system in by_task.columns[2:]))
    return by_task


def _by_task(evaluation: Evaluation, pool: str) -> Table:
    headlines = {
        (measurement.task, measurement.system): measurement for measurement in _headlines(evaluation, pool)
    }
    systems = list(dict.fromkeys(system for _, system in headlines))
    by_task = Table(("task", "queries", *systems), title=f"hit rate in the {pool} pool")
    for task in dict.fromkeys(task for task, _ in headlines):
        row = [headlines.get((task, system)) for system in systems]
        queries = next(measurement.queries for measurement in row if measurement is not None)
        values = (None if measurement is None else 100 * measurement.value for measurement in row)
        by_task.add(task, queries, *values)
    return by_task


def _headlines(evaluation: Evaluation, pool: str) -> list[Measurement]:
    """Each task at its own rank, then the mean of these."""
    return [
        measurement
        for measurement in evaluation.measurements
        if measurement.pool == pool and measurement.metric == _headline_metric(measurement.task)
    ]


def _headline_metric(task: str) -> str:
    return "headline" if task == "mean" else f"hit@{Task.parse(task).cutoff}"


def write_results(path: Path, result: Result) -> None:
    """Write an evaluation as an artifact: results.json, table.md, a plot, and TREC runs; by the paper's
    protocol also its tables with ours in them: paper.md, paper.csv and paper.json."""
    evaluation = result.evaluation
    pools = list(dict.fromkeys(measurement.pool for measurement in evaluation.measurements))
    with storage.create(
        path, kind=KIND, format=FORMAT, settings=result.settings, made_from=result.made_from
    ) as draft:
        rows = [dataclasses.asdict(measurement) for measurement in evaluation.measurements]
        (draft.folder / "results.json").write_bytes(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
        text = "\n".join(f"## {pool} pool\n\n{table(evaluation, pool).markdown()}" for pool in pools)
        (draft.folder / "table.md").write_text(text, encoding="utf-8")
        if result.settings["protocol"] == "genius":
            _write_paper(draft.folder, PaperComparison(result))
        _plot(draft.folder / "plot.png", evaluation, pools)
        (draft.folder / "runs").mkdir()
        for run in evaluation.runs:
            name = f"{run.system}_{run.pool}_{run.task}.txt"
            with (draft.folder / "runs" / name).open("w", encoding="utf-8") as file:
                file.writelines(run.lines())
        draft.counts["figures"] = len(rows)


def _write_paper(folder: Path, comparison: PaperComparison) -> None:
    figures = [dataclasses.asdict(figure) for figure in comparison.figures()]
    (folder / "paper.json").write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2))
    (folder / "paper.csv").write_text(comparison.csv(), encoding="utf-8")
    (folder / "paper.md").write_text(comparison.markdown(), encoding="utf-8")


def _plot(path: Path, evaluation: Evaluation, pools: list[str]) -> None:
    """Bars of the hit rate by task and system, a panel per pool."""
    require("matplotlib", "evaluate", "plotting results")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4 * len(pools)), layout="constrained")
    for number, pool in enumerate(pools, start=1):
        axes = figure.add_subplot(len(pools), 1, number)
        shown = _by_task(evaluation, pool)
        systems = shown.columns[2:]
        for place, system in enumerate(systems):
            heights = [float(row[2 + place] or 0) for row in shown.rows]
            offsets = [task + (place + 0.5) / len(systems) * 0.8 - 0.4 for task in range(len(heights))]
            axes.bar(offsets, heights, width=0.8 / len(systems), label=system)
        axes.set_xticks(range(len(shown.rows)), [str(row[0]) for row in shown.rows], rotation=40, ha="right")
        axes.set_ylabel("hit rate, %")
        axes.set_title(f"{pool} pool")
        axes.legend(frameon=False, loc="upper right")
        axes.spines[["top", "right"]].set_visible(False)
    FigureCanvasAgg(figure).print_png(str(path))  # type: ignore[no-untyped-call]
