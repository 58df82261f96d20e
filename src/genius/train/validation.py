"""What validation decides once a quantizer is trained: which dense search is fair, and how to re-rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from genius.corpus.queries import TaskQueries
from genius.data.tasks import Task
from genius.decode.geometry import Geometry, fit_temperature
from genius.model import DenseBaseline
from genius.quantize.quantizer import Quantizer, modality_codes_for
from genius.search.code_pool import CodePool
from genius.search.dense import nearest
from genius.train.batches import permuted
from genius.train.pairs import hit_rate

WEIGHTS = tuple(number / 10 for number in range(11))
Rows = Callable[[Task, np.ndarray], np.ndarray]
"""Embeddings of some queries of a task."""


@dataclass(frozen=True)
class Weighed:
    """What dense search compares, and the share of joined embeddings in re-ranking."""

    dense_baseline: DenseBaseline
    rerank: float


@dataclass(frozen=True)
class Sides:
    """What is compared: joined embeddings, vectors, and of items the quantized vectors, all [n, width]."""

    embeddings: np.ndarray
    vectors: np.ndarray
    quantized: np.ndarray


def weigh(
    items: Sides,
    modality: np.ndarray,
    tasks: Sequence[TaskQueries],
    embeddings: Rows,
    vectors: Rows,
    *,
    count: int,
) -> Weighed:
    """Compare by the mean hit rate @5 over tasks, in the wanted modality; up to `count` queries of each."""
    dense, vector_hits, blended = [], [], []
    for task in tasks:
        rows = permuted(len(task), 0, min(len(task), count), seed=(0,))
        same = np.flatnonzero(modality == task.want)

        def hits(found: np.ndarray, task: TaskQueries = task, rows: np.ndarray = rows) -> float:
            return hit_rate(task, rows, found)

        by_joined, by_vectors = embeddings(task.task, rows), vectors(task.task, rows)
        dense.append(hits(same[nearest(by_joined, items.embeddings[same], 5)[1]]))
        vector_hits.append(hits(same[nearest(by_vectors, items.vectors[same], 5)[1]]))
        found = _blends(by_joined, items.embeddings[same], by_vectors, items.quantized[same])
        blended.append([hits(same[best]) for best in found])
    weight = WEIGHTS[int(np.argmax(np.mean(blended, axis=0)))]
    return Weighed("vectors" if np.mean(vector_hits) > np.mean(dense) else "embeddings", weight)


def _blends(
    queries: np.ndarray, items: np.ndarray, vectors: np.ndarray, quantized: np.ndarray
) -> list[np.ndarray]:
    """The five best items of each query for each weight (search/blend.py), the products made once."""
    halves = 0.5 * np.einsum("ij,ij->i", quantized, quantized)
    likeness, nearness = queries @ items.T, vectors @ quantized.T - halves
    best = []
    for weight in WEIGHTS:
        order = np.argpartition(
            -(weight * likeness + (1 - weight) * nearness), min(5, len(items)) - 1, axis=1
        )
        best.append(order[:, :5].copy())  # a view would keep the whole order
    return best


FLATTER = 2.5
"""Beams find most at this multiple of the likeliest temperature: what is likely level by level is too sure of
itself in sum, as the levels' errors go together (hit rate @5 at 1 / 2.5 / 7 times: 41.8 / 42.1 / 42.0)."""


@dataclass(frozen=True)
class Checked:
    """Means over tasks in percent: hit rates @5, and survival after each semantic level.

    With them what was found on the way: the geometry's temperature, and what each first code stands for.
    """

    codes: float
    geometry: float
    survival: list[float]
    temperature: float
    modality_of: list[int]


def check_codes(
    quantizer: Quantizer,
    modality: np.ndarray,
    codes: np.ndarray,
    tasks: Sequence[TaskQueries],
    embed: Callable[[Task, np.ndarray], np.ndarray],
    *,
    count: int,
) -> Checked:
    """Look for the answers of queries among the items of the wanted modality, by the codes of all items.

    `embed` gives the vectors of some queries of a task; `count` of each task are looked at, and a third of
    them by the beam.
    """
    units = quantizer.units(codes)
    asked = []
    for task in tasks:
        rows = permuted(len(task), 0, min(len(task), count), seed=(0,))
        asked.append(_Asked(task, rows, embed(task.task, rows)))
    hits = []
    for one in asked:
        same = np.flatnonzero(modality == one.task.want)
        _, found = nearest(one.vectors, units[same], 5)
        hits.append(hit_rate(one.task, one.rows, same[found]))
    temperature = _fit_temperature(quantizer, codes, asked)
    modality_of = quantizer.modality_by_code(codes, modality)
    pool = CodePool(codes, quantizer.codebooks, quantizer.semantic)
    decoder = Geometry(quantizer.codebooks, temperature)
    survival, beam_hits = [], []
    for one in asked:
        some = one.rows[: max(1, count // 3)]
        first = modality_codes_for(modality_of, one.task.want, len(some))
        positives = [one.task.positives(row) for row in some]
        items, survived = pool.search(decoder, one.vectors[: len(some)], positives, modality_code=first)
        survival.append(survived[quantizer.semantic :])
        beam_hits.append(hit_rate(one.task, some, items))
    return Checked(
        100 * float(np.mean(hits)),
        100 * float(np.mean(beam_hits)),
        (100 * np.mean(survival, axis=0)).tolist(),
        temperature,
        modality_of,
    )


@dataclass(frozen=True)
class _Asked:
    task: TaskQueries
    rows: np.ndarray
    vectors: np.ndarray


def _fit_temperature(quantizer: Quantizer, codes: np.ndarray, asked: Sequence[_Asked]) -> float:
    """The geometry's temperature, by a positive of each query."""
    vectors = np.concatenate([one.vectors for one in asked])
    positives = np.concatenate([one.task.items[one.task.starts[one.rows]] for one in asked])
    return FLATTER * fit_temperature(quantizer.codebooks, vectors, codes[positives])
