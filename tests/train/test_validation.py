"""What validation chooses, where the right choice is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from genius.train.validation import ItemRepresentations, choose_ranking


@dataclass(frozen=True)
class Queries:
    """The answer of each query is the item with its number."""

    task: str = "task"
    want: int = 0

    def __len__(self) -> int:
        return 40

    def positives(self, row: int) -> np.ndarray:
        return np.array([row])


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
    modality = np.zeros(100, np.int64)
    ranking = choose_ranking(
        items,
        modality,
        [Queries()],  # type: ignore[list-item]
        lambda _, rows: embeddings[rows],
        lambda _, rows: vectors[rows],
        count=40,
    )
    assert ranking.dense_baseline == right
    assert (ranking.rerank > 0.5) == (right == "embeddings")
