"""Results for people and for later: a table, runs, a plot, and all figures as JSON, in one artifact."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import orjson

from genius import storage
from genius.display import Table
from genius.errors import require
from genius.evaluate.protocol import Evaluation, Measurement
from genius.evaluate.run import Result

KIND = "results"
FORMAT = 1


FAIR = "dense-fair"


def table(evaluation: Evaluation, pool: str) -> Table:
    """A row per task, a column per system: the hit rate at the task's rank, in percent; then the mean, and
    what share that is of fair dense search's."""
    made = _by_task(evaluation, pool)
    means = dict(zip(made.columns, made.rows[-1], strict=True)) if made.rows else {}
    fair = means.get(FAIR)
    if isinstance(fair, float) and fair > 0:
        shares = [100 * mean / fair if isinstance(mean, float) else None for mean in made.rows[-1][2:]]
        made.add(f"% of {FAIR}", None, *shares)
    return made


def _by_task(evaluation: Evaluation, pool: str) -> Table:
    shown = _headlines(evaluation, pool)
    systems = list(dict.fromkeys(one.system for one in shown))
    tasks = list(dict.fromkeys(one.task for one in shown))
    made = Table(("task", "queries", *systems), title=f"hit rate in the {pool} pool")
    by_place = {(one.task, one.system): one for one in shown}
    for task in tasks:
        row = [by_place.get((task, system)) for system in systems]
        queries = next(one.queries for one in row if one is not None)
        made.add(task, queries, *(None if one is None else 100 * one.value for one in row))
    return made


def _headlines(evaluation: Evaluation, pool: str) -> list[Measurement]:
    """Each task at its own rank, then the mean of these."""
    from genius.data.tasks import Task

    chosen = []
    for one in evaluation.measurements:
        if one.pool != pool:
            continue
        dataset, _, number = one.task.rpartition("_task")
        rank = "headline" if one.task == "mean" else f"hit@{Task(dataset, int(number)).cutoff}"
        if one.metric == rank:
            chosen.append(one)
    return chosen


def write_results(path: Path, result: Result) -> None:
    """Write an evaluation as an artifact: results.json, table.md, a plot, and TREC runs."""
    evaluation = result.evaluation
    pools = list(dict.fromkeys(one.pool for one in evaluation.measurements))
    with storage.create(
        path, kind=KIND, format=FORMAT, settings=result.settings, made_from=result.made_from
    ) as draft:
        rows = [dataclasses.asdict(one) for one in evaluation.measurements]
        (draft.folder / "results.json").write_bytes(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
        text = "\n".join(f"## {pool} pool\n\n{table(evaluation, pool).markdown()}" for pool in pools)
        (draft.folder / "table.md").write_text(text, encoding="utf-8")
        _plot(draft.folder / "plot.png", evaluation, pools)
        (draft.folder / "runs").mkdir()
        for run in evaluation.runs:
            name = f"{run.system}_{run.pool}_{run.task}.txt"
            with (draft.folder / "runs" / name).open("w", encoding="utf-8") as file:
                file.writelines(run.lines())
        draft.counts["figures"] = len(rows)


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
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    FigureCanvasAgg(figure).print_png(str(path))  # type: ignore[no-untyped-call]
