"""`genius fit --learn`: heads that learn from what a collection says of itself, before codes are fitted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path

from genius import atomic
from genius.data.mbeir import Tree
from genius.data.pairs import write_pairs_tree
from genius.data.records import Item
from genius.data.weak_labels import weak_pairs
from genius.encode.pipeline import default_cache
from genius.errors import InputError
from genius.model import Model, model_folder
from genius.train.fine_tuning import PairData, fine_tuning_recipe
from genius.train.run import train_model

FEWEST = 50
"""Pairs below which heads would learn these by heart."""


def learn_from(
    items: Iterable[Item],
    start: str,
    work: Path,
    *,
    report: Callable[[InputError], None],
    cache: Path | None = None,
    seed: int = 0,
) -> tuple[Model, PairData]:
    """A model without codes whose heads start from `start` and learn from the pairs that the items hold.

    It is written below `work`, where an interrupted run goes on. Raises InputError for a start without heads,
    and for a collection that says too little of its items.
    """
    if not model_folder(start).is_dir() or Model.open(start).fusion_kind != "heads":
        raise InputError(
            f"--learn trains heads, and {start} has none: use it with photo, or with the folder of a model "
            "that genius trained"
        )
    pairs = list(weak_pairs(items))
    if len(pairs) < FEWEST:
        raise InputError(
            f"this collection says too little of its items to learn from: {len(pairs)} captions, titles and "
            f"names of files, and {FEWEST} are the least; leave --learn out"
        )
    with atomic.write_folder(work / "tree") as draft:
        write_pairs_tree(draft, pairs, report=report, seed=seed)
    tree = Tree(work / "tree")
    counts = {split: sum(1 for _ in tree.queries(split)) for split in ("train", "val")}
    data = PairData(tree, counts["train"], counts["val"], sum(1 for _ in tree))
    recipe = dataclasses.replace(
        fine_tuning_recipe(data, start=start, seed=seed), name="weak-labels", quantizer=None
    )
    return train_model(recipe, tree, work / "heads", cache=cache or default_cache()), data
