"""Odd ones out: planted wrong texts and foreign pictures, found among the first few.

    python benchmarks/outliers.py --tree TREE [--dataset flickr8k] [--foreign fashion] [--model photo]
    python benchmarks/outliers.py --tree TREE --split test --final

The photos of a data set that captions ask for (task 0) become two collections: pairs of image and caption,
and photos alone. 1 % of each is odd. Of the pairs, half of these have the caption of another one, and in the
place of the others comes a foreign pair: picture and text of another data set. Of the photos, foreign
pictures. `genius outliers` lists the oddest 3 % of a collection; the share of the planted ones among them is
printed by kind, over several drawings.
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
WRONG_TEXT, FOREIGN_PAIR, FOREIGN_IMAGE = KINDS = ("wrong text", "foreign pair", "foreign picture")
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
        random = np.random.default_rng(seed)
        for collection in (plant_pairs(pairs, foreign, random), plant_images(pairs, foreign, random)):
            planted.update(collection.odd.values())
            oddest = oddest_ids(collection.items, options.model)
            listed.update(collection.odd[id] for id in oddest if id in collection.odd)
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


def plant_pairs(pairs: list[Item], foreign: list[Item], random: np.random.Generator) -> Planted:
    """The pairs, some of them with the text of another one or from elsewhere altogether."""
    items, odd = list(pairs), {}
    for turn, (place, stranger) in enumerate(_chosen(pairs, foreign, random)):
        item, kind = pairs[place], KINDS[turn % 2]
        other = pairs[(place + 1 + int(random.integers(len(pairs) - 1))) % len(pairs)]
        text, image = (other.text, item.image) if kind == WRONG_TEXT else (stranger.text, stranger.image)
        items[place] = Item(item.id, text, image)
        odd[item.id] = kind
    return Planted(items, odd)


def plant_images(pairs: list[Item], foreign: list[Item], random: np.random.Generator) -> Planted:
    """The images of the pairs, some of them from elsewhere."""
    items = [Item(pair.id, image=pair.image) for pair in pairs]
    odd = {}
    for place, stranger in _chosen(pairs, foreign, random):
        items[place] = Item(items[place].id, image=stranger.image)
        odd[items[place].id] = FOREIGN_IMAGE
    return Planted(items, odd)


def _chosen(pairs: list[Item], foreign: list[Item], random: np.random.Generator) -> list[tuple[int, Item]]:
    """The places of odd items, each with a foreign item."""
    count = max(2, round(PLANTED * len(pairs)))
    places = random.choice(len(pairs), count, replace=False).tolist()
    strangers = random.choice(len(foreign), count, replace=False).tolist()
    return [(place, foreign[stranger]) for place, stranger in zip(places, strangers, strict=True)]


def oddest_ids(items: list[Item], model: str) -> list[str]:
    """The ids of the oddest items, by the command's own rule."""
    with (
        tempfile.TemporaryDirectory(prefix="genius-bench-") as folder,
        Index.create(Path(folder, "index"), model) as index,
    ):
        index.add(items, workers=cores())
        return [outlier.item.id for outlier in index.outliers(round(LISTED * len(items)))]


if __name__ == "__main__":
    main()
