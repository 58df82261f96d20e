"""How much the codes of a small collection depend on chance: the emoji demo's, trained with several seeds.

    python benchmarks/demo_seeds.py                  # seeds 0 to 4, validation
    python benchmarks/demo_seeds.py --final          # the test split; exits 1 if the bar is missed
    python benchmarks/demo_seeds.py --change quantizer.loop.steps=600 --change quantizer.refit=3.0

Trains `recipes/demo.toml`, with the changes, for each seed where that was not done, and prints what the codes
find as a share of dense search (`dense-fair`, union pool). Models and figures are kept in --work; variants
with the same stage 0 share it. The bar: codes alone at least 0.93 of dense search with every seed.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from figures import FigureFile
from options import ROOT, script_parser

from genius.data.mbeir import Split, Tree
from genius.demo.corpus import demo_tree
from genius.display import Table
from genius.encode import lite_weights
from genius.encode.pipeline import default_cache
from genius.evaluate.run import evaluate_model
from genius.progress import log_to_terminal
from genius.train.recipe import Recipe, description, read_recipe
from genius.train.run import train_model

LEAST_KEPT = 0.93
BASELINE = "dense-fair"
SYSTEMS = (BASELINE, "codes", "default", "default+rerank")
METRIC = "hit@5"


def main() -> int:
    """Train what is missing, measure, print; the exit code says whether the test split holds the bar."""
    parser = script_parser(__doc__)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4], metavar="SEED")
    parser.add_argument(
        "--change", action="append", default=[], metavar="KEY=VALUE", help="of the recipe, in TOML"
    )
    parser.add_argument("--work", type=Path, default=ROOT / "out" / "demo-seeds", help="where all is kept")
    parser.add_argument("--final", action="store_true", help="use the test split instead of validation")
    options = parser.parse_args()
    log_to_terminal(verbose=False)
    lite_weights.fetch()
    tree, split = Tree(demo_tree()), split_of(options)
    recipe = read_recipe("demo", changes_of(options.change))
    rows = [measured(dataclasses.replace(recipe, seed=seed), tree, split, options) for seed in options.seeds]
    print(seeds_table(options.seeds, rows).markdown())
    held = min(row["codes"] / row[BASELINE] for row in rows) >= LEAST_KEPT
    return int(options.final and not held)


def split_of(options: argparse.Namespace) -> Split:
    """The split that is measured."""
    return "test" if options.final else "val"


def changes_of(assignments: list[str]) -> dict[str, Any]:
    """The changes that KEY=VALUE texts name, nested as in TOML."""
    changes: dict[str, Any] = {}
    for assignment in assignments:
        _merge(changes, tomllib.loads(assignment))
    return changes


def _merge(table: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict):
            _merge(table.setdefault(key, {}), value)
        else:
            table[key] = value


def measured(recipe: Recipe, tree: Tree, split: Split, options: argparse.Namespace) -> dict[str, float]:
    """The hit rate @5 of each system, in the union pool, of a recipe that is trained if it was not."""
    text = json.dumps(description(recipe), sort_keys=True)
    name = f"{recipe.seed}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    figures = FigureFile(options.work / f"figures-{split}.jsonl")
    if name not in figures:
        model, cache = options.work / name, default_cache()
        train_model(recipe, tree, model, cache=cache, work=options.work / "training")
        evaluation = evaluate_model(
            tree, model, split=split, cache=cache, pools=["union"], systems=SYSTEMS
        ).evaluation
        figures[name] = {system: evaluation.value(system, "union", "mean", METRIC) for system in SYSTEMS}
    return figures[name]


def seeds_table(seeds: list[int], rows: list[dict[str, float]]) -> Table:
    """A line for each seed, and the least and the mean."""
    others = SYSTEMS[1:]
    shares = np.array([[row[system] / row[BASELINE] for system in others] for row in rows])
    table = Table(("seed", BASELINE, *others, *(f"{system} / dense" for system in others)))
    for seed, row, share in zip(seeds, rows, shares, strict=True):
        table.add(
            seed, *(f"{100 * row[system]:.1f}" for system in SYSTEMS), *(f"{value:.3f}" for value in share)
        )
    for label, value in (("least", shares.min(0)), ("mean", shares.mean(0))):
        table.add(label, *("" for _ in SYSTEMS), *(f"{each:.3f}" for each in value))
    return table


if __name__ == "__main__":
    raise SystemExit(main())
