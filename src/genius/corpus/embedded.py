"""The items and queries of a benchmark as a model embeds them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from genius.corpus.items import CorpusItems
from genius.corpus.queries import TaskQueries
from genius.corpus.records import Records
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
IMAGES = 64
"""How many images are in memory at a time, where there are no features."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EmbeddedCorpus:
    """Items and queries of a benchmark by their parts and embeddings."""

    pool: CorpusItems
    items: FusionInputs
    tasks: Mapping[Task, TaskQueries]
    queries: Mapping[Task, FusionInputs]


def embed_corpus(
    model: Model,
    source: Features | InputRows,
    pool: CorpusItems,
    tasks: Sequence[TaskQueries],
    *,
    items: FusionInputs | None = None,
) -> EmbeddedCorpus:
    """Embed all items and queries by the model, from cached features or from contents.

    `items` are those of the pool, if they were embedded before.
    """
    embed_items, embed_queries = (
        _from_features(model, source) if isinstance(source, Features) else _from_contents(model, source)
    )
    todo = 0 if items is not None else len(pool.ids)
    with bar("embedding", total=todo + sum(map(len, tasks))) as shown:
        embedded = [] if items is None else [items]
        for start in range(0, todo, BLOCK):
            block = slice(start, start + BLOCK)
            embedded.append(embed_items(pool.contents[block], pool.modality[block]))
            shown.advance(len(embedded[-1]))
        queries = {}
        for task in tasks:
            blocks = [
                embed_queries(task.contents[start : start + BLOCK]) for start in range(0, len(task), BLOCK)
            ]
            queries[task.task] = concatenate(blocks)
            shown.advance(len(task))
    return EmbeddedCorpus(pool, concatenate(embedded), {task.task: task for task in tasks}, queries)


EmbedItems = Callable[[Records, np.ndarray], FusionInputs]
EmbedQueries = Callable[[Records], FusionInputs]


def _from_features(model: Model, features: Features) -> tuple[EmbedItems, EmbedQueries]:
    def items(records: Records, modality: np.ndarray) -> FusionInputs:
        image, text, _ = _feature_rows(features, records)
        return model.item_fusion_inputs(image, text, modality)

    return items, lambda records: model.query_fusion_inputs(*_feature_rows(features, records))


def _from_contents(model: Model, contents: InputRows) -> tuple[EmbedItems, EmbedQueries]:
    def loaded(records: Records) -> tuple[list[Image.Image | None], list[str], list[str]]:
        images = [None if row == ABSENT else _load(contents.images[row]) for row in records.image]
        texts, instructions = (
            ["" if row == ABSENT else contents.texts[row] for row in rows]
            for rows in (records.text, records.instruction)
        )
        return images, texts, instructions

    def in_blocks(embed: EmbedQueries, records: Records) -> FusionInputs:
        starts = range(0, len(records), IMAGES)
        return concatenate([embed(records[start : start + IMAGES]) for start in starts])

    def items(records: Records) -> FusionInputs:
        return model.record_fusion_inputs(*loaded(records)[:2])

    def queries(records: Records) -> FusionInputs:
        return model.query_record_inputs(*loaded(records))

    return lambda records, _: in_blocks(items, records), lambda records: in_blocks(queries, records)


def _load(image: ImageSource) -> Image.Image | None:
    """An image, or None if it can't be read: the others are evaluated all the same."""
    try:
        return load(image)
    except InputError as error:
        log.warning("left out: %s", error)
        return None


def _feature_rows(features: Features, records: Records) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Features of records by part, and which of them are present."""
    parts = (
        (features.images, records.image),
        (features.texts, records.text),
        (features.texts, records.instruction),
    )
    return tuple(
        (np.asarray(table[np.maximum(rows, 0)], np.float32), rows != ABSENT) for table, rows in parts
    )
