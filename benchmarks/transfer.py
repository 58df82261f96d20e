"""Transfer: training without one data set, evaluation on it (the paper's zero-shot experiment), all systems.

    python benchmarks/transfer.py --tree TREE --without grocery [--recipe RECIPE] [--beside MODEL]
    python benchmarks/transfer.py --tree TREE --without grocery --split test --final

Training uses neither queries nor items of the data set; a model that is trained already is not trained
again. Then the queries of the data set are searched in its own pools and in the union pool of the whole
tree. With --beside there are rows for a model that was trained on everything, too. Hit rates @5 in percent.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from figures import print_table
from options import ROOT, add_split, add_tree, check_split, script_parser
from training import add_training, recipe_of

from genius.data.mbeir import Split, Tree
from genius.display import Table
from genius.encode import pipeline
from genius.errors import InputError
from genius.evaluate.run import evaluate_model
from genius.train.run import train_model

METRIC = "hit@5"


def main() -> None:
    """Train, evaluate, print."""
    parser = script_parser(__doc__)
    add_tree(parser)
    parser.add_argument("--without", required=True, metavar="DATASET", help="as grocery")
    parser.add_argument("--beside", type=Path, help="a model that was trained on the whole tree")
    add_training(parser)
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
        for row in evaluate(tree, model, split, options.without)
    ]
    for pool in ("local", "union"):
        tasks = list(dict.fromkeys(row["task"] for row in rows))
        table = Table((f"{pool} pool", "system", *tasks))
        for name, system in dict.fromkeys((row["model"], row["system"]) for row in rows):
            values = {
                row["task"]: row["value"]
                for row in rows
                if (row["model"], row["system"], row["pool"]) == (name, system, pool)
            }
            table.add(name, system, *(values.get(task) for task in tasks))
        print_table(table, [row for row in rows if row["pool"] == pool], as_json=options.json)


def evaluate(tree: Tree, model: Path, split: Split, dataset: str) -> list[dict[str, Any]]:
    """The hit rates of all systems for the tasks of a data set, and their mean.

    Raises InputError if the split has no queries of it.
    """
    tasks = [str(task) for task in tree.tasks(split) if task.dataset == dataset]
    if not tasks:
        raise InputError(f"{dataset} has no {split} queries", path=tree.path)
    evaluation = evaluate_model(
        tree, model, split=split, cache=pipeline.default_cache(), tasks=tasks
    ).evaluation
    return [
        {
            "system": measured.system,
            "pool": measured.pool,
            "task": measured.task,
            "value": 100 * measured.value,
        }
        for measured in evaluation.measurements
        if measured.metric == METRIC
    ]


if __name__ == "__main__":
    main()
