"""The dense systems of the ruler: exact search by joined embeddings, in the pool or its wanted modality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from genius.data.tasks import Task
from genius.encode.corpus import Pool, Records, TaskQueries
from genius.encode.features import ABSENT, Features
from genius.evaluate.protocol import DEPTH, Found, Search
from genius.model import Model
from genius.progress import bar
from genius.search.dense import DenseIndex

BLOCK = 2048


@dataclass(frozen=True)
class Embedded:
    """Items and queries of a benchmark by their joined embeddings."""

    pool: Pool
    items: np.ndarray
    tasks: Mapping[Task, TaskQueries]
    queries: Mapping[Task, np.ndarray]


def embed(model: Model, features: Features, pool: Pool, tasks: Sequence[TaskQueries]) -> Embedded:
    """Embed all items and queries by the model, from cached features."""
    with bar("embedding", total=len(pool.ids) + sum(map(len, tasks))) as shown:
        items = []
        for start in range(0, len(pool.ids), BLOCK):
            part = slice(start, start + BLOCK)
            image, text, _ = _rows(features, pool.contents[part])
            items.append(model.join_items(image, text, pool.modality[part]))
            shown.advance(len(items[-1]))
        queries = {}
        for task in tasks:
            blocks = [
                model.join_queries(*_rows(features, task.contents[start : start + BLOCK]))
                for start in range(0, len(task), BLOCK)
            ]
            queries[task.task] = np.concatenate(blocks)
            shown.advance(len(task))
    return Embedded(pool, np.concatenate(items), {task.task: task for task in tasks}, queries)


def dense_systems(
    embedded: Embedded, *, excluding: Mapping[Task, list[np.ndarray]] | None = None
) -> dict[str, Search]:
    """`dense`: the whole pool; `dense-fair`: its items of the wanted modality.

    `excluding` names for each query the items that are left out of its results.
    """
    index = _Indexes(embedded.items)

    def dense(task: Task, members: np.ndarray) -> Found:
        left_out = excluding[task] if excluding else None
        return index.search(embedded.queries[task], members, left_out)

    def fair(task: Task, members: np.ndarray) -> Found:
        wanted = embedded.pool.modality[members] == embedded.tasks[task].want
        return dense(task, members[wanted])

    return {"dense": dense, "dense-fair": fair}


class _Indexes:
    """A flat index for each set of items; the last ones are kept, since tasks share pools."""

    def __init__(self, items: np.ndarray) -> None:
        self._items = items
        self._made: dict[bytes, DenseIndex] = {}

    def search(self, queries: np.ndarray, members: np.ndarray, left_out: list[np.ndarray] | None) -> Found:
        key = members.tobytes()
        if key not in self._made:
            if len(self._made) >= 4:
                self._made.pop(next(iter(self._made)))
            self._made[key] = DenseIndex(self._items[members])
        more = max((len(items) for items in left_out), default=0) if left_out else 0
        scores, rows = self._made[key].search(queries, DEPTH + more)
        return _without(scores, members[rows], left_out)


def _without(scores: np.ndarray, numbers: np.ndarray, left_out: list[np.ndarray] | None) -> Found:
    if left_out is None:
        return scores, numbers
    kept_scores = np.full((len(scores), DEPTH), -np.inf, np.float32)
    kept_numbers = np.full((len(scores), DEPTH), -1, np.int64)
    for row, unwanted in enumerate(left_out):
        kept = np.flatnonzero(~np.isin(numbers[row], unwanted))[:DEPTH]
        kept_scores[row, : len(kept)] = scores[row, kept]
        kept_numbers[row, : len(kept)] = numbers[row, kept]
    return kept_scores, kept_numbers


def own_items(features: Features, pool: Pool, tasks: Sequence[TaskQueries]) -> dict[Task, list[np.ndarray]]:
    """For each query the items whose picture or text is its own: equal content has equal features."""
    images = _by_content(features.images, pool.contents.image)
    texts = _by_content(features.texts, pool.contents.text)
    nothing = np.zeros(0, np.int64)
    found = {}
    for task in tasks:
        found[task.task] = [
            np.concatenate(
                [
                    images.get(features.images[image].tobytes(), nothing) if image != ABSENT else nothing,
                    texts.get(features.texts[text].tobytes(), nothing) if text != ABSENT else nothing,
                ]
            )
            for image, text in zip(task.contents.image, task.contents.text, strict=True)
        ]
    return found


def _by_content(table: np.ndarray, rows: np.ndarray) -> dict[bytes, np.ndarray]:
    items: dict[bytes, list[int]] = {}
    for number, row in enumerate(rows):
        if row != ABSENT:
            items.setdefault(table[row].tobytes(), []).append(number)
    return {content: np.array(numbers, np.int64) for content, numbers in items.items()}


def _rows(features: Features, records: Records) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Features of records by part, and which of them are there."""
    found = []
    parts = (
        (features.images, records.image),
        (features.texts, records.text),
        (features.texts, records.instruction),
    )
    for table, rows in parts:
        taken = np.asarray(table[np.maximum(rows, 0)], np.float32)
        found.append((taken, rows != ABSENT))
    return tuple(found)
