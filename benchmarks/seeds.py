"""Tables of what `quality.py` printed, as means over seeds: by task, local and union, and as ratios.

    python benchmarks/quality.py --tree TREE --final --seed 1 > 1.jsonl     # and so on
    python benchmarks/seeds.py 0.jsonl 1.jsonl 2.jsonl [--beside paper=paper.jsonl reference=reference.jsonl]

A row is a task, a column a system: hit rate @5 in percent. After the tasks come their mean, its ratio to
the dense baseline, the mean of each file, and the number of items ranked. The next tables have the means of
searches that infer the wanted modality; targets seen in training and unseen ones, with paired differences
of `default` and `geometry`; and the health of the codes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from bars import INFERRED, METRIC, UNSEEN
from options import script_parser

from genius.display import Table

DENSE_BASELINE, MEAN = "dense-fair", "mean"
LEARNED = ("codes", "geometry", "genius", "genius+rerank")
SHOWN = {f"{name}{kind}" for name in LEARNED for kind in ("", INFERRED)}
"""The systems that are shown of a recipe that stands beside another."""
RIVAL = "-like"
"""What the names of rivals' systems have in them."""
Key = tuple[str, str, str, str]


class Figures:
    """The figures of several runs, by system, pool, task and metric."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.runs: list[dict[Key, float]] = []
        self.queries: dict[str, int] = {}
        for path in paths:
            rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.startswith("{")]
            self.runs.append(
                {(row["system"], row["pool"], row["task"], row["metric"]): row["value"] for row in rows}
            )
            self.queries |= {row["task"]: row["queries"] for row in rows if row["metric"] == METRIC}

    def add(self, recipe: str, path: Path) -> None:
        """Add the systems in `SHOWN` of another recipe's run, or a rival's own, to all runs, under the name
        of the recipe."""
        for (system, pool, task, metric), value in Figures([path]).runs[0].items():
            if system in SHOWN or RIVAL in system:
                for run in self.runs:
                    run[f"{recipe}: {system}", pool, task, metric] = value

    def mean(self, system: str, pool: str, task: str, metric: str) -> float | None:
        """The mean over runs; None unless all have the figure."""
        key = system, pool, task, metric
        values = [run[key] for run in self.runs if key in run]
        return float(np.mean(values)) if len(values) == len(self.runs) else None

    def systems(self, pool: str, metric: str = METRIC) -> list[str]:
        """The systems that have a figure in this pool by this metric."""
        return list(dict.fromkeys(key[0] for key in self.runs[0] if (key[1], key[3]) == (pool, metric)))

    def tasks(self, pool: str, metric: str = METRIC) -> list[str]:
        """The tasks, and their mean, that have a figure in this pool by this metric."""
        return list(dict.fromkeys(key[2] for key in self.runs[0] if (key[1], key[3]) == (pool, metric)))


def main() -> None:
    """Print the tables in Markdown."""
    parser = script_parser(__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="what quality.py printed, one file per seed")
    parser.add_argument(
        "--beside", nargs="*", default=[], metavar="NAME=FILE", help="one run of another recipe"
    )
    options = parser.parse_args()
    figures = Figures(options.files)
    for beside in options.beside:
        name, _, path = beside.partition("=")
        figures.add(name, Path(path))
    for pool in ("union", "local"):
        if figures.systems(pool):
            print(f"{pool} pool:\n\n{by_task(figures, pool).markdown()}")
    print(f"the wanted modality inferred, union pool:\n\n{inferred(figures).markdown()}")
    print(f"seen and unseen targets, union pool:\n\n{seen(figures).markdown()}")
    print(f"unseen targets, default minus geometry, union pool:\n\n{differences(figures).markdown()}")
    print(f"the quantizer:\n\n{quantizer(figures).markdown()}")


def by_task(figures: Figures, pool: str) -> Table:
    """A row for each task; then the mean, its ratio to the dense baseline, each file's mean, items ranked."""
    systems = [name for name in figures.systems(pool) if not name.endswith(INFERRED)]
    table = Table(("task", "queries", *systems))
    for task in [*(name for name in figures.tasks(pool) if name != MEAN), MEAN]:
        values = [figures.mean(system, pool, task, METRIC) for system in systems]
        table.add(task, figures.queries[task], *map(_percent, values))
    means = [figures.mean(system, pool, MEAN, METRIC) for system in systems]
    dense_baseline = figures.mean(DENSE_BASELINE, pool, MEAN, METRIC)
    ratios = [f"{mean / dense_baseline:.3f}" if mean is not None and dense_baseline else "" for mean in means]
    table.add("ratio to the dense baseline", "", *ratios)
    for number, run in enumerate(figures.runs):
        own = [run.get((system, pool, MEAN, METRIC)) for system in systems]
        table.add(f"mean, file {number + 1}", "", *map(_percent, own))
    items = [figures.mean(system, pool, MEAN, "items") for system in systems]
    table.add("items ranked", "", *("" if count is None else f"{count:,.0f}" for count in items))
    return table


def inferred(figures: Figures) -> Table:
    """A row for each system that inferred the wanted modality."""
    table = Table(("system", "mean"))
    for system in figures.systems("union"):
        if system.endswith(INFERRED):
            table.add(system.removesuffix(INFERRED), _percent(figures.mean(system, "union", MEAN, METRIC)))
    return table


def seen(figures: Figures) -> Table:
    """A row for each system: hit rates of targets seen in training and of unseen ones, by task."""
    kinds = {f"{METRIC}, {kind}": kind for kind in ("seen", "unseen")}
    seen_tasks, unseen_tasks = (figures.tasks("union", metric) for metric in kinds)
    tasks = [task for task in seen_tasks if task in unseen_tasks and task != MEAN]
    columns = [(task, metric) for task in tasks for metric in kinds]
    table = Table(("system", *(f"{task}, {kinds[metric]}" for task, metric in columns)))
    for system in figures.systems("union", f"{METRIC}, seen"):
        if system.endswith(INFERRED):
            continue
        table.add(system, *(_percent(figures.mean(system, "union", *column)) for column in columns))
    return table


def differences(figures: Figures) -> Table:
    """A row for each task with unseen targets: paired differences of hit rates."""
    table = Table(("task", "mean", "95 % from", "to"))
    for task in dict.fromkeys(key[2] for key in figures.runs[0] if key[0] == UNSEEN):
        table.add(task, *(figures.mean(UNSEEN, "union", task, name) for name in ("mean", "low", "high")))
    return table


def quantizer(figures: Figures) -> Table:
    """A row for each figure of the codes' health: its mean, and its value in each file."""
    table = Table(("figure", "mean", *(f"file {number + 1}" for number in range(len(figures.runs)))))
    for key in figures.runs[0]:
        if key[0] == "quantizer":
            values = [figures.mean(*key), *(run.get(key) for run in figures.runs)]
            table.add(key[3], *("" if value is None else f"{value:.4f}" for value in values))
    return table


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


if __name__ == "__main__":
    main()
