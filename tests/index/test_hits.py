from __future__ import annotations

import copy
import math
import pickle
from dataclasses import replace

import orjson
import pytest

from genius.data.records import ImageBytes, ImageFile, Item
from genius.index.hits import (
    NO_PATH,
    Hit,
    Hits,
    KnownConfidence,
    KnownPath,
    hit_to_dict,
    hits_to_dict,
    item_to_dict,
)


class LazyPath:
    """A path that is worked out when it is read, and can't be copied."""

    def __init__(self) -> None:
        self.reads = 0

    @property
    def log_probabilities(self) -> tuple[float, ...]:
        self.reads += 1
        return (-1.0, -0.5)

    @property
    def prefix_counts(self) -> tuple[int, ...]:
        self.reads += 1
        return (7, 2)

    def __reduce__(self) -> str:
        raise TypeError("it holds an open index")


@pytest.fixture
def path() -> LazyPath:
    return LazyPath()


@pytest.fixture
def hit(path: LazyPath) -> Hit:
    item = Item("a", "text", ImageBytes(b"bytes", "/photos/a.jpg"), {"price": 3})
    return Hit(item, 1, 0.5, 0.25, (2, 9), path)


def test_the_path_is_worked_out_only_when_it_is_read(hit: Hit, path: LazyPath) -> None:
    repr(hit)
    assert hit == Hit(hit.item, 1, 0.5, 0.25, (2, 9), KnownPath((), ()))
    hit_to_dict(hit, explain=False)
    assert path.reads == 0
    assert (hit.log_probabilities, hit.prefix_counts, hit.log_probability) == ((-1.0, -0.5), (7, 2), -1.5)


def test_a_copied_or_pickled_hit_knows_its_path(hit: Hit) -> None:
    for other in (pickle.loads(pickle.dumps(hit)), copy.copy(hit), copy.deepcopy(hit)):
        assert type(other) is Hit and other == hit
        assert other.path == KnownPath((-1.0, -0.5), (7, 2))
        assert isinstance(other.judgement, KnownConfidence)


def test_a_hit_as_json(hit: Hit) -> None:
    item = {
        "id": "a",
        "modality": "pair",
        "text": "text",
        "has_image": True,
        "metadata": {"price": 3},
    }
    expected = {"rank": 1, "score": 0.5, "cosine": 0.25, "confidence": None, "item": item, "code": [2, 9]}
    assert orjson.loads(orjson.dumps(hit_to_dict(hit, explain=False))) == expected
    explained = orjson.loads(orjson.dumps(hit_to_dict(hit, explain=True)))
    assert explained == {**expected, "log_probabilities": [-1.0, -0.5], "prefix_counts": [7, 2]}
    assert item_to_dict(hit.item, local=True)["image"] == "/photos/a.jpg"
    text = item_to_dict(Item("b", "text"), local=True)
    assert (text["image"], text["path"]) == (None, None)
    file = item_to_dict(Item("c", None, ImageFile("/photos", "2024/a.jpg")), local=True)
    assert (file["image"], file["path"]) == ("2024/a.jpg", "/photos/2024/a.jpg")


def test_a_browsed_item_has_no_score(hit: Hit) -> None:
    browsed = replace(hit, score=math.nan, cosine=math.nan, path=NO_PATH)
    shown = orjson.loads(orjson.dumps(hit_to_dict(browsed, explain=True)))
    assert (shown["score"], shown["cosine"], shown["log_probabilities"]) == (None, None, [])
    assert hits_to_dict(Hits([], [browsed], rerank=True, notes=(), total=7), explain=False)["total"] == 7


def test_hits_are_in_the_wanted_ranking(hit: Hit) -> None:
    reranked = Hits(
        [], [hit], rerank=True, notes=["a note"], mode="scan", decoder="geometry", num_candidates=9
    )
    assert list(reranked) == reranked.reranked == [hit]
    assert Hits([], [hit], rerank=False, notes=()) == []
    shown = hits_to_dict(reranked, explain=False)
    assert (shown["mode"], shown["decoder"], shown["num_candidates"]) == ("scan", "geometry", 9)
    assert (shown["notes"], [shown_hit["rank"] for shown_hit in shown["hits"]]) == (("a note",), [1])
