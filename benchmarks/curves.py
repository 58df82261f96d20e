"""The curve of a learned decoder: how sure it is of true codes, level by level, as training goes on.

    python benchmarks/curves.py out/paper-0-training/*/decoder/log.jsonl [--plot curve.png] [--json]
    python benchmarks/curves.py --tree TREE --row paper [--seed 0] [--work out/systems] [--plot curve.png]

Of every validation in a log of stage 2 (or in that of a row of benchmarks/systems.toml): the mean
log-probability of the true code at each level, for training queries, for validation queries whose answer was
an answer in training (seen), and for those with a new one (unseen); above them that of a uniform guess. The
plot has the difference to the uniform guess: below zero the decoder knows less than nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from figures import print_table
from options import ROOT, add_json, script_parser

from genius.data.mbeir import Tree
from genius.display import Cell, Table
from genius.errors import InputError
from genius.train.level_curves import KINDS, UNIFORM, curve_name


def main() -> None:
    """Read the logs, print a table for each, and plot."""
    parser = script_parser(__doc__)
    parser.add_argument("logs", nargs="*", type=Path, help="log.jsonl of stages 2")
    parser.add_argument("--row", help="a row of systems.toml instead")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tree", type=Path, help="with --row: the benchmark that it was trained on")
    parser.add_argument("--work", type=Path, default=ROOT / "out" / "systems", help="of systems.py")
    parser.add_argument("--rows", type=Path, help="default: benchmarks/systems.toml")
    parser.add_argument("--plot", type=Path, help="write a plot to this file")
    add_json(parser, "also print a JSON line for each row")
    options = parser.parse_args()
    if bool(options.logs) == bool(options.row) or (options.row and not options.tree):
        parser.error("give logs, or --row with --tree")
    logs = options.logs or [row_log(options.tree, options.rows, options.row, options.seed, options.work)]
    curves = {log: read_curves(log) for log in logs}
    for log, rows in curves.items():
        print(f"{log}:\n")
        print_table(curve_table(rows), rows, as_json=options.json)
    if options.plot:
        plot(options.plot, curves)


def row_log(tree: Path, rows: Path | None, name: str, seed: int, work: Path) -> Path:
    """The log of a row's decoder. Raises InputError for a row that there is not, or without a decoder."""
    from system_plan import stage_runs
    from system_rows import ROWS, RowRecipes, read_rows

    known = {row.name: row for row in read_rows(rows or ROWS)}
    if name not in known:
        raise InputError(f"there is no row {name!r}; there are: {'; '.join(known)}")
    recipe = RowRecipes(Tree(tree))(known[name], seed)
    last = list(stage_runs(recipe, work / "training"))[-1]
    if last.name != "decoder":
        raise InputError(f"the row {name!r} trains no decoder")
    return last.folder / "log.jsonl"


def read_curves(log: Path) -> list[dict[str, Any]]:
    """The validations of a log that have curves. Raises InputError if there are none."""
    if not log.is_file():
        raise InputError("there is no such log: train the decoder first", path=log)
    rows = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    rows = [row for row in rows if curve_name(UNIFORM, 1) in row]
    if not rows:
        raise InputError("has no curves: it is of another stage, or of an older training", path=log)
    return rows


def levels_of(rows: Sequence[dict[str, Any]]) -> list[int]:
    """The numbers of the levels in a log."""
    return [level for level in range(1, 1 + len(rows[0])) if curve_name(UNIFORM, level) in rows[0]]


def curve_table(rows: Sequence[dict[str, Any]]) -> Table:
    """A line for the uniform guess, then one for each kind of query and each validation."""
    levels = levels_of(rows)
    table = Table(("queries", "step", *(f"level {level}" for level in levels), "hits @5 in validation"))
    table.add(UNIFORM, None, *_line(rows[0], UNIFORM, levels), None)
    for kind in KINDS:
        for row in rows:
            if curve_name(kind, 1) in row:
                table.add(kind, row["step"], *_line(row, kind, levels), row.get("val_score"))
    return table


def _line(row: dict[str, Any], kind: str, levels: Sequence[int]) -> list[Cell]:
    return [float(row[curve_name(kind, level)]) for level in levels]


def plot(path: Path, curves: dict[Path, list[dict[str, Any]]]) -> None:
    """A panel for each log and kind of query: what each level knows beyond a uniform guess, by steps."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * len(KINDS), 3.2 * len(curves)), layout="constrained")
    panels = figure.subplots(len(curves), len(KINDS), squeeze=False, sharey=True)
    for line, rows in zip(panels, curves.values(), strict=True):
        levels = levels_of(rows)
        for axes, kind in zip(line, KINDS, strict=True):
            known = [row for row in rows if curve_name(kind, 1) in row]
            for place, level in enumerate(levels):
                gained = [row[curve_name(kind, level)] - row[curve_name(UNIFORM, level)] for row in known]
                colour = (0.1, 0.35 + 0.5 * place / len(levels), 1 - 0.8 * place / len(levels))
                axes.plot([row["step"] for row in known], gained, color=colour, label=f"level {level}")
            axes.axhline(0, color="black", linewidth=0.8)
            axes.set_title(kind)
            axes.set_xlabel("steps")
            axes.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel("log p(true code) − uniform")
        line[-1].legend(frameon=False, fontsize="x-small")
    FigureCanvasAgg(figure).print_png(str(path))  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
