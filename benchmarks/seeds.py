"""Tables of what `quality.py` printed, the mean over seeds: by task, local and union, and as a ratio.

    python benchmarks/quality.py --tree TREE --final --seed 1 > 1.jsonl     # and so on
    python benchmarks/seeds.py 0.jsonl 1.jsonl 2.jsonl [--beside paper=paper.jsonl reference=reference.jsonl]

A row is a task, a column a system: hit rate @5 in percent. Behind the tasks come their mean, the share of
fair dense search that this is, each file's own mean, and how many items were ranked. Then come the means
where beams infer the wanted modality, the targets that training showed apart from those that it did not, with
paired differences of the default and geometry, and the health of the codes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from bars import INFERRED, METRIC, UNSEEN

from genius.display import Table

FAIR, MEAN = "dense-fair", "mean"
LEARNED = ("codes", "geometry", "genius", "genius+rerank")
SHOWN = {f"{name}{kind}" for name in LEARNED for kind in ("", INFERRED)}
"""What is shown of a recipe that stands beside another."""
Key = tuple[str, str, str, str]


class Figures:
    """The figures of some runs, by system, pool, task and metric."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.runs: list[dict[Key, float]] = []
        self.queries: dict[str, int] = {}
        for path in paths:
            rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.startswith("{")]
            self.runs.append(
                {(row["system"], row["pool"], row["task"], row["metric"]): row["value"] for row in rows}
            )
            self.queries |= {row["task"]: row["queries"] for row in rows if row["metric"] == METRIC}

    def add(self, name: str, path: Path) -> None:
        """Set the systems of another recipe beside these, under its name: those that its decoder makes."""
        other = Figures([path]).runs[0]
        for run in self.runs:
            run |= {(f"{name}: {key[0]}", *key[1:]): value for key, value in other.items() if key[0] in SHOWN}

    def mean(self, *key: str) -> float | None:
        """The mean over runs, if all have it."""
        values = [run.get(key) for run in self.runs]  # type: ignore[call-overload]
        return None if None in values else float(np.mean(values))

    def names(self, place: int, pool: str, metric: str = METRIC) -> list[str]:
        """What stands at a place of the keys (0: systems, 2: tasks) with a figure of this pool and metric."""
        return list(dict.fromkeys(key[place] for key in self.runs[0] if (key[1], key[3]) == (pool, metric)))


def main() -> None:
    """Print the tables in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument(
        "--beside", nargs="*", default=[], metavar="NAME=FILE", help="another recipe's figures, one run of it"
    )
    options = parser.parse_args()
    figures = Figures(options.files)
    for beside in options.beside:
        name, _, path = beside.partition("=")
        figures.add(name, Path(path))
    for pool in ("union", "local"):
        if figures.names(0, pool):
            print(f"{pool} pool:\n\n{by_task(figures, pool).markdown()}")
    print(f"the wanted modality inferred, union pool:\n\n{inferred(figures).markdown()}")
    print(f"seen and unseen targets, union pool:\n\n{seen(figures).markdown()}")
    print(f"unseen targets, the default less geometry, union pool:\n\n{apart(figures).markdown()}")
    print(f"the quantizer:\n\n{quantizer(figures).markdown()}")


def by_task(figures: Figures, pool: str) -> Table:
    """A row for each task, then for the mean and what belongs to it."""
    systems = [name for name in figures.names(0, pool) if not name.endswith(INFERRED)]
    table = Table(("task", "queries", *systems))
    for task in [*(name for name in figures.names(2, pool) if name != MEAN), MEAN]:
        table.add(
            task, figures.queries[task], *(_percent(figures.mean(s, pool, task, METRIC)) for s in systems)
        )
    means = [figures.mean(system, pool, MEAN, METRIC) for system in systems]
    dense_baseline = figures.mean(FAIR, pool, MEAN, METRIC)
    shares = [f"{mean / dense_baseline:.3f}" if mean is not None and dense_baseline else "" for mean in means]
    table.add("ratio to fair dense", "", *shares)
    for number, run in enumerate(figures.runs):
        own = [run.get((system, pool, MEAN, METRIC)) for system in systems]
        table.add(f"mean, file {number + 1}", "", *(_percent(value) for value in own))
    items = [figures.mean(system, pool, MEAN, "items") for system in systems]
    table.add("items ranked", "", *("" if count is None else f"{count:,.0f}" for count in items))
    return table


def inferred(figures: Figures) -> Table:
    """A row for each system whose beams were not told the wanted modality."""
    table = Table(("system", "mean"))
    for system in figures.names(0, "union"):
        if system.endswith(INFERRED):
            table.add(system.removesuffix(INFERRED), _percent(figures.mean(system, "union", MEAN, METRIC)))
    return table


def seen(figures: Figures) -> Table:
    """A row for each system: targets that were a training target and those that were not, by task."""
    kinds = [f"{METRIC}, {kind}" for kind in ("seen", "unseen")]
    tasks = [
        task for task in figures.names(2, "union", kinds[0]) if task in figures.names(2, "union", kinds[1])
    ]
    columns = [(task, kind) for task in tasks for kind in kinds if task != MEAN]
    table = Table(("system", *(f"{task}, {kind.split(', ')[1]}" for task, kind in columns)))
    for system in figures.names(0, "union", kinds[0]):
        if system.endswith(INFERRED):
            continue
        table.add(system, *(_percent(figures.mean(system, "union", *column)) for column in columns))
    return table


def apart(figures: Figures) -> Table:
    """A row for each task with targets that training did not show: paired differences of hit rates."""
    table = Table(("task", "mean", "95 % from", "to"))
    for task in dict.fromkeys(key[2] for key in figures.runs[0] if key[0] == UNSEEN):
        table.add(task, *(figures.mean(UNSEEN, "union", task, name) for name in ("mean", "low", "high")))
    return table


def quantizer(figures: Figures) -> Table:
    """A row for each figure of the codes' health: its mean, and that of each file."""
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
