"""The paper's third protocol: training and evaluation on one data set of photos and captions, text → image.

    python benchmarks/single.py --tree TREE --dataset flickr8k [--recipe recipes/minibeir.toml] [--seed 0]
    python benchmarks/single.py --tree TREE --dataset flickr8k --split test --final

Trains a model by the recipe on that data set alone, unless it is trained already. Then it searches the
photos of a split (a thousand in Flickr8k's official split) by the captions of the same split, the queries
of the data set's task 0. Prints R@1, R@5 and R@10 in percent for all systems.
"""

from __future__ import annotations

import dataclasses

from figures import print_table
from options import ROOT, add_split, add_tree, check_split, script_parser
from training import add_training, recipe_of

from genius.data.mbeir import Tree
from genius.data.tasks import Task
from genius.display import Table
from genius.encode import pipeline
from genius.evaluate.run import evaluate_model
from genius.train.run import train_model

METRICS = {"R@1": "hit@1", "R@5": "hit@5", "R@10": "hit@10"}


def main() -> None:
    """Train, evaluate, print."""
    parser = script_parser(__doc__)
    add_tree(parser)
    parser.add_argument("--dataset", required=True, help="as flickr8k")
    add_training(parser)
    add_split(parser)
    options = parser.parse_args()
    split = check_split(parser, options)
    recipe = dataclasses.replace(recipe_of(options), datasets=(options.dataset,))
    model = options.model or ROOT / "out" / f"{recipe.name}-{recipe.seed}-{options.dataset}"
    tree, cache = Tree(options.tree).only(options.dataset), pipeline.default_cache()
    train_model(recipe, tree, model, cache=cache, force=options.force)
    task = str(Task(options.dataset, 0))
    evaluation = evaluate_model(
        tree, model, split=split, cache=cache, pools=("split",), tasks=[task]
    ).evaluation
    table, rows = Table(("system", *METRICS, "items")), []
    items = {
        measured.system: measured.value
        for measured in evaluation.measurements
        if (measured.task, measured.metric) == (task, "items")
    }
    for system in dict.fromkeys(run.system for run in evaluation.runs):
        figures = {
            name: 100 * evaluation.value(system, "split", task, metric) for name, metric in METRICS.items()
        }
        table.add(system, *figures.values(), items.get(system))
        rows.append({"system": system, "task": task, "split": split, "seed": recipe.seed, **figures})
    print_table(table, rows, as_json=options.json)


if __name__ == "__main__":
    main()
