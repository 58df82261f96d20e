from __future__ import annotations

from pathlib import Path

import numpy as np

from genius.corpus.items import read_items
from genius.corpus.queries import read_queries
from genius.data.mbeir import Tree
from genius.encode.inputs import EncoderInputs, InputRows
from genius.evaluate.protocol import DEPTH, Rankings
from genius.evaluate.systems import CACHED_POOLS, PerPool, own_items, without


def test_excluded_items_are_left_out_and_the_rest_moves_up() -> None:
    rankings = Rankings(
        np.array([[3.0, 2.0, 1.0], [3.0, 2.0, -np.inf]], np.float32),
        np.array([[5, 6, 7], [5, 6, -1]]),
        num_candidates=np.array([9, 2]),
    )
    left = without(rankings, [np.array([5]), np.array([6, 99])])
    assert left.numbers.shape == left.scores.shape == (2, DEPTH)
    assert left.numbers[:, :3].tolist() == [[6, 7, -1], [5, -1, -1]]
    assert left.scores[:, :3].tolist() == [[2, 1, -np.inf], [3, -np.inf, -np.inf]]
    assert left.num_candidates is rankings.num_candidates


def test_the_last_few_pools_are_kept() -> None:
    made: list[int] = []

    def make(members: np.ndarray) -> int:
        made.append(len(members))
        return len(members)

    cached = PerPool(make)
    for size in [*range(CACHED_POOLS), *range(CACHED_POOLS)]:
        assert cached(np.arange(size)) == size
    assert made == list(range(CACHED_POOLS))
    cached(np.arange(100))  # the oldest is given up
    cached(np.arange(1))
    cached(np.arange(0))
    assert made == [*range(CACHED_POOLS), 100, 0]


def test_the_items_that_hold_a_query_s_own_image_or_text(miniature: Path) -> None:
    tree, inputs = Tree(miniature), EncoderInputs()
    inputs.add_tree(tree)
    source = InputRows(inputs)
    items = read_items(tree, source, "test")
    tasks = read_queries(tree, source, items, "test")
    own = own_items(source, items, tasks)
    by_name = {task.task: task for task in tasks}
    (task,) = [task for task in by_name if str(task) == "webqa_task4"]  # by an image that is in the pool
    for place, query in enumerate(tree.queries("test", task)):
        assert query.image is not None
        same = {item.id for item in tree if item.image and item.image.name == query.image.name}
        assert {items.ids[number] for number in own[task][place]} == same != set()
