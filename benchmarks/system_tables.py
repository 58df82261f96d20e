"""The tables that `systems.py` prints of what it has kept; not a script itself.

Hit rates @5 in percent. With several seeds a figure is their mean with its 95 % interval over seeds
(Student's t), in square brackets; with one seed the interval is over queries, by bootstrap, in round ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from system_rows import DENSE_BASELINE, POOLS, Row

from genius.data.tasks import Task
from genius.display import DASH, Cell, Table

Record = Mapping[str, Any]
"""What `system_figures.evaluation_record` made, and how it was trained."""
Records = Mapping[tuple[str, int, str], Record]
RERANKED = "+rerank"
STUDENT_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""The 0.975 quantile for 1 to 9 degrees of freedom."""
PAPER_SHARES = (
    ("union pool, mean over tasks", 0.59, 0.78),
    ("text → image in a pool of its own (COCO)", 0.84, 0.96),
)
"""The paper's plain and re-ranked figures as shares of dense search (its Tables 1 and 2)."""
PAPER_TEXT_TO_IMAGE: dict[str, tuple[float, float]] = {
    "grace-numeric-like": (28.9, 0.14),
    "grace-string-like": (39.0, 0.37),
    "grace-semantic-like": (34.9, 30.4),
    "grace-structured-like": (59.5, 39.2),
    "irgen-like": (68.9, 50.7),
    "paper, flickr8k alone": (84.0, 67.8),
    "paper": (74.6, 65.5),
}
"""R@5 on Flickr30K and COCO in the supplement's Table 7 (the paper's Table 3 has some of these): trained on
that data set, and of GENIUS also on M-BEIR."""


def print_tables(rows: Sequence[Row], records: Records) -> str:
    """Print all tables as Markdown, and return that."""
    whole = [row for row in rows if row.is_whole]
    figures = SystemFigures(records)
    tables = {
        "Who finds what": who_finds_what(whole, figures),
        "By data set, union pool": by_dataset(whole, figures),
        "Beside the paper's shares of dense search": beside_paper(whole, figures),
        "Text → image (task 0), R@5, pools of unseen items": text_to_image(rows, figures),
        "Image → image (task 4), R@5, pools of unseen items": image_to_image(whole, figures),
        "Trained without a data set, measured on it": in_own_pools([r for r in rows if r.dataset], figures),
        "Trained on one data set alone": ranks([row for row in rows if row.task], figures),
    }
    text = "\n".join(f"### {title}\n\n{table.markdown()}" for title, table in tables.items() if table.rows)
    print(text, flush=True)
    return text


class SystemFigures:
    """Figures of what is kept, by row, system and pool, over seeds."""

    def __init__(self, records: Records) -> None:
        self.records = records

    def of(self, row: Row, pool: str) -> list[Record]:
        """The records of a row's seeds."""
        return [self.records[row.name, s, pool] for s in row.seeds if (row.name, s, pool) in self.records]

    def mean(self, row: Row, system: str, pool: str) -> str:
        """The mean over tasks with its interval."""
        return self._shown(row, system, pool, partial(_mean, system), "interval", 100, 1)

    def ratio(self, row: Row, system: str, pool: str) -> str:
        """The same as a share of the dense baseline's."""
        return self._shown(row, system, pool, partial(_ratio, system), "ratio_interval", 1, 2)

    def value(self, row: Row, system: str, pool: str, figure: Callable[[Record], float | None]) -> Cell:
        """A figure in percent, the mean over seeds."""
        values = [figure(record) for record in self.of(row, pool) if system in record["systems"]]
        known = [100 * value for value in values if value is not None]
        return f"{np.mean(known):.1f}" if known else DASH

    def _shown(
        self,
        row: Row,
        system: str,
        pool: str,
        figure: Callable[[Record], float],
        interval: str,
        scale: float,
        digits: int,
    ) -> str:
        records = [record for record in self.of(row, pool) if system in record["systems"]]
        if not records:
            return DASH
        values = np.array([scale * figure(record) for record in records])
        if len(values) == 1:
            low, high = (scale * end for end in records[0]["systems"][system][interval])
            return f"{values[0]:.{digits}f} ({low:.{digits}f} – {high:.{digits}f})"
        quantile = STUDENT_T[min(len(values) - 1, len(STUDENT_T)) - 1]
        margin = quantile * values.std(ddof=1) / len(values) ** 0.5
        mean = values.mean()
        return f"{mean:.{digits}f} [{mean - margin:.{digits}f} – {mean + margin:.{digits}f}]"


# --- figures of one record


def _by_task(system: str, record: Record, name: str = "hit@5") -> dict[str, float]:
    tasks = record["systems"][system]["tasks"]
    return {task: values[name] for task, values in tasks.items() if name in values}


def _task_value(task: str, system: str, record: Record) -> float | None:
    return _by_task(system, record).get(task)


def _mean(system: str, record: Record) -> float:
    return float(np.mean(list(_by_task(system, record).values())))


def _ratio(system: str, record: Record) -> float:
    return _mean(system, record) / max(_mean(DENSE_BASELINE, record), 1e-12)


def _dataset_means(system: str, record: Record) -> dict[str, float]:
    by_dataset: dict[str, list[float]] = {}
    for task, value in _by_task(system, record).items():
        by_dataset.setdefault(Task.parse(task).dataset, []).append(value)
    return {dataset: float(np.mean(values)) for dataset, values in by_dataset.items()}


def _dataset_mean(dataset: str, system: str, record: Record) -> float | None:
    return _dataset_means(system, record).get(dataset)


def _over_datasets(system: str, record: Record) -> float:
    return float(np.mean(list(_dataset_means(system, record).values())))


def _kind_mean(kind: str, system: str, record: Record) -> float | None:
    """The mean over the tasks that have both seen and unseen answers."""
    seen, unseen = (_by_task(system, record, name) for name in ("seen", "unseen"))
    values = [{"seen": seen, "unseen": unseen}[kind][task] for task in seen if task in unseen]
    return float(np.mean(values)) if values else None


# --- tables


def shown_systems(row: Row) -> list[str]:
    """The plain systems of a row that have lines: its own, and with the first row what all are beside."""
    if row.name == "default":
        return [DENSE_BASELINE, "codes", "geometry", "default"]
    return [row.main_system]


def line_name(row: Row, system: str) -> str:
    """What a line is called."""
    return system if row.name == "default" else row.name


def who_finds_what(rows: Sequence[Row], figures: SystemFigures) -> Table:
    """A line for each system and pool: plain and re-ranked, seen and unseen, seeds, what training took."""
    kinds = ("mean", "of dense", "over data sets", "seen", "unseen")
    columns = [
        "system",
        "pool",
        "seeds",
        *(f"{way}, {kind}" for way in ("plain", "re-ranked") for kind in kinds),
    ]
    table = Table((*columns, "decoder's steps", "epochs", "hours"))
    for row in rows:
        measured = [pool for pool in POOLS if figures.of(row, pool)]
        if not measured:
            table.add(row.name, DASH, "not measured yet", *(DASH for _ in table.columns[3:]))
        for system in shown_systems(row) if measured else ():
            for pool in POOLS:
                records = figures.of(row, pool)
                cells = [
                    *_cells(row, system, pool, figures),
                    *_cells(row, f"{system}{RERANKED}", pool, figures),
                ]
                seeds = f"{len(records)} of {len(row.seeds)}" if records else "not measured yet"
                table.add(line_name(row, system), pool, seeds, *cells, *_training(records))
    return table


def _cells(row: Row, system: str, pool: str, figures: SystemFigures) -> list[Cell]:
    return [
        figures.mean(row, system, pool),
        figures.ratio(row, system, pool),
        figures.value(row, system, pool, partial(_over_datasets, system)),
        figures.value(row, system, pool, partial(_kind_mean, "seen", system)),
        figures.value(row, system, pool, partial(_kind_mean, "unseen", system)),
    ]


def _training(records: Sequence[Record]) -> list[Cell]:
    """The decoder's steps and epochs, and the hours of all stages, shared ones too: the mean over seeds."""
    if not records:
        return [DASH, DASH, DASH]
    seconds = [sum(stage["seconds"] for stage in record["training"].values()) for record in records]
    decoder, epochs = records[0]["training"].get("decoder"), records[0]["epochs"]
    return [
        f"{decoder['steps']:,}" if decoder else DASH,
        f"{epochs:.1f}" if epochs else DASH,
        f"{np.mean(seconds) / 3600:.1f}",
    ]


def by_dataset(rows: Sequence[Row], figures: SystemFigures, pool: str = "union") -> Table:
    """A line for each system: the mean of each data set, plain and re-ranked."""
    datasets = {dataset for record in figures.records.values() for dataset in _datasets(record)}
    return _by_key(rows, figures, pool, sorted(datasets), _dataset_mean)


def _by_key(
    rows: Sequence[Row],
    figures: SystemFigures,
    pool: str,
    keys: Sequence[str],
    figure: Callable[[str, str, Record], float | None],
) -> Table:
    """A line for each system that is measured in a pool: a figure for each key, plain and re-ranked."""
    table = Table(("system", *(f"{key}, {way}" for key in keys for way in ("plain", "re-ranked"))))
    for row in rows if keys else ():
        for system in shown_systems(row) if figures.of(row, pool) else ():
            cells = [
                figures.value(row, name, pool, partial(figure, key, name))
                for key in keys
                for name in (system, f"{system}{RERANKED}")
            ]
            table.add(line_name(row, system), *cells)
    return table


def _datasets(record: Record) -> set[str]:
    return {Task.parse(task).dataset for task in record["queries"]}


def beside_paper(rows: Sequence[Row], figures: SystemFigures) -> Table:
    """The paper's shares of dense search, and those of the rows that train its method, and of ours."""
    compared = [row for row in rows if row.name in ("paper", "reference", "default")]
    columns = [f"{row.name}, {way}" for row in compared for way in ("plain", "re-ranked")]
    table = Table(("", "the paper, plain", "the paper, re-ranked", *columns))
    (union, *union_shares), (own, *own_shares) = PAPER_SHARES
    table.add(union, *union_shares, *_shares(compared, figures, "union", None))
    table.add(
        f"{own}; ours: unseen pools, mean over tasks", None, None, *_shares(compared, figures, "unseen", None)
    )
    table.add(f"{own}; ours: task 0", *own_shares, *_shares(compared, figures, "unseen", 0))
    return table if any(figures.of(row, pool) for row in compared for pool in POOLS) else Table(())


def _shares(rows: Sequence[Row], figures: SystemFigures, pool: str, number: int | None) -> list[Cell]:
    cells: list[Cell] = []
    for row in rows:
        for name in (row.main_system, f"{row.main_system}{RERANKED}"):
            values = []
            for record in figures.of(row, pool):
                own, dense = (_numbered_mean(number, system, record) for system in (name, DENSE_BASELINE))
                if own is not None and dense:
                    values.append(own / dense)
            cells.append(f"{np.mean(values):.2f}" if values else DASH)
    return cells


def _numbered_mean(number: int | None, system: str, record: Record, name: str = "hit@5") -> float | None:
    """The mean over the tasks of a number, or of all."""
    by_task = _by_task(system, record, name)
    values = [value for task, value in by_task.items() if number in (None, Task.parse(task).number)]
    return float(np.mean(values)) if values else None


def text_to_image(rows: Sequence[Row], figures: SystemFigures) -> Table:
    """A line for each system of the paper's Table 3, and ours, by data set; the published R@5 beside."""
    ours = _single_task(rows, figures, 0)
    table = Table((*ours.columns, "Flickr30K, published", "COCO, published"))
    for line in ours.rows:
        table.add(*line, *map(str, PAPER_TEXT_TO_IMAGE.get(str(line[0]), (DASH, DASH))))
    return table


def image_to_image(rows: Sequence[Row], figures: SystemFigures) -> Table:
    """A line for each system: what IRGen was published for."""
    return _single_task(rows, figures, 4)


def _single_task(rows: Sequence[Row], figures: SystemFigures, number: int, pool: str = "unseen") -> Table:
    """A line for each system: its hit rates in the tasks of a number, plain and re-ranked."""
    tasks = {task for record in figures.records.values() for task in record["queries"]}
    chosen = sorted(task for task in tasks if Task.parse(task).number == number)
    return _by_key(rows, figures, pool, chosen, _task_value)


def in_own_pools(rows: Sequence[Row], figures: SystemFigures) -> Table:
    """A line for each row, system and pool: the mean over the tasks of its data set."""
    table = Table(("row", "system", "pool", "plain", "of dense", "re-ranked", "of dense"))
    for row in rows:
        for pool in POOLS:
            for system in [DENSE_BASELINE, "codes", "geometry", row.main_system]:
                if figures.of(row, pool):
                    reranked = f"{system}{RERANKED}"
                    plain = figures.mean(row, system, pool), figures.ratio(row, system, pool)
                    better = figures.mean(row, reranked, pool), figures.ratio(row, reranked, pool)
                    table.add(row.name, system, pool, *plain, *better)
    return table


def ranks(rows: Sequence[Row], figures: SystemFigures, pool: str = "split") -> Table:
    """A line for each row and system: R@1, R@5 and R@10 of its task among the items of the split."""
    names = ("hit@1", "hit@5", "hit@10")
    table = Table(("row", "system", *(name.replace("hit", "R") for name in names)))
    for row in rows:
        for system in row.systems if figures.of(row, pool) else ():
            cells = [
                figures.value(row, system, pool, partial(_numbered_mean, None, system, name=name))
                for name in names
            ]
            table.add(row.name, system, *cells)
    return table
