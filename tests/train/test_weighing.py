"""What validation decides, where the right answer is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from genius.train.validation import Sides, weigh


@dataclass(frozen=True)
class Asked:
    """Each query asks for the item of its number."""

    task: str = "task"
    want: int = 0

    def __len__(self) -> int:
        return 40

    def positives(self, row: int) -> np.ndarray:
        return np.array([row])


@pytest.mark.parametrize("right", ["embeddings", "vectors"])
def test_the_side_that_knows_the_answers_wins(right: str) -> None:
    """One side of the items equals the queries', the other is noise: the weight goes to the first."""
    random = np.random.default_rng(0)
    truth, noise, other = random.normal(size=(3, 100, 16)).astype(np.float32)
    truth /= np.linalg.norm(truth, axis=1, keepdims=True)
    noise, other = 0.3 * noise, 0.3 * other
    if right == "embeddings":
        sides, embeddings, vectors = Sides(truth, noise, noise), truth, other
    else:
        sides, embeddings, vectors = Sides(noise, truth, truth), other, truth
    modality = np.zeros(100, np.int64)
    weighed = weigh(
        sides,
        modality,
        [Asked()],  # type: ignore[list-item]
        lambda _, rows: embeddings[rows],
        lambda _, rows: vectors[rows],
        count=40,
    )
    assert weighed.dense_baseline == right
    assert (weighed.rerank > 0.5) == (right == "embeddings")
