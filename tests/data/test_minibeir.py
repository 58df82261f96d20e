"""The real benchmark, read whole; runs where it is unpacked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from genius.data.mbeir import SPLITS, Tree
from genius.data.records import Modality

pytestmark = pytest.mark.minibeir

# from the benchmark's README: queries for training, validation and test, and the size of the local pool
COUNTS = {
    "fashion_task0": (9165, 800, 938, 16822),
    "flickr8k_task0": (30000, 5000, 2580, 8091),
    "flickr8k_task1": (30000, 1000, 523, 38142),
    "flickr8k_task2": (24000, 2000, 1008, 8091),
    "fashion_task3": (12702, 800, 1020, 13124),
    "flickr8k_task3": (6000, 1000, 523, 40125),
    "fashion_task4": (6539, 269, 307, 16822),
    "grocery_task4": (832, 96, 108, 1296),
    "fashion_task6": (14874, 800, 999, 13124),
    "grocery_task6": (2496, 224, 427, 81),
    "fashion_task7": (23457, 800, 956, 16822),
    "fashion_task8": (12018, 800, 1049, 16822),
    "grocery_task8": (2496, 224, 413, 81),
}
CANDIDATES = {
    "11": {Modality.IMAGE: 8091, Modality.TEXT: 40125, Modality.PAIR: 8091},
    "12": {Modality.IMAGE: 16822, Modality.TEXT: 13124, Modality.PAIR: 16822},
    "13": {Modality.IMAGE: 1296, Modality.TEXT: 81, Modality.PAIR: 81},
}


def test_candidates_by_data_set_and_modality(minibeir: Path) -> None:
    counts: dict[str, Counter[Modality]] = {number: Counter() for number in CANDIDATES}
    for item in Tree(minibeir):
        counts[item.id.partition(":")[0]][item.modality] += 1
    assert counts == CANDIDATES
    assert sum(counter.total() for counter in counts.values()) == 104_533


def test_queries_by_task_and_split(minibeir: Path) -> None:
    tree = Tree(minibeir)
    assert [str(task) for task in tree.tasks("test")] == list(COUNTS)
    counted: dict[str, list[int]] = {name: [] for name in COUNTS}
    for split in SPLITS:
        for task in tree.tasks(split):
            queries = list(tree.queries(split, task))
            counted[str(task)].append(len(queries))
            assert {(query.modality, query.want) for query in queries} == {(task.query, task.target)}
            assert all(query.instruction and query.positives for query in queries)
    for task in tree.tasks("test"):
        counted[str(task)].append(sum(1 for _ in tree.pool(task)))
    assert {name: tuple(counts) for name, counts in counted.items()} == COUNTS
    assert sum(counts[0] for counts in counted.values()) == 174_579


def test_it_is_sound(minibeir: Path) -> None:
    tree = Tree(minibeir)
    for split in SPLITS:
        tree.check(split)
        for task in tree.tasks(split):
            judged = tree.judgements(split, task)
            assert judged == {query.id: list(query.positives) for query in tree.queries(split, task)}
