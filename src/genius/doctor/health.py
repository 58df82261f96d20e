"""A quantizer's health in figures, from arrays: use of codes, recall step by step, survival in the beam."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from genius.decode.geometry import Geometry
from genius.doctor.codes import (
    Buckets,
    LevelUse,
    agreement,
    confusion,
    level_use,
    measure_buckets,
    purity,
)
from genius.doctor.ranks import best_ranks, hit_rate
from genius.errors import InputError
from genius.model import DenseBaseline, Model
from genius.quantize.quantizer import modality_codes_for, unit_length
from genius.search.beam import BEAMS
from genius.search.code_pool import CodePool

HIT_RANK = 5
"""A hit is a positive among the first five."""
AGREEMENT_LEVELS = 3
"""The number of leading semantic codes of a query and its answer that are compared."""


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
class CodeSpec:
    """What codes are made of, and which dense search they are compared with."""

    sizes: tuple[int, ...]
    """The number of codes of each level."""
    modality_code: str
    """Where the modality code comes from: a `ModalityCode` of the quantizer; with `none`, no level is one."""
    modality_of: tuple[int, ...]
    """The modality that each code of the first level stands for; empty without a modality code."""
    dense_baseline: DenseBaseline = "embeddings"
    """What the dense baseline compares: embeddings or vectors, whichever found more on validation."""

    @classmethod
    def of(cls, model: Model) -> CodeSpec:
        """The codes of a model. Raises MissingError if it has no quantizer yet."""
        quantizer = model.quantizer
        modality_of = tuple(model.settings["quantizer"]["modality_of"])
        return cls(quantizer.sizes, quantizer.modality_code, modality_of, model.dense_baseline)

    @property
    def first_semantic_level(self) -> int:
        """The number, from 0, of the first level that codes meaning."""
        return 0 if self.modality_code == "none" else 1


@dataclass(frozen=True)
class TaskHealth:
    """The figures of one task, among the items of the wanted modality."""

    task: str
    queries: int
    embeddings: float
    """Hit rate @5 by joined embeddings φ."""
    vectors: float
    """Hit rate @5 by fused vectors z."""
    codes: float
    """Hit rate @5 by codes alone: the query's vector against the items' quantized vectors ẑ."""
    ceiling: float
    """Hit rate @50 by joined embeddings: as many items as there are beams."""
    survival_given: tuple[float, ...]
    """The share of queries with an answer in the beam after each level, the wanted modality given."""
    survival_inferred: tuple[float, ...]
    """The same, the modality inferred from the query's vector."""
    agreement_matched: tuple[float, ...]
    """The share of queries with the same first one, two, three semantic codes as one of their answers."""
    agreement_random: tuple[float, ...]
    """The same with another query's answer; empty if there is only one query."""

    def dense_baseline(self, spec: CodeSpec) -> float:
        """Hit rate @5 of the dense baseline."""
        return self.vectors if spec.dense_baseline == "vectors" else self.embeddings


@dataclass(frozen=True)
class Health:
    """All figures of an examination; means are over tasks."""

    code_spec: CodeSpec
    queries: int
    not_finite: int
    """Items and queries whose vectors are NaN or infinite."""
    levels: tuple[LevelUse, ...]
    buckets: Buckets
    confusion: tuple[tuple[int, ...], ...]
    """Items by modality code and modality; empty without a modality code."""
    purity: float
    """The share of items whose modality code stands for their modality; NaN without a modality code."""
    cosine: float
    """The mean cosine of an item's vector and its quantized vector."""
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
    def dense_baseline(self) -> float:
        """Mean hit rate @5 of the dense baseline."""
        return self.mean(lambda task: task.dense_baseline(self.code_spec))

    @property
    def recall_kept(self) -> float:
        """The share of the dense baseline's recall that codes alone keep; NaN if there is none to keep."""
        return self.codes / self.dense_baseline if self.dense_baseline > 0 else float("nan")

    @property
    def survival_given(self) -> tuple[float, ...]:
        """Mean survival after each level, the wanted modality given."""
        return self.means(lambda task: task.survival_given)

    @property
    def survival_inferred(self) -> tuple[float, ...]:
        """Mean survival after each level, the wanted modality inferred."""
        return self.means(lambda task: task.survival_inferred)


def measure(
    items: CodedItems,
    tasks: Sequence[CodedQueries],
    decoder: Geometry,
    code_spec: CodeSpec,
    *,
    beams: int = BEAMS,
    seed: int = 0,
) -> Health:
    """The health of a quantizer by a pool's items and some queries of each task.

    Raises InputError without tasks, or for a task without queries.
    """
    if not tasks or not all(len(task) for task in tasks):
        raise InputError("an examination needs at least one task, and queries of each")
    pool = CodePool(items.codes, decoder.codebooks, code_spec.first_semantic_level)
    has_modality_code = code_spec.first_semantic_level > 0
    table = confusion(items.codes[:, 0], items.modality, code_spec.sizes[0]) if has_modality_code else None
    return Health(
        code_spec=code_spec,
        queries=sum(map(len, tasks)),
        not_finite=items.not_finite + sum(task.not_finite for task in tasks),
        levels=level_use(items.codes, code_spec.sizes),
        buckets=measure_buckets(items.codes, items.vectors, items.modality),
        confusion=() if table is None else tuple(tuple(map(int, row)) for row in table),
        purity=float("nan") if table is None else purity(table),
        cosine=mean_cosine(items.vectors, items.quantized),
        tasks=tuple(_measure_task(items, task, pool, decoder, code_spec, beams, seed) for task in tasks),
    )


def _measure_task(
    items: CodedItems,
    task: CodedQueries,
    pool: CodePool,
    decoder: Geometry,
    code_spec: CodeSpec,
    beams: int,
    seed: int,
) -> TaskHealth:
    wanted = np.flatnonzero(items.modality == task.want)
    place_of = np.full(len(items.modality), -1)
    place_of[wanted] = np.arange(len(wanted))
    answers = [places[places >= 0] for places in (place_of[positives] for positives in task.positives)]
    by_embeddings = best_ranks(task.embeddings, items.embeddings[wanted], answers)
    by_vectors = best_ranks(task.vectors, items.vectors[wanted], answers)
    by_codes = best_ranks(task.vectors, unit_length(items.quantized[wanted]), answers)
    modality_codes = modality_codes_for(list(code_spec.modality_of), task.want, len(task))
    matched, random = _agreements(items.codes, task, code_spec.first_semantic_level, seed)

    def survival(modality_code: np.ndarray | None) -> tuple[float, ...]:
        _, shares = pool.search(
            decoder, task.vectors, task.positives, beams=beams, modality_code=modality_code
        )
        return tuple(shares.tolist())

    return TaskHealth(
        task=task.task,
        queries=len(task),
        embeddings=hit_rate(by_embeddings, HIT_RANK),
        vectors=hit_rate(by_vectors, HIT_RANK),
        codes=hit_rate(by_codes, HIT_RANK),
        ceiling=hit_rate(by_embeddings, beams),
        survival_given=survival(modality_codes),
        survival_inferred=survival(None),
        agreement_matched=matched,
        agreement_random=random,
    )


def _agreements(
    codes: np.ndarray, task: CodedQueries, first_semantic_level: int, seed: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """How often queries share leading codes with an answer of their own, and with another query's answer."""
    generator = np.random.default_rng(seed)
    answered = np.flatnonzero([len(positives) > 0 for positives in task.positives])
    if not len(answered):
        return (), ()
    chosen = np.array([generator.choice(task.positives[int(query)]) for query in answered])
    answers = codes[chosen, first_semantic_level:]
    queries = task.codes[answered, first_semantic_level:]
    matched = agreement(queries, answers, AGREEMENT_LEVELS)
    if len(answered) < 2:
        return matched, ()
    order = generator.permutation(len(answered))
    return matched, agreement(queries[order], answers[np.roll(order, 1)], AGREEMENT_LEVELS)


def mean_cosine(vectors: np.ndarray, others: np.ndarray) -> float:
    """The mean cosine of vectors [n, width] and others [n, width], row by row."""
    return float(np.einsum("ij,ij->i", unit_length(vectors), unit_length(others)).mean())
