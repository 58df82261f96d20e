"""Random features of a few images and texts, for the stage of the heads."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np

from genius.corpus.items import CorpusItems
from genius.corpus.queries import TaskQueries
from genius.corpus.records import Records
from genius.data.records import MODALITIES
from genius.data.tasks import Task
from genius.encode.features import ABSENT
from genius.encode.heads import HeadSettings
from genius.train.heads import EncoderSettings, EncoderStage
from genius.train.loop import LoopSettings

ITEMS, QUERIES, PROMPTS = 60, 30, 6
SETTINGS = EncoderSettings(
    batch=12,
    negatives=9,
    hard_negatives=2,
    temperature=0.2,
    learn_temperature=True,
    instruction_dropout=0.3,
    heads=HeadSettings(
        width=27,
        raw=4,
        hidden=8,
        members=2,
        dropout=0.0,
        input_dropout=0.0,
        image_parts=("features:6",),
        text_parts=("features:6",),
    ),
    loop=LoopSettings(steps=20, accumulate=2),
)


def stage(**changes: Any) -> EncoderStage:
    """Two tasks of one data set over items of all modalities; a query has one to three positives."""
    random = np.random.default_rng(0)
    features: Any = SimpleNamespace(
        images=random.normal(size=(ITEMS, 10)).astype(np.float16),
        texts=random.normal(size=(ITEMS + PROMPTS, 10)).astype(np.float16),
    )
    encoder: Any = SimpleNamespace(image_parts={"features": 10}, text_parts={"features": 10})
    modality = (np.arange(ITEMS) % 3).astype(np.int8)
    contents = Records(
        np.where(modality == 1, ABSENT, np.arange(ITEMS)),
        np.where(modality == 0, ABSENT, np.arange(ITEMS)),
        np.full(ITEMS, ABSENT),
    )
    ids = [str(number) for number in range(ITEMS)]
    pool = CorpusItems(ids, contents, modality, {id: number for number, id in enumerate(ids)})
    tasks = [_task(Task("webqa", number), modality, random) for number in (1, 2)]
    prompts = ITEMS + np.arange(PROMPTS), np.arange(PROMPTS) % 3
    settings = dataclasses.replace(SETTINGS, **changes)
    return EncoderStage(settings, encoder, features, pool, (tasks, tasks), prompts, seed=5)


def _task(task: Task, modality: np.ndarray, random: np.random.Generator) -> TaskQueries:
    wanted = np.flatnonzero(modality == MODALITIES.index(task.target))
    counts = random.integers(1, 4, QUERIES)
    positives = [random.choice(wanted[:8], count, replace=False) for count in counts]
    rows = np.arange(QUERIES)
    return TaskQueries(
        task,
        [str(row) for row in rows],
        Records(np.full(QUERIES, ABSENT), rows, np.full(QUERIES, ABSENT)),
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate(positives),
        [random.choice(wanted, 4) if row % 2 else np.zeros(0, np.int64) for row in rows],
        ITEMS + np.arange(2),
        rows.astype(np.int32),
    )
