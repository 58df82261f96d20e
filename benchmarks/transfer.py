"""Transfer: trained without one data set, evaluated on it (the paper's zero-shot experiment), all systems.

    python benchmarks/transfer.py --tree TREE --without grocery [--recipe RECIPE] [--beside MODEL]
    python benchmarks/transfer.py --tree TREE --without grocery --split test --final

Neither queries nor items of the data set are shown in training (what is trained is not trained again). Then
its queries are answered in its own pools and in the union pool of the whole tree. With --beside, a model that
was trained on everything stands beside it. Hit rate @5 in percent.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from measuring import ROOT, add_recipe, add_split, check_split, recipe_of, show

from genius.data.mbeir import Split, Tree
from genius.display import Table
from genius.encode import pipeline
from genius.errors import InputError
from genius.evaluate.run import evaluate_model
from genius.train.run import train_model

METRIC = "hit@5"


def main() -> None:
    """Train, evaluate, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, required=True)
    parser.add_argument("--without", required=True, metavar="DATASET")
    parser.add_argument("--beside", type=Path, help="a model that was trained on the whole tree")
    add_recipe(parser)
    add_split(parser)
    options = parser.parse_args()
    split = check_split(parser, options)
    recipe = dataclasses.replace(recipe_of(options), without=(options.without,))
    out = options.model or ROOT / "out" / f"{recipe.name}-{recipe.seed}-without-{options.without}"
    tree = Tree(options.tree)
    train_model(recipe, tree, out, cache=pipeline.default_cache(), force=options.force)
    models = {f"trained without {options.without}": out}
    if options.beside:
        models["trained on everything"] = options.beside
    rows = [
        {"model": name, "split": split, "seed": recipe.seed, **row}
        for name, model in models.items()
        for row in evaluated(tree, model, split, options.without)
    ]
    for pool in ("local", "union"):
        tasks = list(dict.fromkeys(row["task"] for row in rows))
        table = Table((f"{pool} pool", "system", *tasks))
        for name, system in dict.fromkeys((row["model"], row["system"]) for row in rows):
            mine = {
                row["task"]: row["value"]
                for row in rows
                if (row["model"], row["system"], row["pool"]) == (name, system, pool)
            }
            table.add(name, system, *(mine.get(task) for task in tasks))
        show(table, [row for row in rows if row["pool"] == pool], as_json=options.json)


def evaluated(tree: Tree, model: Path, split: Split, dataset: str) -> list[dict[str, Any]]:
    """The hit rates of all systems for the tasks of a data set, and their mean."""
    tasks = [str(task) for task in tree.tasks(split) if task.dataset == dataset]
    if not tasks:
        raise InputError(f"{dataset} has no {split} queries", path=tree.path)
    found = evaluate_model(tree, model, split=split, cache=pipeline.default_cache(), tasks=tasks).evaluation
    return [
        {"system": one.system, "pool": one.pool, "task": one.task, "value": 100 * one.value}
        for one in found.measurements
        if one.metric == METRIC
    ]


if __name__ == "__main__":
    main()
