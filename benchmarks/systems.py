"""Who finds what: every system of the paper, its rivals and ours in one table, by one command.

    python benchmarks/systems.py --tree TREE --plan                      # what it will do, and how long
    python benchmarks/systems.py --tree TREE [--only ROW …] [--seeds 0] [--budget HOURS]
    python benchmarks/systems.py --tree TREE --final                     # the test split
    python benchmarks/systems.py --tree TREE --final --table             # what is measured already

The rows are those of benchmarks/systems.toml (--rows). Row by row it trains what is missing, measures every
seed in local pools, the union pool and pools of unseen items, and prints the tables. Stages that rows have
in common are trained once. Killed, it goes on where it was: checkpoints, models and figures (a JSON line for
each row, seed and pool) are kept in --work. With --budget it stops before a row that it would not finish.
Several may run side by side, over other rows or seeds: pinned to one core each (`taskset`,
OMP_NUM_THREADS=1) two do half as much again as one on two cores. Figures are small: with --figures they are
kept elsewhere (research/systems holds those that were measured so far), so that another machine goes on
where this one stopped.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from figures import FigureFile
from options import ROOT, add_sample_size, add_tree, script_parser
from system_figures import evaluation_record
from system_plan import StageRun, decoder_steps, stage_runs
from system_rows import POOLS, ROWS, Row, RowRecipes, read_rows
from system_tables import print_tables

from genius.data.mbeir import Split, Tree
from genius.display import Table
from genius.encode import pipeline
from genius.evaluate.protocol import PoolName
from genius.evaluate.run import evaluate_model
from genius.progress import log_to_terminal
from genius.train.recipe import Recipe
from genius.train.run import train_model

log = logging.getLogger("systems")
EVALUATION_HOURS = 0.4
"""Of a row's seed in all pools, until one is measured: most of it are beams of a learned decoder."""


def main() -> None:
    """Plan, or train and measure what is missing, and print."""
    parser = script_parser(__doc__)
    add_tree(parser)
    parser.add_argument("--rows", type=Path, default=ROWS, help="default: benchmarks/systems.toml")
    parser.add_argument("--work", type=Path, default=ROOT / "out" / "systems", help="where all is kept")
    parser.add_argument("--figures", type=Path, help="where figures are kept (default: with the rest)")
    parser.add_argument("--only", nargs="+", metavar="ROW", help="these rows, by name")
    parser.add_argument("--seeds", nargs="+", type=int, metavar="SEED", help="these seeds of a row alone")
    parser.add_argument("--plan", action="store_true", help="print what would be done, and stop")
    parser.add_argument("--table", action="store_true", help="print the tables of what is measured, and stop")
    parser.add_argument("--budget", type=float, metavar="HOURS", help="stop before a row that takes longer")
    parser.add_argument("--final", action="store_true", help="use the test split instead of validation")
    add_sample_size(parser, 0)
    options = parser.parse_args()
    log_to_terminal(verbose=True)
    rows = read_rows(options.rows)
    if unknown := set(options.only or ()) - {row.name for row in rows}:
        names = "; ".join(row.name for row in rows)
        parser.error(f"there is no row {sorted(unknown)[0]!r}; there are: {names}")
    chosen = [row for row in rows if not options.only or row.name in options.only]
    bench = SystemBench(options, rows)
    if options.plan:
        print(bench.plan(chosen).markdown())
        print(
            "Hours are those of an idle machine until a stage has begun; "
            f"{bench.evaluation_hours:.1f} of each seed are its evaluation.",
            flush=True,
        )
        return
    if not options.table:
        bench.run(chosen, options.budget)
    text = print_tables(rows, bench.records(rows))
    ((options.figures or options.work) / f"tables-{bench.split}.md").write_text(text, "utf-8")


@dataclass(frozen=True)
class SeedRun:
    """A row with one of its seeds."""

    row: Row
    seed: int
    recipe: Recipe
    stages: tuple[StageRun, ...]

    @property
    def model(self) -> str:
        """The name of its model: rows that differ in the search alone share it."""
        last = "-".join(dict.fromkeys(stage.folder.parent.name[:6] for stage in self.stages[-1:]))
        return f"{self.recipe.name}-{self.recipe.identifiers}-{self.seed}-{last}"


class SystemBench:
    """Trains, measures and keeps."""

    def __init__(self, options: argparse.Namespace, rows: list[Row]) -> None:
        self.tree, self.work, self._queries = Tree(options.tree), options.work, options.queries
        self.split: Split = "test" if options.final else "val"
        self.recipes = RowRecipes(self.tree)
        self.figures = FigureFile((options.figures or self.work) / f"figures-{self.split}.jsonl")
        self._rows, self._seeds = rows, options.seeds

    def seed_runs(self, row: Row) -> Iterator[SeedRun]:
        """A row with each of its seeds."""
        for seed in row.seeds:
            recipe = self.recipes(row, seed)
            yield SeedRun(row, seed, recipe, tuple(stage_runs(recipe, self.work / "training")))

    def key(self, run: SeedRun, pool: PoolName) -> str:
        """The name under which figures are kept: another recipe, number of beams or sample is another one."""
        sample = self.sample(run.row) or "all"
        return f"{run.row.name} | {run.model} | {pool} | B {run.row.beams} | {sample} queries"

    def sample(self, row: Row) -> int:
        """How many queries of each task a row is measured by, at most; 0 is all."""
        return min(filter(None, (self._queries, row.queries)), default=0)

    def is_chosen(self, run: SeedRun) -> bool:
        """Whether its seed is to be trained."""
        return self._seeds is None or run.seed in self._seeds

    def missing(self, run: SeedRun) -> list[PoolName]:
        """The pools that are not measured."""
        return [pool for pool in self.pools(run.row) if self.key(run, pool) not in self.figures]

    def pools(self, row: Row) -> tuple[PoolName, ...]:
        """The pools that a row is measured in: for a single task that of the split, as the paper has it."""
        return ("split", "unseen") if row.task else POOLS

    def records(self, rows: list[Row]) -> dict[tuple[str, int, str], dict[str, Any]]:
        """What is measured, by row, seed and pool."""
        return {
            (row.name, run.seed, pool): self.figures[self.key(run, pool)]
            for row in rows
            for run in self.seed_runs(row)
            for pool in self.pools(row)
            if self.key(run, pool) in self.figures
        }

    # --- doing it

    def run(self, rows: list[Row], budget: float | None) -> None:
        """Train and measure what is missing, as far as the hours reach."""
        started = time.monotonic()
        for row in rows:
            left = [run for run in self.seed_runs(row) if self.is_chosen(run) and self.missing(run)]
            hours = sum(self.hours(run, set()) for run in left)
            spent = (time.monotonic() - started) / 3600
            if left and budget is not None and spent + hours > budget:
                log.warning(
                    "%s would take %.1f hours, and %.1f are left: stopped", row.name, hours, budget - spent
                )
                return
            for run in left:
                self.train_and_measure(run)

    def train_and_measure(self, run: SeedRun) -> None:
        """Train a row with a seed, and measure it in the pools that are missing, all at once."""
        log.info("%s, seed %d", run.row.name, run.seed)
        cache, model = pipeline.default_cache(), self.work / "models" / run.model
        training, pools = self.work / "training", self.missing(run)
        train_model(run.recipe, self.tree, model, cache=cache, work=training, force=True)
        start = time.perf_counter()
        evaluation = evaluate_model(
            self.tree,
            model,
            split=self.split,
            cache=cache,
            pools=pools,
            tasks=run.row.tasks(self.tree, self.split),
            systems=run.row.systems,
            beams=run.row.beams,
            sample=self.sample(run.row),
        ).evaluation
        seconds = (time.perf_counter() - start) / len(pools)
        stages = {stage.name: {"steps": stage.steps, "seconds": stage.seconds} for stage in run.stages}
        for pool in pools:
            self.figures[self.key(run, pool)] = {
                "row": run.row.name,
                "seed": run.seed,
                "pool": pool,
                "split": self.split,
                "training": stages,
                "epochs": self.recipes.epochs(run.recipe),
                "seconds": seconds,
                **evaluation_record(evaluation, pool, self.tree, self.split),
            }

    # --- the plan

    def hours(self, run: SeedRun, known: set[Path]) -> float:
        """What a row with a seed still takes; stages in `known` are another one's, and its own are added."""
        missing = self.missing(run)
        if not missing:
            return 0.0
        seconds = 0.0
        for stage in run.stages:
            if stage.folder not in known:
                known.add(stage.folder)
                seconds += stage.seconds_left()
        return seconds / 3600 + self.evaluation_hours * len(missing) / len(POOLS)

    @cached_property
    def evaluation_hours(self) -> float:
        """Of one seed in all pools: the mean of those that are measured."""
        seconds = [record["seconds"] for record in self.records(self._rows).values()]
        return sum(seconds) / len(seconds) * len(POOLS) / 3600 if seconds else EVALUATION_HOURS

    def plan(self, rows: list[Row]) -> Table:
        """A line for each row: what it trains, what it shares, how long it takes."""
        columns = ("row", "recipe", "seeds", "measured", "shares", "decoder's steps", "epochs", "hours", "by")
        table, total = Table(columns, decimals=1), 0.0
        known: set[Path] = set()
        first_row: dict[Path, str] = {}
        for row in rows:
            runs = list(filter(self.is_chosen, self.seed_runs(row)))
            if not runs:
                continue
            shared = self._shared(runs, first_row)
            hours = sum(self.hours(run, known) for run in runs)
            total += hours
            stages = [stage for run in runs for stage in run.stages]
            table.add(
                row.name,
                row.recipe,
                ", ".join(map(str, row.seeds)),
                f"{sum(not self.missing(run) for run in runs)} of {len(runs)}",
                "; ".join(shared) or None,
                decoder_steps(runs[0].recipe.decoder),
                self.recipes.epochs(runs[0].recipe),
                hours,
                "its log" if all(stage.is_measured for stage in stages) else "a timed step",
            )
        table.add("total", None, None, None, None, None, None, total, None)
        return table

    def _shared(self, runs: list[SeedRun], first_row: dict[Path, str]) -> list[str]:
        """The stages that rows before train for this one, by row."""
        shared = [
            f"{stage.name} of {first_row[stage.folder]}"
            for stage in runs[0].stages
            if stage.folder in first_row
        ]
        for run in runs:
            for stage in run.stages:
                first_row.setdefault(stage.folder, run.row.name)
        return shared


if __name__ == "__main__":
    main()
