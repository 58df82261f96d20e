"""What is remembered of training: against brute force over all queries."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from genius.errors import InputError
from genius.quantize.quantizer import unit_length
from genius.train import remembering
from genius.train.remembering import AskedFor, MemorySettings, remember

WIDTH = 8
SETTINGS = MemorySettings(asked=6, items=10, vectors=2, sure=0.9, gain=5.0)


def around(rng: np.random.Generator, centre: np.ndarray, count: int, spread: float) -> np.ndarray:
    return unit_length((centre + spread * rng.normal(size=(count, WIDTH))).astype(np.float32))


def world(spread: float = 0.05) -> tuple[AskedFor, np.ndarray, np.ndarray]:
    """Six items: 1 is asked for often, 0 and 3 from the same place, 2 seldom, 4 and 5 never."""
    rng = np.random.default_rng(0)
    centres = np.eye(WIDTH, dtype=np.float32)
    vectors = np.concatenate(
        [
            around(rng, centres[0], 9, spread),
            around(rng, centres[1], 8, spread),
            around(rng, centres[2], 3, spread),
            around(rng, centres[0], 10, spread),
            around(rng, centres[3], 1, spread),
            around(rng, centres[1], 1, spread),
        ]
    )
    queries = np.append(np.arange(32), 31)
    items = np.concatenate([np.repeat([0, 1, 2, 3], [9, 8, 3, 11]), [1, 0]])
    want = np.zeros(32, np.int64)
    codes = np.array([[0, 1, 5], [0, 2, 1], [0, 3, 0], [0, 0, 9], [1, 1, 1], [1, 2, 2]], np.uint16)
    modality = np.array([0, 0, 0, 0, 1, 1])
    return AskedFor(vectors, want, queries, items), codes, modality


def test_an_item_that_others_are_asked_for_beside_is_not_remembered() -> None:
    asked, codes, modality = world()
    memory = remember(asked, codes, modality, SETTINGS, seed=0)
    assert np.unique(memory.codes, axis=0).tolist() == [[0, 2, 1]]
    assert len(memory) == SETTINGS.vectors
    assert memory.gain == 5.0
    np.testing.assert_allclose(np.linalg.norm(memory.vectors, axis=1), 1, atol=1e-6)
    assert (memory.vectors[:, 1] > 0.9).all()


def test_floors_are_the_nearest_query_that_asked_for_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembering, "BLOCK", 7)
    asked, codes, modality = world(spread=0.3)
    all_of_them = MemorySettings(asked=6, items=10, vectors=2, sure=0.0, gain=5.0)
    memory = remember(asked, codes, modality, all_of_them, seed=0)
    assert np.unique(memory.codes, axis=0).tolist() == [[0, 0, 9], [0, 1, 5], [0, 2, 1]]
    assert memory.codes.tolist() == sorted(memory.codes.tolist())
    number = {tuple(code): item for item, code in enumerate(codes.tolist())}
    for vector, code, floor in zip(memory.vectors, memory.codes.tolist(), memory.floors, strict=True):
        own = set(asked.queries[asked.items == number[tuple(code)]].tolist())
        others = [query for query in range(32) if query not in own and asked.want[query] == 0]
        assert floor == pytest.approx(float((asked.vectors[others] @ vector).max()), abs=1e-6)


def test_only_the_most_asked_for_are_remembered() -> None:
    asked, codes, modality = world()
    few = MemorySettings(asked=6, items=1, vectors=2, sure=0.0)
    assert np.unique(remember(asked, codes, modality, few, seed=0).codes, axis=0).tolist() == [[0, 0, 9]]
    for none in (MemorySettings(asked=0), MemorySettings(asked=100), MemorySettings(items=0)):
        memory = remember(asked, codes, modality, none, seed=0)
        assert (memory.vectors.shape, memory.codes.shape, memory.floors.shape) == ((0, WIDTH), (0, 3), (0,))


def test_the_same_seed_remembers_the_same() -> None:
    asked, codes, modality = world(spread=0.3)
    one, other = (remember(asked, codes, modality, SETTINGS, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.vectors, other.vectors)
    np.testing.assert_array_equal(one.floors, other.floors)


@pytest.mark.parametrize(
    "wrong", [{"asked": 4}, {"asked": -1}, {"vectors": 0}, {"items": -1}, {"sure": 1.5}, {"gain": 0.0}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match="should be"):
        MemorySettings(**wrong)  # type: ignore[arg-type]
