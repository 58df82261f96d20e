"""From a spreadsheet to a model: seconds, and what it finds of photos that are in no line of it.

    python benchmarks/pairs.py --tree TREE [--lines 2000] [--dataset flickr8k] [--final]

Lines of caption and photo are drawn from the training queries of a data set (task 0), each photo in one line,
written as `pairs.csv` and given to `genius train --pairs`, as a user would. Then captions of the data set's
validation photos, or test photos with --final, are searched among those by the model that it started from,
`photo`, and by the trained one: hit rates @5, re-ranked.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from figures import print_table, seconds
from options import add_json, add_tree, script_parser

from genius.data.mbeir import Split, Tree
from genius.data.records import ImageFile
from genius.display import Table
from genius.encode.pipeline import default_cache
from genius.evaluate.run import evaluate_model
from genius.model import DEFAULT, model_folder

SYSTEM, METRIC = "default+rerank", "hit@5"


def main() -> None:
    """Write the table, train, search, print."""
    parser = script_parser(__doc__)
    add_tree(parser)
    parser.add_argument("--lines", type=int, default=2000, help="default: 2,000")
    parser.add_argument("--dataset", default="flickr8k", help="default: flickr8k")
    parser.add_argument("--final", action="store_true", help="use the test split instead of validation")
    add_json(parser, "also print a JSON line for each row")
    options = parser.parse_args()
    split: Split = "test" if options.final else "val"
    with tempfile.TemporaryDirectory(prefix="genius-bench-") as scratch:
        rows = measure(options, split, Path(scratch))
    table = Table(tuple(rows[0]), f"hit rate @5, re-ranked, {options.dataset}, {split} split")
    for row in rows:
        table.add(*row.values())
    print_table(table, rows, as_json=options.json)


def measure(options: argparse.Namespace, split: Split, folder: Path) -> list[dict[str, Any]]:
    """A row for the model at the start, and one for the trained model."""
    tree, table, out = Tree(options.tree), folder / "pairs.csv", folder / "model"
    write_table(tree, options.dataset, options.lines, table)
    command = [str(Path(sys.executable).parent / "genius"), "train", "--pairs", str(table)]
    command += ["--root", os.fspath(tree.path), "-o", str(out)]
    took = seconds(lambda: subprocess.run(command, check=True))
    photos = tree.only(options.dataset)
    return [
        {"model": DEFAULT, **hit_rates(photos, model_folder(DEFAULT), split), "seconds": ""},
        {"model": f"{options.lines:,} lines", **hit_rates(photos, out, split), "seconds": round(took)},
    ]


def write_table(tree: Tree, dataset: str, lines: int, path: Path) -> None:
    """Captions and photos, each photo once."""
    task = next(task for task in tree.tasks("train") if task.dataset == dataset and task.number == 0)
    images = {item.id: item.image for item in tree.pool(task, "train")}
    queries = list(tree.queries("train", task))
    captions: dict[str, str] = {}
    for place in np.random.default_rng(0).permutation(len(queries)):
        captions.setdefault(queries[place].positives[0], queries[place].text or "")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("query", "item_image"))
        for id, caption in list(captions.items())[:lines]:
            image = images[id]
            assert isinstance(image, ImageFile)
            writer.writerow((caption, image.path))


def hit_rates(tree: Tree, model: Path, split: Split) -> dict[str, float]:
    """By task, in percent."""
    tasks = [str(task) for task in tree.tasks(split) if task.number in (0, 3)]
    evaluation = evaluate_model(
        tree, model, split=split, cache=default_cache(), pools=["split"], tasks=tasks, systems=[SYSTEM]
    ).evaluation
    return {task: round(100 * evaluation.value(SYSTEM, "split", task, METRIC), 1) for task in tasks}


if __name__ == "__main__":
    main()
