"""Odd ones out: planted wrong texts and foreign pictures, found among the first few.

    python benchmarks/outliers.py --tree TREE [--dataset flickr8k] [--foreign fashion] [--model photo]
    python benchmarks/outliers.py --tree TREE --split test --final

The photos of a data set that its captions ask for (task 0) become pairs of image and caption. Of 1 % of them,
half get the caption of another one, and in the place of the other half comes a picture of the foreign data
set, once with a caption of its own (a foreign pair) and once without any. `genius outliers` lists the oddest
3 % of the collection; the share of the planted ones among them is printed by kind, over several drawings.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from figures import print_table
from options import add_split, add_tree, check_split, script_parser

from genius import Index, Item
from genius.data.mbeir import Split, Tree
from genius.display import Table
from genius.runtime import cores

PLANTED, LISTED = 0.01, 0.03
KINDS = ("wrong text", "foreign pair", "foreign picture")
DRAWINGS = 5


@dataclass(frozen=True)
class Planted:
    """A collection, and what is odd in it: its kind by id."""

    items: list[Item]
    odd: dict[str, str]


def main() -> None:
    """Plant, look for them, print."""
    parser = script_parser(__doc__)
    add_tree(parser)
    parser.add_argument("--model", default="photo", help="default: photo")
    parser.add_argument("--dataset", default="flickr8k", help="the collection (default: flickr8k)")
    parser.add_argument("--foreign", default="fashion", help="whose pictures are planted (default: fashion)")
    add_split(parser)
    options = parser.parse_args()
    split, tree = check_split(parser, options), Tree(options.tree)
    pairs, foreign = captioned(tree, split, options.dataset), captioned(tree, split, options.foreign)
    listed: Counter[str] = Counter()
    planted: Counter[str] = Counter()
    for seed in range(DRAWINGS):
        collection = plant(pairs, foreign, np.random.default_rng(seed))
        planted.update(collection.odd.values())
        listed.update(
            collection.odd[id] for id in oddest(collection.items, options.model) if id in collection.odd
        )
    rows: list[dict[str, Any]] = [
        {
            "kind": kind,
            "planted": planted[kind],
            "listed": listed[kind],
            "share": listed[kind] / planted[kind],
        }
        for kind in KINDS
        if planted[kind]
    ]
    total, hits = planted.total(), listed.total()
    rows.append({"kind": "all", "planted": total, "listed": hits, "share": hits / total})
    table = Table(tuple(rows[0]), f"{options.dataset}, {split}: {len(pairs):,} pairs, {DRAWINGS} drawings")
    for row in rows:
        table.add(row["kind"], row["planted"], row["listed"], f"{row['share']:.1%}")
    print_table(table, rows, as_json=options.json)


def captioned(tree: Tree, split: Split, dataset: str) -> list[Item]:
    """The images of a data set that texts ask for, each with the first text that does."""
    task = next(task for task in tree.tasks(split) if task.dataset == dataset and task.number == 0)
    texts: dict[str, str] = {}
    for query in tree.queries(split, task):
        if query.text:
            for id in islice(query.positives, 1):
                texts.setdefault(id, query.text)
    return [Item(item.id, texts[item.id], item.image) for item in tree.pool(task, split) if item.id in texts]


def plant(pairs: list[Item], foreign: list[Item], random: np.random.Generator) -> Planted:
    """The pairs, with odd ones among them."""
    count = max(2, round(PLANTED * len(pairs)))
    places = random.choice(len(pairs), count, replace=False).tolist()
    strangers = iter(random.permutation(len(foreign)).tolist())
    items, odd = list(pairs), {}
    for turn, place in enumerate(places):
        item = pairs[place]
        kind = KINDS[0] if turn < count // 2 else KINDS[1 + turn % 2]
        if kind == KINDS[0]:
            other = pairs[(place + 1 + int(random.integers(len(pairs) - 1))) % len(pairs)]
            items[place] = Item(item.id, other.text, item.image)
        else:
            stranger = foreign[next(strangers)]
            items[place] = Item(item.id, stranger.text if kind == KINDS[1] else None, stranger.image)
        odd[item.id] = kind
    return Planted(items, odd)


def oddest(items: list[Item], model: str) -> list[str]:
    """The ids of the oddest items, by the command's own rule."""
    with (
        tempfile.TemporaryDirectory(prefix="genius-bench-") as folder,
        Index.create(Path(folder, "index"), model) as index,
    ):
        index.add(items, workers=cores())
        return [outlier.item.id for outlier in index.outliers(round(LISTED * len(items)))]


if __name__ == "__main__":
    main()
