"""What validation decides once a quantizer is trained: which dense search is fair, and how to re-rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from genius.data.tasks import Task
from genius.encode.corpus import TaskQueries
from genius.model import Ruler
from genius.search.exact import nearest
from genius.train.pairs import hit_rate
from genius.train.sampling import permuted

WEIGHTS = tuple(number / 10 for number in range(11))
Rows = Callable[[Task, np.ndarray], np.ndarray]
"""Embeddings of some queries of a task."""


@dataclass(frozen=True)
class Weighed:
    """What dense search compares, and the share of joined embeddings in re-ranking."""

    fair: Ruler
    rerank: float


@dataclass(frozen=True)
class Sides:
    """What is compared: joined embeddings, vectors, and of items the quantized vectors, all [n, width]."""

    joined: np.ndarray
    vectors: np.ndarray
    quantized: np.ndarray


def weigh(
    items: Sides,
    modality: np.ndarray,
    tasks: Sequence[TaskQueries],
    joined: Rows,
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

        by_joined, by_vectors = joined(task.task, rows), vectors(task.task, rows)
        dense.append(hits(same[nearest(by_joined, items.joined[same], 5)[1]]))
        vector_hits.append(hits(same[nearest(by_vectors, items.vectors[same], 5)[1]]))
        found = _blends(by_joined, items.joined[same], by_vectors, items.quantized[same])
        blended.append([hits(same[best]) for best in found])
    weight = WEIGHTS[int(np.argmax(np.mean(blended, axis=0)))]
    return Weighed("vectors" if np.mean(vector_hits) > np.mean(dense) else "joined", weight)


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
