"""The items of a benchmark, numbered."""

from __future__ import annotations

from dataclasses import dataclass

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
    items: dict[str, Item] = {}
    names = tree.pools
    for name in [UNION, *names] if UNION in names else names:
        for item in tree.pool(name, split):
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
