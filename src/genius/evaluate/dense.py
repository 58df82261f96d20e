"""The dense systems of the ruler: exact search by joined embeddings, in the pool or its wanted modality."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from genius.data.images import load
from genius.data.records import ImageSource
from genius.data.tasks import Task
from genius.encode.contents import ContentRows
from genius.encode.corpus import Pool, Records, Rows, TaskQueries
from genius.encode.features import ABSENT, Features
from genius.errors import InputError
from genius.evaluate.protocol import DEPTH, Found, Search
from genius.model import Model
from genius.progress import bar
from genius.search.dense import DenseIndex

BLOCK = 2048
PICTURES = 64
"""How many pictures are in memory at a time, where there are no features."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Embedded:
    """Items and queries of a benchmark by their joined embeddings."""

    pool: Pool
    items: np.ndarray
    tasks: Mapping[Task, TaskQueries]
    queries: Mapping[Task, np.ndarray]


def embed(model: Model, source: Features | ContentRows, pool: Pool, tasks: Sequence[TaskQueries]) -> Embedded:
    """Embed all items and queries by the model, from cached features or from contents, as it needs them."""
    embed_items, embed_queries = (
        _from_features(model, source) if isinstance(source, Features) else _from_contents(model, source)
    )
    with bar("embedding", total=len(pool.ids) + sum(map(len, tasks))) as shown:
        items = []
        for start in range(0, len(pool.ids), BLOCK):
            part = slice(start, start + BLOCK)
            items.append(embed_items(pool.contents[part], pool.modality[part]))
            shown.advance(len(items[-1]))
        queries = {}
        for task in tasks:
            blocks = [
                embed_queries(task.contents[start : start + BLOCK]) for start in range(0, len(task), BLOCK)
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


EmbedItems = Callable[[Records, np.ndarray], np.ndarray]
EmbedQueries = Callable[[Records], np.ndarray]


def _from_features(model: Model, features: Features) -> tuple[EmbedItems, EmbedQueries]:
    def items(records: Records, modality: np.ndarray) -> np.ndarray:
        image, text, _ = _rows(features, records)
        return model.join_items(image, text, modality)

    return items, lambda records: model.join_queries(*_rows(features, records))


def _from_contents(model: Model, contents: ContentRows) -> tuple[EmbedItems, EmbedQueries]:
    def block(records: Records) -> np.ndarray:
        pictures = [None if row == ABSENT else _read(contents.images[row]) for row in records.image]
        texts = ["" if row == ABSENT else contents.texts[row] for row in records.text]
        return model.embed_records(pictures, texts)

    def queries(records: Records) -> np.ndarray:
        starts = range(0, len(records), PICTURES)
        return np.concatenate([block(records[start : start + PICTURES]) for start in starts])

    return lambda records, _: queries(records), queries


def _read(image: ImageSource) -> Image.Image | None:
    """A picture, or None if it can't be read: the others are evaluated all the same."""
    try:
        return load(image)
    except InputError as error:
        log.warning("left out: %s", error)
        return None


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
