"""An evaluation beside the published figures: the paper's tables, with our own rows or columns in them."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from genius.data.records import Modality
from genius.data.tasks import Task
from genius.display import DASH, Cell, Table
from genius.evaluate.published import PublishedMethod, PublishedTable, published_tables
from genius.evaluate.run import Result
from genius.evaluate.systems import code_row

DECIMALS = 1

_DATASETS = {
    "visualnews": "VisualNews",
    "mscoco": "COCO",
    "fashion200k": "Fashion200K",
    "webqa": "WebQA",
    "edis": "EDIS",
    "nights": "NIGHTS",
    "oven": "OVEN",
    "infoseek": "InfoSeek",
    "fashioniq": "FashionIQ",
    "cirr": "CIRR",
}
_QUERIES = {Modality.TEXT: "q_t", Modality.IMAGE: "q_i", Modality.PAIR: "(q_i,q_t)"}
_TARGETS = {Modality.TEXT: "c_t", Modality.IMAGE: "c_i", Modality.PAIR: "(c_i,c_t)"}


@dataclass(frozen=True)
class ComparedFigure:
    """One cell of a table: the published figure, ours, or both; in percent, None where there is none."""

    table: int
    source: str
    pool: str
    method: str
    """The published method."""
    task: str
    metric: str
    published: float | None
    system: str | None
    """Our system that does the same as the method; None if there is none."""
    ours: float | None
    queries: int | None
    """How many ours was measured on."""


class PaperComparison:
    """The paper's tables for the pools that were searched, with the figures of an evaluation in them."""

    def __init__(self, result: Result) -> None:
        evaluation, stages = result.evaluation, result.stages
        pools = {measurement.pool for measurement in evaluation.measurements}
        self._tables = [table for table in published_tables() if table.pool in pools]
        self._ours = {measurement.key: measurement for measurement in evaluation.measurements}
        self._decoder = code_row(stages)
        self._stages, self._unpublished = stages, result.left_out

    def figures(self) -> Iterator[ComparedFigure]:
        """Every cell of every table, one by one."""
        for table in self._tables:
            for method in table.methods:
                for task in table.tasks:
                    yield self._figure(table, method, task)

    def tables(self) -> list[Table]:
        """The tables in the paper's rows and columns, ours beside their counterparts."""
        return [self._by_methods(t) if t.rows == "methods" else self._by_tasks(t) for t in self._tables]

    def notes(self) -> list[str]:
        """What a reader of the tables should know."""
        notes = []
        absent = [f"{_dataset(task)} {_arrow(task)}" for task in self._absent()]
        if absent:
            notes.append(f"Not in this tree, so that ours is {DASH}: {', '.join(absent)}.")
        if self._unpublished:
            names = ", ".join(self._unpublished)
            notes.append(f"In this tree, but not in the paper, and not searched: {names}.")
        if "quantizer" not in self._stages:
            notes.append("The model has no quantizer yet: it was searched by its embeddings alone.")
        elif "decoder" not in self._stages:
            notes.append("The model has no learned decoder: ours was searched by geometry.")
        return notes + [f"Table {table.number}: {note}" for table in self._tables for note in table.notes]

    def markdown(self) -> str:
        """Tables and notes as Markdown."""
        tables = [f"## {table.title}\n\n{table.markdown()}" for table in self.tables()]
        return "\n".join([*tables, *(f"- {note}" for note in self.notes())]) + "\n"

    def csv(self) -> str:
        """All cells as CSV."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([field.name for field in dataclasses.fields(ComparedFigure)])
        writer.writerows(dataclasses.astuple(figure) for figure in self.figures())
        return text.getvalue()

    # --- cells

    def _figure(self, table: PublishedTable, method: PublishedMethod, task: Task) -> ComparedFigure:
        system, metric = method.counterpart(self._decoder), f"hit@{task.cutoff}"
        measured = self._ours.get((system or "", table.pool, str(task), metric))
        return ComparedFigure(
            table=table.number,
            source=table.source,
            pool=table.pool,
            method=method.label,
            task=str(task),
            metric=metric,
            published=method.values.get(task),
            system=system,
            ours=None if measured is None else round(100 * measured.value, 2),
            queries=None if measured is None else measured.queries,
        )

    def _cells(
        self, table: PublishedTable, method: PublishedMethod, *, ours: bool, tasks: Sequence[Task]
    ) -> list[Cell]:
        figures = [self._figure(table, method, task) for task in tasks]
        values = [figure.ours if ours else figure.published for figure in figures]
        return [DASH if value is None else value for value in values]

    def _lines(self, table: PublishedTable) -> list[tuple[str, PublishedMethod, bool]]:
        """The methods of a table by name, each followed by ours if we have its counterpart."""
        lines = []
        for method in table.methods:
            lines.append((method.label, method, False))
            if method.counterpart(self._decoder) is not None:
                lines.append((_our_label(method), method, True))
        return lines

    def _absent(self) -> list[Task]:
        measured = {task for _, _, task, _ in self._ours}
        tasks = dict.fromkeys(task for table in self._tables for task in table.tasks)
        return [task for task in tasks if str(task) not in measured]

    # --- tables

    def _by_methods(self, table: PublishedTable) -> Table:
        columns = map(_header, table.tasks)
        shown = Table(("method", *columns), title=_title(table), decimals=DECIMALS)
        for name, method, ours in self._lines(table):
            shown.add(name, *self._cells(table, method, ours=ours, tasks=table.tasks))
        return shown

    def _by_tasks(self, table: PublishedTable) -> Table:
        lines = self._lines(table)
        names = [name.replace(" (", "\n(") for name, _, _ in lines]
        shown = Table(("task", "", *names), title=_title(table), decimals=DECIMALS)
        columns = [self._cells(table, method, ours=ours, tasks=table.tasks) for _, method, ours in lines]
        for task, row in zip(table.tasks, zip(*columns, strict=True), strict=True):
            shown.add(f"{_arrow(task)} {_dataset(task)}", _metric(task), *row)
        absent = self._absent()
        here = [place for place, task in enumerate(table.tasks) if task not in absent]
        whole = len(here) == len(table.tasks)
        averages: list[Cell] = [
            (_mean(column) if whole else DASH) if ours else method.average
            for (_, method, ours), column in zip(lines, columns, strict=True)
        ]
        shown.add("average", None, *averages)
        if here and not whole:
            shared = [_mean([column[place] for place in here]) for column in columns]
            shown.add(f"average of these {len(here)}", None, *shared)
        return shown


def code_decoder(stages: Sequence[str]) -> str:
    """The name of the rows that are searched by codes: by the learned decoder if a model has it."""
    return "genius" if "decoder" in stages else "geometry"


def _our_label(method: PublishedMethod) -> str:
    if method.dense:
        return "ours (dense)"
    return f"ours{'^R' if method.reranked else ''} (B = {method.beams})"


def _title(table: PublishedTable) -> str:
    return f"{table.source}: {table.title}"


def _dataset(task: Task) -> str:
    return _DATASETS[task.dataset]


def _arrow(task: Task) -> str:
    return f"{_QUERIES[task.query]}→{_TARGETS[task.target]}"


def _header(task: Task) -> str:
    """A task at the head of a column, in lines."""
    return "\n".join((f"{_QUERIES[task.query]}→", _TARGETS[task.target], _dataset(task), _metric(task)))


def _metric(task: Task) -> str:
    return f"R@{task.cutoff}"


def _mean(column: Sequence[Cell]) -> Cell:
    """Of the figures in a column, or a dash if one is missing."""
    values = [cell for cell in column if isinstance(cell, float)]
    return sum(values) / len(values) if values and len(values) == len(column) else DASH
