"""The paper's third protocol: trained and evaluated on one set of photos and captions alone, text → image.

    python benchmarks/single.py --tree TREE --dataset flickr8k [--recipe recipes/minibeir.toml] [--seed 0]
    python benchmarks/single.py --tree TREE --dataset flickr8k --split test --final

Trains a model by the recipe on that data set alone (what is trained is not trained again), and looks for the
captions of a split among that split's own photos (of Flickr8k's official split, a thousand): R@1, R@5 and
R@10 in percent, for all systems. The queries are those of the data set's task 0.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from measuring import ROOT, add_recipe, add_split, check_split, recipe_of, show

from genius.data.mbeir import Tree
from genius.data.tasks import Task
from genius.display import Table
from genius.encode import pipeline
from genius.evaluate.run import evaluate_model
from genius.train.run import train_model

METRICS = {"R@1": "hit@1", "R@5": "hit@5", "R@10": "hit@10"}


def main() -> None:
    """Train, evaluate, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, required=True)
    parser.add_argument("--dataset", required=True)
    add_recipe(parser)
    add_split(parser)
    options = parser.parse_args()
    split = check_split(parser, options)
    recipe = dataclasses.replace(recipe_of(options), datasets=(options.dataset,))
    model = options.model or ROOT / "out" / f"{recipe.name}-{recipe.seed}-{options.dataset}"
    tree, cache = Tree(options.tree).only(options.dataset), pipeline.default_cache()
    train_model(recipe, tree, model, cache=cache, force=options.force)
    task = str(Task(options.dataset, 0))
    found = evaluate_model(tree, model, split=split, cache=cache, pools=("split",), tasks=[task]).evaluation
    table, rows = Table(("system", *METRICS, "items")), []
    for system in dict.fromkeys(one.system for one in found.measurements):
        figures = {name: 100 * found.value(system, "split", task, of) for name, of in METRICS.items()}
        looked = [one.value for one in found.measurements if (one.system, one.metric) == (system, "items")]
        table.add(system, *figures.values(), looked[0] if looked else None)
        rows.append({"system": system, "task": task, "split": split, "seed": recipe.seed, **figures})
    show(table, rows, as_json=options.json)


if __name__ == "__main__":
    main()
