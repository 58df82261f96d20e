"""What validation measures and chooses, against a direct computation or a known answer."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from genius.corpus.queries import TaskQueries
from genius.data.tasks import Task
from genius.decode.geometry import fit_temperature
from genius.train.batches import validation_rows
from genius.train.validation import (
    SCALES,
    WEIGHTS,
    ItemRepresentations,
    RankingSettings,
    _weighted_rankings,
    best_scale_and_weight,
    choose_ranking,
    unseen_items,
)


@dataclass(frozen=True)
class Queries:
    """The answer of each query is the item with its number."""

    task: Task = field(default=Task("some", 0))
    want: int = 0
    has_image: bool = False

    @property
    def contents(self) -> SimpleNamespace:
        return SimpleNamespace(image=np.full(40, self.has_image - 1), text=np.zeros(40, np.int64))

    def __len__(self) -> int:
        return 40

    def positives(self, row: int) -> np.ndarray:
        return np.array([row])


def ranking_of(
    items: ItemRepresentations, modality: np.ndarray, embeddings: np.ndarray, vectors: np.ndarray
) -> RankingSettings:
    """What is chosen for the queries with these embeddings and vectors."""
    return choose_ranking(
        items,
        modality,
        [cast(TaskQueries, Queries())],
        lambda _, rows: embeddings[rows],
        lambda _, rows: vectors[rows],
        members=np.arange(len(modality)),
        count=40,
    )


@pytest.mark.parametrize("right", ["embeddings", "vectors"])
def test_the_representation_that_knows_the_answers_wins(right: str) -> None:
    """One representation of the items equals the queries', the other is noise: the first gets the weight."""
    random = np.random.default_rng(0)
    truth, noise, other = random.normal(size=(3, 100, 16)).astype(np.float32)
    truth /= np.linalg.norm(truth, axis=1, keepdims=True)
    noise, other = 0.3 * noise, 0.3 * other
    if right == "embeddings":
        items, embeddings, vectors = ItemRepresentations(truth, noise, noise), truth, other
    else:
        items, embeddings, vectors = ItemRepresentations(noise, truth, truth), other, truth
    ranking = ranking_of(items, np.zeros(100, np.int64), embeddings, vectors)
    assert ranking.dense_baseline == right
    assert len(set(ranking.rerank)) == 1  # one task decides for all kinds of query
    assert (ranking.rerank[0] > 0.5) == (right == "embeddings")


def test_each_kind_of_query_gets_its_own_weight() -> None:
    """Texts are known by their embeddings and pairs by their vectors; images are what is best for both."""
    random = np.random.default_rng(0)
    truth, noise = random.normal(size=(2, 100, 16)).astype(np.float32)
    truth /= np.linalg.norm(truth, axis=1, keepdims=True)
    texts, pairs = Queries(Task("texts", 0)), Queries(Task("pairs", 7), has_image=True)
    ranking = choose_ranking(
        ItemRepresentations(truth, truth, truth),
        np.zeros(100, np.int64),
        [cast(TaskQueries, texts), cast(TaskQueries, pairs)],
        lambda task, rows: (truth if task.dataset == "texts" else noise)[rows],
        lambda task, rows: (noise if task.dataset == "texts" else truth)[rows],
        members=np.arange(100),
        count=40,
    )
    images, text, both = ranking.rerank
    assert both < 0.5 < text and both <= images <= text


def test_the_weight_of_most_hits_may_not_cost_a_data_set_what_embeddings_find() -> None:
    """By hand: codes gain much for emoji and cost photos a little; a scale that gains next to nothing is not
    worth a longer query."""
    weights = np.array(WEIGHTS)
    hits = np.zeros((3, len(SCALES), len(WEIGHTS)))
    hits[0] = 0.60 - 0.10 * np.abs(weights - 0.8)  # photos: 0.58 by embeddings alone, 0.60 at most
    hits[1] = 0.40 - 0.10 * np.abs(weights - 0.8)  # the same data set
    hits[2] = 0.50 - 0.30 * weights  # emoji: the less, the better
    hits[:, 1, 0] += 0.004
    datasets = np.array(["photos", "photos", "emoji"])
    assert best_scale_and_weight(hits, datasets) == (SCALES[0], 0.6)  # 0.5 keeps (0.57 + 0.37) / 0.96
    assert best_scale_and_weight(hits[2:], datasets[2:])[1] == 0.0
    hits[:, 1, 0] += 0.004
    assert best_scale_and_weight(hits, datasets)[0] == SCALES[1]
    hits[2] += weights  # now photos want 0.8, emoji 1.0
    assert best_scale_and_weight(hits, datasets)[1] == 1.0


def test_items_that_training_asks_for_are_not_searched() -> None:
    """Without answers of training queries, unless they answer validation queries, too."""
    trained, again, new = (
        cast(TaskQueries, SimpleNamespace(items=np.array(numbers))) for numbers in ([1, 3, 4], [4], [6])
    )
    members = unseen_items(8, [trained], [again, new])
    assert members.tolist() == [0, 2, 4, 5, 6, 7]


def test_length_and_weight_are_the_best_by_a_direct_computation() -> None:
    """By w · ⟨q, x⟩ + (1 − w) · (s · ⟨z, ẑ⟩ − ½‖ẑ‖²) among items of the wanted modality; both tell half of
    the truth and the lengths of ẑ tell nothing."""
    random = np.random.default_rng(3)
    truth, first_noise, second_noise = random.normal(size=(3, 200, 12)).astype(np.float32)
    lengths = random.uniform(0.5, 1.5, size=(200, 1)).astype(np.float32)
    items = ItemRepresentations(
        truth + first_noise, truth + 2 * second_noise, lengths * (truth + second_noise)
    )
    embeddings, vectors = (truth + random.normal(size=truth.shape) for _ in range(2))
    modality = (np.arange(200) >= 120).astype(np.int64)
    hits = np.zeros((len(SCALES), len(WEIGHTS)))
    for (row, scale), (column, weight) in itertools.product(enumerate(SCALES), enumerate(WEIGHTS)):
        rankings = _weighted_rankings(
            embeddings[:40], items.embeddings[:120], scale * vectors[:40], items.quantized[:120]
        )
        for query in range(40):
            scores = [
                weight * embeddings[query] @ items.embeddings[item]
                + (1 - weight) * scale * vectors[query] @ items.quantized[item]
                - (1 - weight) * 0.5 * np.square(items.quantized[item]).sum()
                for item in range(120)
            ]
            best = np.argsort(scores)[-5:]
            assert set(rankings[column][query]) == set(best)
            hits[row, column] += query in best
    chosen = ranking_of(items, modality, embeddings, vectors)
    row = int(np.argmax(hits[:, 0]))
    assert row > 0  # lengths that tell nothing should count little
    assert set(chosen.query_scale) == {SCALES[row]}
    assert 0 < np.argmax(hits[row]) < 10
    assert set(chosen.rerank) == {WEIGHTS[int(np.argmax(hits[row]))]}


def test_the_quality_of_codes_is_that_of_an_exhaustive_search() -> None:
    """By the cosine of vectors and quantized vectors, among items of the wanted modality, query by query."""
    pytest.importorskip("torch")
    from tests.train import small_quantizer

    stage = small_quantizer.stage()
    stage.loss(0, 0)  # initialises the codebooks
    items, world = stage.quantize_items(), stage.validation
    quantized = items.quantizer.reconstruct(items.codes).astype(np.float64)
    rates, queries, answers = [], [], []
    for name, task in world.tasks.items():
        rows = validation_rows(len(task), small_quantizer.SETTINGS.validated)
        assert len(set(rows)) == 30
        queries.append(stage.all_vectors(world.queries[name], rows))
        hits = 0
        for row, vector in zip(rows, queries[-1], strict=True):
            cosine = quantized @ vector / np.linalg.norm(quantized, axis=1)
            searched = (world.pool.modality == task.want) & np.isin(np.arange(len(cosine)), stage.val_items)
            best = np.argsort(np.where(searched, -cosine, np.inf))[:5]
            hits += bool(set(best) & set(task.positives(row)))
            answers.append(items.codes[task.positives(row)[0]])
        rates.append(hits / 30)
    quality = stage.code_quality(items)
    longer = stage.code_quality(items, query_scale=(2.0, 2.0, 2.0))
    assert 20 < 100 * np.mean(rates) < 90
    assert quality.codes == pytest.approx(100 * np.mean(rates))
    likeliest = fit_temperature(items.quantizer.codebooks, np.concatenate(queries), np.stack(answers))
    assert quality.temperature == pytest.approx(2.5 * likeliest)
    assert longer.codes == quality.codes  # cosines don't depend on lengths
    likeliest = fit_temperature(items.quantizer.codebooks, 2 * np.concatenate(queries), np.stack(answers))
    assert longer.temperature == pytest.approx(2.5 * likeliest)
    assert quality.modality_of == [0, 1, 2]
