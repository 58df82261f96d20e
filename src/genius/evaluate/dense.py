"""The dense systems of the ruler: exact search by joined embeddings, in the pool or its wanted modality."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from genius.corpus.embedded import Embedded
from genius.corpus.records import Pool, Rows, TaskQueries
from genius.data.tasks import Task
from genius.encode.features import ABSENT
from genius.evaluate.per_pool import PerPool
from genius.evaluate.protocol import DEPTH, Found, Search
from genius.search.dense import DenseIndex


def dense_systems(
    embedded: Embedded,
    *,
    fair: Compared | None = None,
    excluding: Mapping[Task, list[np.ndarray]] | None = None,
) -> dict[str, Search]:
    """`dense`: the whole pool by joined embeddings; `dense-fair`: its items of the wanted modality, by joined
    embeddings or by what validation found better.

    `excluding` names for each query the items that are left out of its results.
    """
    embeddings = Compared(
        Indexes(embedded.items.embeddings), {task: parts.embeddings for task, parts in embedded.queries.items()}
    )
    fair = fair or embeddings

    def search(compared: Compared, task: Task, members: np.ndarray) -> Found:
        left_out = excluding[task] if excluding else None
        return compared.index.search(compared.queries[task], members, left_out)

    def in_wanted(task: Task, members: np.ndarray) -> Found:
        wanted = embedded.pool.modality[members] == embedded.tasks[task].want
        return search(fair, task, members[wanted])

    return {"dense": lambda task, members: search(embeddings, task, members), "dense-fair": in_wanted}


@dataclass(frozen=True, eq=False)
class Compared:
    """Items and queries that are compared by inner product."""

    index: Indexes
    queries: Mapping[Task, np.ndarray]


class Indexes:
    """Exact search among some of the items, by a flat index for each set of them."""

    def __init__(self, items: np.ndarray) -> None:
        self._index = PerPool(lambda members: DenseIndex(items[members]))

    def search(
        self, queries: np.ndarray, members: np.ndarray, left_out: list[np.ndarray] | None = None
    ) -> Found:
        """The best of the items with these numbers for each query, without those that are left out for it."""
        more = max((len(items) for items in left_out), default=0) if left_out else 0
        scores, rows = self._index(members).search(queries, DEPTH + more)
        found = Found(scores, members[rows])
        return found if left_out is None else without(found, left_out)


def without(found: Found, left_out: list[np.ndarray]) -> Found:
    """Results less those that are left out for each query."""
    scores, numbers, looked = found
    kept_scores = np.full((len(scores), DEPTH), -np.inf, np.float32)
    kept_numbers = np.full((len(scores), DEPTH), -1, np.int64)
    for row, unwanted in enumerate(left_out):
        kept = np.flatnonzero(~np.isin(numbers[row], unwanted))[:DEPTH]
        kept_scores[row, : len(kept)] = scores[row, kept]
        kept_numbers[row, : len(kept)] = numbers[row, kept]
    return Found(kept_scores, kept_numbers, looked)


def own_items(source: Rows, pool: Pool, tasks: Sequence[TaskQueries]) -> dict[Task, list[np.ndarray]]:
    """For each query the items whose picture or text is its own, under whatever name."""
    images = _by_content(source.image_key, pool.contents.image)
    texts = _by_content(source.text_key, pool.contents.text)
    nothing = np.zeros(0, np.int64)
    found = {}
    for task in tasks:
        found[task.task] = [
            np.concatenate(
                [
                    images.get(source.image_key(image), nothing) if image != ABSENT else nothing,
                    texts.get(source.text_key(text), nothing) if text != ABSENT else nothing,
                ]
            )
            for image, text in zip(task.contents.image, task.own_texts, strict=True)
        ]
    return found


def _by_content(key: Callable[[int], bytes], rows: np.ndarray) -> dict[bytes, np.ndarray]:
    items: dict[bytes, list[int]] = {}
    for number, row in enumerate(rows):
        if row != ABSENT:
            items.setdefault(key(row), []).append(number)
    return {content: np.array(numbers, np.int64) for content, numbers in items.items()}
