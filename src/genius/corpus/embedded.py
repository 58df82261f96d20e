"""The items and queries of a benchmark as a model sees them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from genius.corpus.records import Pool, Records, TaskQueries
from genius.data.images import load
from genius.data.records import ImageSource
from genius.data.tasks import Task
from genius.encode.features import ABSENT, Features
from genius.encode.inputs import InputRows
from genius.errors import InputError
from genius.model import Model
from genius.progress import bar
from genius.quantize.fusion_inputs import FusionInputs, concatenate

BLOCK = 2048
PICTURES = 64
"""How many pictures are in memory at a time, where there are no features."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Embedded:
    """Items and queries of a benchmark by their parts and joined embeddings."""

    pool: Pool
    items: FusionInputs
    tasks: Mapping[Task, TaskQueries]
    queries: Mapping[Task, FusionInputs]


def embed(
    model: Model,
    source: Features | InputRows,
    pool: Pool,
    tasks: Sequence[TaskQueries],
    *,
    items: FusionInputs | None = None,
) -> Embedded:
    """Embed all items and queries by the model, from cached features or from contents, as it needs them.

    `items` are those of the pool, if they were embedded before.
    """
    embed_items, embed_queries = (
        _from_features(model, source) if isinstance(source, Features) else _from_contents(model, source)
    )
    todo = 0 if items is not None else len(pool.ids)
    with bar("embedding", total=todo + sum(map(len, tasks))) as shown:
        embedded = [] if items is None else [items]
        for start in range(0, todo, BLOCK):
            part = slice(start, start + BLOCK)
            embedded.append(embed_items(pool.contents[part], pool.modality[part]))
            shown.advance(len(embedded[-1]))
        queries = {}
        for task in tasks:
            blocks = [
                embed_queries(task.contents[start : start + BLOCK]) for start in range(0, len(task), BLOCK)
            ]
            queries[task.task] = concatenate(blocks)
            shown.advance(len(task))
    return Embedded(pool, concatenate(embedded), {task.task: task for task in tasks}, queries)


EmbedItems = Callable[[Records, np.ndarray], FusionInputs]
EmbedQueries = Callable[[Records], FusionInputs]


def _from_features(model: Model, features: Features) -> tuple[EmbedItems, EmbedQueries]:
    def items(records: Records, modality: np.ndarray) -> FusionInputs:
        image, text, _ = _rows(features, records)
        return model.item_fusion_inputs(image, text, modality)

    return items, lambda records: model.query_fusion_inputs(*_rows(features, records))


def _from_contents(model: Model, contents: InputRows) -> tuple[EmbedItems, EmbedQueries]:
    def block(records: Records) -> FusionInputs:
        pictures = [None if row == ABSENT else _read(contents.images[row]) for row in records.image]
        texts = ["" if row == ABSENT else contents.texts[row] for row in records.text]
        return model.record_fusion_inputs(pictures, texts)

    def queries(records: Records) -> FusionInputs:
        starts = range(0, len(records), PICTURES)
        return concatenate([block(records[start : start + PICTURES]) for start in starts])

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
