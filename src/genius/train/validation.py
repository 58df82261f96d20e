"""What validation measures and chooses once a quantizer is trained: how good its codes are, the temperature
of its geometry, what dense search compares, and the weights of re-ranking.

It searches among items that training has not seen, as users do. Beside items that codebooks and heads were
trained on, new ones stand out: they fit their codes worse, so that a score which favours bad fits looks good
here and fails on a collection that is all new."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from genius.corpus.queries import TaskQueries, kind_of_query
from genius.data.tasks import Task
from genius.decode.geometry import Geometry, fit_temperature
from genius.model import DenseBaseline
from genius.quantize.fusion_inputs import KINDS
from genius.quantize.quantizer import Quantizer, modality_codes_for
from genius.search.code_pool import CodePool
from genius.search.dense import nearest
from genius.train.batches import validation_rows
from genius.train.pairs import hit_rate

QueryVectors = Callable[[Task, np.ndarray], np.ndarray]
"""Gives the vectors or embeddings [n, width] of a task's queries by row."""

# --- items


def unseen_items(
    count: int, training: Sequence[TaskQueries], validation: Sequence[TaskQueries]
) -> np.ndarray:
    """The numbers of items, of `count`, that no training query asks for, and of validation's answers."""
    unseen = np.ones(count, bool)
    for task in training:
        unseen[task.items] = False
    for task in validation:
        unseen[task.items] = True
    return np.flatnonzero(unseen)


# --- codes

FLATTER = 2.5
"""Beams find most at this multiple of the likeliest temperature: probabilities that are likeliest level by
level are overconfident as a product, since the levels' errors are correlated (hit rate @5 at 1 / 2.5 / 7
times: 41.8 / 42.1 / 42.0)."""


@dataclass(frozen=True)
class CodeQuality:
    """How well codes find answers, in percent (means over tasks), and what was fitted to measure it."""

    codes: float
    """Hit rate @5 of exhaustive search by quantized vectors."""
    geometry: float
    """Hit rate @5 of beam search by geometry."""
    survival: list[float]
    """Positives whose prefix is still in the beam after each semantic level."""
    temperature: float
    """Of the geometry."""
    modality_of: list[int]
    """The modality that each first code stands for."""


@dataclass(frozen=True)
class _QuerySample:
    """Some queries of a task."""

    task: TaskQueries
    rows: np.ndarray
    vectors: np.ndarray


def measure_codes(
    quantizer: Quantizer,
    modality: np.ndarray,
    codes: np.ndarray,
    tasks: Sequence[TaskQueries],
    query_vectors: QueryVectors,
    *,
    members: np.ndarray,
    count: int,
    force_modality: bool = True,
) -> CodeQuality:
    """Search for the answers of queries among the items of the wanted modality, by codes.

    `modality` [n] and `codes` [n, levels] are those of all items, of which only `members` are searched;
    `query_vectors` are as long as search makes them. Up to `count` queries of each task are used, and a third
    of that by beam search, behind the code of the wanted modality if that is to be forced.
    """
    units = quantizer.units(codes)
    samples = []
    for task in tasks:
        rows = validation_rows(len(task), count)
        samples.append(_QuerySample(task, rows, query_vectors(task.task, rows)))
    hits = []
    for sample in samples:
        wanted = members[modality[members] == sample.task.want]
        _, best = nearest(sample.vectors, units[wanted], 5)
        hits.append(hit_rate(sample.task, sample.rows, wanted[best]))
    temperature = _fit_temperature(quantizer, codes, samples)
    modality_of = quantizer.modality_by_code(codes[members], modality[members])
    pool = CodePool(codes[members], quantizer.codebooks, quantizer.semantic)
    decoder = Geometry(quantizer.codebooks, temperature)
    survival, beam_hits = [], []
    for sample in samples:
        rows = sample.rows[: max(1, count // 3)]
        positives = [np.searchsorted(members, sample.task.positives(row)) for row in rows]
        known = modality_of if force_modality else []
        modality_code = modality_codes_for(known, sample.task.want, len(rows))
        items, survived = pool.search(
            decoder, sample.vectors[: len(rows)], positives, modality_code=modality_code
        )
        survival.append(survived[quantizer.semantic :])
        beam_hits.append(hit_rate(sample.task, rows, _numbers_of(items, members)))
    return CodeQuality(
        100 * float(np.mean(hits)),
        100 * float(np.mean(beam_hits)),
        (100 * np.mean(survival, axis=0)).tolist(),
        temperature,
        modality_of,
    )


def _numbers_of(places: np.ndarray, members: np.ndarray) -> np.ndarray:
    """The item numbers of places among members; -1 stays."""
    return np.where(places >= 0, members[np.maximum(places, 0)], -1)


def _fit_temperature(quantizer: Quantizer, codes: np.ndarray, samples: Sequence[_QuerySample]) -> float:
    """The geometry's temperature, by the first positive of each query."""
    vectors = np.concatenate([sample.vectors for sample in samples])
    positives = np.concatenate([sample.task.items[sample.task.starts[sample.rows]] for sample in samples])
    return FLATTER * fit_temperature(quantizer.codebooks, vectors, codes[positives])


# --- ranking

WEIGHTS = tuple(number / 10 for number in range(11))
"""The weights of joined embeddings in re-ranking that are tried."""
SCALES = (1.0, 1.5, 2.0, 3.0)
"""Lengths of a query's vector that are tried. The code score v·q - ½‖q‖² ranks by distance, and quantized
vectors q are shorter the worse they fit, which says little about the answer; for a longer query directions
count more. New items fit worse than those that codebooks were trained on."""
AS_GOOD = 0.005
"""A mean hit rate by codes that is lower by less than this is as good: then the shorter query is taken."""
LEAST_KEPT = 0.99
"""Of the hits by embeddings alone, what every data set keeps under a weight that may be chosen: a gain on one
is no reason to lose on another."""


@dataclass(frozen=True)
class ItemRepresentations:
    """What items can be compared by [n, width]: joined embeddings, fused vectors, quantized vectors."""

    embeddings: np.ndarray
    vectors: np.ndarray
    quantized: np.ndarray


@dataclass(frozen=True)
class RankingSettings:
    """What dense search compares, and for each kind of query how long its vector is, and the weight of joined
    embeddings in re-ranking."""

    dense_baseline: DenseBaseline
    query_scale: tuple[float, ...]
    rerank: tuple[float, ...]


def choose_ranking(
    items: ItemRepresentations,
    modality: np.ndarray,
    tasks: Sequence[TaskQueries],
    query_embeddings: QueryVectors,
    query_vectors: QueryVectors,
    *,
    members: np.ndarray,
    count: int,
) -> RankingSettings:
    """Choose by the mean over tasks of the hit rate @5 among items of the wanted modality.

    `modality` [n] is that of all items, of which `members` are searched; up to `count` queries of each task
    are used. A kind of query that no task has gets what is best for all tasks.
    """
    embedding_hits, vector_hits, scaled_hits = [], [], []
    for task in tasks:
        rows = validation_rows(len(task), count)
        wanted = members[modality[members] == task.want]
        embeddings, vectors = query_embeddings(task.task, rows), query_vectors(task.task, rows)
        rankings = [
            nearest(embeddings, items.embeddings[wanted], 5)[1],
            nearest(vectors, items.vectors[wanted], 5)[1],
            *(
                ranking
                for scale in SCALES
                for ranking in _weighted_rankings(
                    embeddings, items.embeddings[wanted], scale * vectors, items.quantized[wanted]
                )
            ),
        ]
        hits = [hit_rate(task, rows, wanted[first]) for first in rankings]
        embedding_hits.append(hits[0])
        vector_hits.append(hits[1])
        scaled_hits.append(np.reshape(hits[2:], (len(SCALES), len(WEIGHTS))))
    kinds = np.array([kind_of_query(task) for task in tasks])
    datasets = np.array([task.task.dataset for task in tasks])
    by_task = np.array(scaled_hits)
    chosen = []
    for kind in range(KINDS):
        alike = kinds == kind if kind in kinds else np.ones(len(kinds), bool)
        chosen.append(best_scale_and_weight(by_task[alike], datasets[alike]))
    return RankingSettings(
        "vectors" if np.mean(vector_hits) > np.mean(embedding_hits) else "embeddings",
        tuple(scale for scale, _ in chosen),
        tuple(weight for _, weight in chosen),
    )


def best_scale_and_weight(hits: np.ndarray, datasets: np.ndarray) -> tuple[float, float]:
    """Of hit rates [tasks, scales, weights] of tasks of these data sets [tasks]: the scale by codes alone, as
    these decide what is re-ranked; the weight of most hits among those under which no data set loses."""
    by_codes = hits[:, :, 0].mean(0)
    scale = int(np.flatnonzero(by_codes > by_codes.max() - AS_GOOD)[0])
    by_dataset = np.stack([hits[datasets == name, scale].mean(0) for name in np.unique(datasets)])
    keeps = (by_dataset >= LEAST_KEPT * by_dataset[:, -1:]).all(0)  # the last weight is embeddings alone
    return SCALES[scale], WEIGHTS[int(np.argmax(np.where(keeps, hits[:, scale].mean(0), -1)))]


def _weighted_rankings(
    embeddings: np.ndarray, item_embeddings: np.ndarray, vectors: np.ndarray, quantized: np.ndarray
) -> list[np.ndarray]:
    """The five best items of each query for each of WEIGHTS, by the formula of re-ranking; products computed
    once."""
    half_sq_norms = 0.5 * np.einsum("ij,ij->i", quantized, quantized)
    similarity, code_score = embeddings @ item_embeddings.T, vectors @ quantized.T - half_sq_norms
    rankings = []
    for weight in WEIGHTS:
        order = np.argpartition(
            -(weight * similarity + (1 - weight) * code_score), min(5, len(item_embeddings)) - 1, axis=1
        )
        rankings.append(order[:, :5].copy())  # a view would keep the whole order in memory
    return rankings
