"""A small world of vectors for the quantizer's stage; run as a program it can be killed, or be several."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from genius.corpus.embedded import EmbeddedCorpus
from genius.corpus.items import CorpusItems
from genius.corpus.queries import TaskQueries
from genius.corpus.records import Records
from genius.data.tasks import Task
from genius.quantize.codebooks import CodebookSettings
from genius.quantize.fusion import FusionSettings
from genius.quantize.fusion_inputs import FusionInputs
from genius.train.quantizer import QuantizerLoopSettings, QuantizerSettings, QuantizerStage
from tests.train.processes import run_as_program, train_small

WIDTH, ITEMS, QUERIES = 24, 120, 90
SETTINGS = QuantizerSettings(
    batch=48,
    others=20,
    temperature=0.1,
    gamma=20.0,
    validated=30,
    fusion=FusionSettings(hidden=16, dropout=0.0),
    codebooks=CodebookSettings(levels=2, size=16, iterations=4),
    loop=QuantizerLoopSettings(steps=20, learning_rate=1e-3, warm_up=2, validate_every=10, save_every=4),
)


def world(seed: int, positives: int = 1, count: int = ITEMS // 3) -> EmbeddedCorpus:
    """Items of three modalities around so many points, and queries near them; a third of all have both parts.

    A query has this many positives: the item of its point, and those of the points after it.
    """
    random = np.random.default_rng(0)
    points = random.normal(size=(count, WIDTH))
    total = 3 * count
    modality = np.repeat(np.arange(3), count).astype(np.int8)
    shift = 2 * random.normal(size=(3, WIDTH))
    items = points[np.arange(total) % count] + shift[modality]
    pool = CorpusItems(
        [str(n) for n in range(total)], _records(total), modality, {str(n): n for n in range(total)}
    )
    tasks, queries = {}, {}
    noise = np.random.default_rng(seed)
    for task in (Task("webqa", 1), Task("webqa", 2)):
        want = ["image", "text", "pair"].index(str(task.target))
        answers = noise.integers(0, count, QUERIES)
        near = points[answers] + shift[want] + 0.3 * noise.normal(size=(QUERIES, WIDTH))
        tasks[task] = TaskQueries(
            task,
            [str(n) for n in range(QUERIES)],
            _records(QUERIES),
            np.arange(0, positives * QUERIES + 1, positives),
            (answers[:, None] + np.arange(positives)).ravel() % count + want * count,
            [np.zeros(0, np.int64)] * QUERIES,
            np.zeros(1, np.int64),
            np.zeros(QUERIES, np.int32),
        )
        queries[task] = fusion_inputs(near)
    return EmbeddedCorpus(pool, fusion_inputs(items), tasks, queries)


def _records(count: int) -> Records:
    return Records(*(np.zeros(count, np.int32) for _ in range(3)))


def fusion_inputs(rows: np.ndarray) -> FusionInputs:
    unit = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    kinds = np.arange(len(rows)) % 3
    return FusionInputs.from_parts(unit, (unit[:, ::-1], kinds != 0), (-unit, kinds != 1))


def stage(settings: QuantizerSettings = SETTINGS, positives: int = 1) -> QuantizerStage:
    return QuantizerStage(settings, world(1, positives), world(2, positives), seed=5)


def run(folder: Path) -> dict[str, torch.Tensor]:
    return train_small(stage(), SETTINGS.loop, folder)


if __name__ == "__main__":
    run_as_program(run)
