"""A model's health in figures, from arrays: use of the codes, recall step by step, what survives the beam."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from genius.decode.geometry import Geometry
from genius.doctor.codes import Buckets, Level, agreement, buckets, confusion, level_use, purity
from genius.doctor.found import best_ranks, hit_rate
from genius.errors import InputError
from genius.model import DenseBaseline
from genius.quantize.quantizer import modality_codes_for, unit_length
from genius.search.beam import BEAMS
from genius.search.code_pool import CodePool

RANK = 5
"""Success is a positive among the first five."""
AGREEMENT = 3
"""How many leading semantic codes of a query and its answer are compared."""


@dataclass(frozen=True, eq=False)
class CodedItems:
    """The items of a pool: modality [n], joined embeddings, vectors and quantized vectors [n, width], codes.

    `not_finite` counts vectors that were no numbers and are zeros here.
    """

    modality: np.ndarray
    embeddings: np.ndarray
    vectors: np.ndarray
    codes: np.ndarray
    quantized: np.ndarray
    not_finite: int = 0


@dataclass(frozen=True, eq=False)
class CodedQueries:
    """Queries of one task, as items are, and the numbers of the items that answer each."""

    task: str
    want: int
    embeddings: np.ndarray
    vectors: np.ndarray
    codes: np.ndarray
    quantized: np.ndarray
    positives: Sequence[np.ndarray]
    not_finite: int = 0

    def __len__(self) -> int:
        return len(self.vectors)


@dataclass(frozen=True)
class Coding:
    """How codes are made: the size of each level, what the first is, and what each first code stands for."""

    sizes: tuple[int, ...]
    first: str
    modality_of: tuple[int, ...]
    dense_baseline: DenseBaseline = "embeddings"
    """What fair dense search looks at: joined embeddings or vectors, whichever validation found better."""

    @property
    def semantic(self) -> int:
        """The number of the first level that codes meaning."""
        return 0 if self.first == "none" else 1


@dataclass(frozen=True)
class TaskHealth:
    """The figures of one task, among the items of the wanted modality."""

    task: str
    queries: int
    embeddings: float
    """Hit rate @5 by joined embeddings."""
    vectors: float
    """The same by fused vectors z."""
    codes: float
    """The same by codes alone: the query's vector against the items' quantized vectors ẑ."""
    ceiling: float
    """Hit rate @50 by joined embeddings: as many as the beam holds."""
    known: tuple[float, ...]
    """What survives the beam after each level, the wanted modality given."""
    inferred: tuple[float, ...]
    """The same, the modality left to the query's vector."""
    matched: tuple[float, ...]
    """Share of queries that have the same first one, two, three semantic codes as an answer of theirs."""
    random: tuple[float, ...]
    """The same with another query's answer; empty if there is only one query."""


@dataclass(frozen=True)
class Health:
    """All figures of an examination."""

    coding: Coding
    queries: int
    not_finite: int
    """Items and queries whose vectors are no numbers."""
    levels: tuple[Level, ...]
    buckets: Buckets
    confusion: tuple[tuple[int, ...], ...]
    """Items by first code and modality; empty if no code is the modality's."""
    purity: float
    """Share of items whose first code stands for their modality."""
    cosine: float
    """Mean cosine of an item's vector and its quantized one."""
    tasks: tuple[TaskHealth, ...]

    def mean(self, figure: Callable[[TaskHealth], float]) -> float:
        """The mean of a figure over tasks."""
        return float(np.mean([figure(task) for task in self.tasks]))

    def means(self, figures: Callable[[TaskHealth], tuple[float, ...]]) -> tuple[float, ...]:
        """The mean of each of several figures over the tasks that have them."""
        rows = [row for task in self.tasks if (row := figures(task))]
        return tuple(float(value) for value in np.mean(rows, axis=0)) if rows else ()

    @property
    def embeddings(self) -> float:
        """Mean hit rate @5 by joined embeddings."""
        return self.mean(lambda task: task.embeddings)

    @property
    def dense_baseline(self) -> float:
        """Mean hit rate @5 of fair dense search."""
        return self.vectors if self.coding.dense_baseline == "vectors" else self.embeddings

    @property
    def vectors(self) -> float:
        """Mean hit rate @5 by vectors."""
        return self.mean(lambda task: task.vectors)

    @property
    def codes(self) -> float:
        """Mean hit rate @5 by codes alone."""
        return self.mean(lambda task: task.codes)

    @property
    def ceiling(self) -> float:
        """Mean hit rate @50 by joined embeddings."""
        return self.mean(lambda task: task.ceiling)

    @property
    def kept(self) -> float:
        """What codes alone keep of fair dense recall; NaN where there is none to keep."""
        return self.codes / self.dense_baseline if self.dense_baseline > 0 else float("nan")

    @property
    def known(self) -> tuple[float, ...]:
        """Mean survival after each level, the wanted modality given."""
        return self.means(lambda task: task.known)

    @property
    def inferred(self) -> tuple[float, ...]:
        """Mean survival after each level, the wanted modality inferred."""
        return self.means(lambda task: task.inferred)


def measure(
    items: CodedItems,
    tasks: Sequence[CodedQueries],
    decoder: Geometry,
    coding: Coding,
    *,
    beams: int = BEAMS,
    seed: int = 0,
) -> Health:
    """The health of a quantizer by a pool's items and some queries of each task."""
    if not tasks or not all(len(task) for task in tasks):
        raise InputError("an examination needs at least one task, and queries of each")
    pool = CodePool(items.codes, decoder.codebooks, coding.semantic)
    table = confusion(items.codes[:, 0], items.modality, coding.sizes[0]) if coding.semantic else None
    return Health(
        coding=coding,
        queries=sum(map(len, tasks)),
        not_finite=items.not_finite + sum(task.not_finite for task in tasks),
        levels=level_use(items.codes, coding.sizes),
        buckets=buckets(items.codes, items.vectors, items.modality),
        confusion=() if table is None else tuple(tuple(map(int, row)) for row in table),
        purity=float("nan") if table is None else purity(table),
        cosine=mean_cosine(items.vectors, items.quantized),
        tasks=tuple(_measure_task(items, task, pool, decoder, coding, beams, seed) for task in tasks),
    )


def _measure_task(
    items: CodedItems,
    task: CodedQueries,
    pool: CodePool,
    decoder: Geometry,
    coding: Coding,
    beams: int,
    seed: int,
) -> TaskHealth:
    wanted = np.flatnonzero(items.modality == task.want)
    places = np.full(len(items.modality), -1)
    places[wanted] = np.arange(len(wanted))
    inside = [found[found >= 0] for found in (places[known] for known in task.positives)]
    dense = best_ranks(task.embeddings, items.embeddings[wanted], inside)
    by_vectors = best_ranks(task.vectors, items.vectors[wanted], inside)
    by_codes = best_ranks(task.vectors, unit_length(items.quantized[wanted]), inside)
    first = modality_codes_for(list(coding.modality_of), task.want, len(task))
    matched, random = _agreements(items.codes, task, coding.semantic, seed)

    def survival(modality_code: np.ndarray | None) -> tuple[float, ...]:
        _, shares = pool.search(
            decoder, task.vectors, task.positives, beams=beams, modality_code=modality_code
        )
        return tuple(shares.tolist())

    return TaskHealth(
        task=task.task,
        queries=len(task),
        embeddings=hit_rate(dense, RANK),
        vectors=hit_rate(by_vectors, RANK),
        codes=hit_rate(by_codes, RANK),
        ceiling=hit_rate(dense, beams),
        known=survival(first),
        inferred=survival(None),
        matched=matched,
        random=random,
    )


def _agreements(
    codes: np.ndarray, task: CodedQueries, semantic: int, seed: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Leading codes shared by queries with an answer of their own, and with an answer of some other query."""
    generator = np.random.default_rng(seed)
    asked = np.flatnonzero([len(known) > 0 for known in task.positives])
    if not len(asked):
        return (), ()
    chosen = np.array([generator.choice(task.positives[int(row)]) for row in asked])
    answers = codes[chosen, semantic:]
    own = task.codes[asked, semantic:]
    matched = agreement(own, answers, AGREEMENT)
    if len(asked) < 2:
        return matched, ()
    order = generator.permutation(len(asked))
    return matched, agreement(own[order], answers[np.roll(order, 1)], AGREEMENT)


def mean_cosine(one: np.ndarray, other: np.ndarray) -> float:
    """The mean cosine of vectors, row by row."""
    return float(np.einsum("ij,ij->i", unit_length(one), unit_length(other)).mean())
