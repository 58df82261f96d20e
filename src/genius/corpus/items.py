"""The items of a benchmark, numbered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from genius.corpus.records import Records, RecordSource, item_records
from genius.data.mbeir import UNION, Split, Tree
from genius.data.records import MODALITIES, Item


@dataclass(frozen=True)
class CorpusItems:
    """Items by number: their ids, what they are made of, the number of each one's modality, and numbers by
    id."""

    ids: list[str]
    contents: Records
    modality: np.ndarray
    numbers: dict[str, int]


def read_items(tree: Tree, source: RecordSource, split: Split = "test") -> CorpusItems:
    """Every item of a tree: those of its union pool for a split, and of all local pools."""
    names = tree.pools
    pools = [tree.pool(name, split) for name in ([UNION, *names] if UNION in names else names)]
    return _numbered(chain.from_iterable(pools), source)


def read_training_items(tree: Tree, source: RecordSource, splits: Sequence[Split]) -> CorpusItems:
    """The items that training on a tree may see: all of them, or without "test" those of its pools for
    training and validation. (M-BEIR's answers to COCO's training queries are in no other pool.)"""
    rest = [tree.items(split) for split in splits if split != "test"]
    if "test" not in splits:
        return _numbered(chain.from_iterable(rest), source)
    pools = [tree.pool(name) for name in tree.pools]
    return _numbered(chain(tree.items("test"), *pools, *rest), source)


def _numbered(every: Iterable[Item], source: RecordSource) -> CorpusItems:
    """Items as they first occur."""
    items: dict[str, Item] = {}
    for item in every:
        items.setdefault(item.id, item)
    listed = list(items.values())
    modality = np.array([MODALITIES.index(item.modality) for item in listed], np.int8)
    numbers = {item.id: number for number, item in enumerate(listed)}
    return CorpusItems(list(numbers), item_records(listed, source), modality, numbers)


def union_members(tree: Tree, items: CorpusItems, split: Split) -> np.ndarray:
    """The numbers of the items in the union pool of a split, or of all items where a tree has none."""
    if UNION not in tree.pools:
        return np.arange(len(items.ids))
    return np.array([items.numbers[item.id] for item in tree.pool(UNION, split)], np.int64)
