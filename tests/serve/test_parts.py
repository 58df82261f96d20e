"""Weighted and negative queries, and confidences, over HTTP: the same as from the index itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from genius import Client, Hits, Index, InputError, Query
from tests.pictures import square, write_square
from tests.serving import Running, hit_ids, refused, to_base64

RED, BLUE = square("red"), square("blue")


def figures(hits: Hits) -> list[tuple[str, Any, Any]]:
    return [(hit.item.id, pytest.approx(hit.score, abs=1e-6), pytest.approx(hit.confidence)) for hit in hits]


def test_a_client_searches_as_the_index_does(running: Running, served: Path, tmp_path: Path) -> None:
    queries = [
        Query("the red one").minus("blue", 0.5).plus("square", 2),
        Query("red", weight=3).plus(image=RED),
        Query(image=write_source(tmp_path)).minus(image=BLUE, weight=0.25),
    ]
    with Index.open(served) as index, Client(running(read_only=True)) as client:
        for query in queries:
            for options in ({"k": 5}, {"want": "image", "k": 4}):
                local = index.search(query, **options)
                assert figures(client.search(query, **options)) == figures(local)
                assert all(0 <= hit.confidence < 1 for hit in local)
        plain, weighted = index.search("red", k=5), index.search(Query("red").minus("the blue one"), k=5)
        assert [hit.score for hit in plain] != [hit.score for hit in weighted]
        nothing, expected = client.search("red", at_least=1), index.search("red", at_least=1)
        assert not nothing and nothing.notes == expected.notes
        assert nothing.nearest is not None and expected.nearest is not None
        assert nothing.nearest.item.id == expected.nearest.item.id
        assert nothing.nearest.confidence == pytest.approx(expected.nearest.confidence)
        assert len(client.search("red", at_least=0, k=3)) == 3
        with pytest.raises(InputError, match="cancel each other out"):
            client.search(Query("red").minus("red"))


def write_source(folder: Path) -> Any:
    from genius import ImageFile

    write_square(folder / "red.jpg")
    return ImageFile(str(folder), "red.jpg")


def test_parts_as_json_and_in_a_form(client: TestClient, served: Path) -> None:
    with Index.open(served) as index:
        query = Query("the red one", weight=0.5).plus(image=RED, weight=2).minus("blue", 0.25).plus("one")
        expected = [hit.item.id for hit in index.search(query, k=6)]
    plus = [{"image": to_base64(RED), "weight": 2}, {"text": "one"}]
    request = {"text": "the red one", "weight": 0.5, "plus": plus, "k": 6}
    request["minus"] = [{"text": "blue", "weight": 0.25}]
    assert hit_ids(client.post("/search", json=request)) == expected
    files: list[tuple[str, Any]] = [("plus_image", ("red.jpg", RED, "image/jpeg"))]
    data = {
        "text": "the red one",
        "weight": "0.5",
        "plus": "one",
        "plus_image_weight": "2",
        "minus": json.dumps({"text": "blue", "weight": 0.25}),
        "k": "6",
    }
    assert hit_ids(client.post("/search", files=files, data=data)) == expected
    listed = {**data, "minus": json.dumps([{"text": "blue", "weight": 0.25}])}
    assert hit_ids(client.post("/search", files=files, data=listed)) == expected


def test_a_part_may_be_the_whole_query(client: TestClient) -> None:
    alone = client.post("/search", json={"text": "red", "k": 4})
    assert hit_ids(client.post("/search", json={"plus": [{"text": "red"}], "k": 4})) == hit_ids(alone)


@pytest.mark.parametrize(
    ("request_fields", "message"),
    [
        ({"minus": [{"text": "people"}]}, "minus takes something away from a query: say what to search for"),
        ({"text": "a", "plus": [{}]}, "a part of a query is a text, an image or both"),
        ({"text": "a", "plus": [{"text": "b", "weight": 0}]}, "plus.0.weight"),
        ({"text": "a", "minus": [{"text": "b", "weight": -1}]}, "minus.0.weight"),
        ({"text": "a", "minus": [{"text": "b", "weight": "much"}]}, "minus.0.weight"),
        ({"text": "a", "weight": 101}, "weight"),
        ({"text": "a", "plus": [{"text": "b"}] * 17}, "plus"),
        ({"text": "a", "plus": [{"text": "b"}] * 9, "minus": [{"text": "b"}] * 9}, "up to 16 parts"),
        ({"text": "a", "plus": [{"image": "no base64!"}]}, "an image is sent as base64"),
        ({"near": "9:1", "minus": [{"text": "b"}]}, "near is a query of its own"),
        ({"vector": [1.0], "minus": [{"text": "b"}]}, "a query is a vector, or a text and an image"),
        ({"text": "a", "at_least": "certain"}, "at_least"),
        ({"text": "a", "at_least": 2}, "at_least must be likely"),
        ({"filter": {}, "at_least": 0.5}, "at_least needs a query"),
    ],
)
def test_what_is_refused(client: TestClient, request_fields: dict[str, Any], message: str) -> None:
    assert message in refused(client.post("/search", json=request_fields), 400, 422)["message"]


def test_broken_images_of_parts_are_refused(client: TestClient) -> None:
    broken = {"text": "a", "plus": [{"image": to_base64(b"this is no image")}]}
    refused(client.post("/search", json=broken), 400, 422)
    refused(client.post("/search", files={"plus_image": ("a.jpg", b"none")}, data={"text": "a"}), 400, 422)
    error = refused(client.post("/search", files={"other": ("a.jpg", RED)}, data={"text": "a"}), 422)
    assert "one file can be called image, others plus_image and minus_image" in error["message"]
    weights = {"text": "a", "minus_image_weight": "2"}
    error = refused(client.post("/search", files={"image": ("a.jpg", RED)}, data=weights), 422)
    assert "there are more weights than files" in error["message"]


def test_every_hit_has_a_confidence(client: TestClient) -> None:
    hits = client.post("/search", json={"text": "red", "k": 5}).json()["hits"]
    assert [hit["confidence"] for hit in hits] == sorted((hit["confidence"] for hit in hits), reverse=True)
    browsed = client.post("/search", json={"filter": {}}).json()
    assert browsed["nearest"] is None and browsed["hits"][0]["confidence"] is None
    nothing = client.post("/search", json={"text": "red", "at_least": 1}).json()
    assert nothing["hits"] == [] and nothing["nearest"]["item"]["id"] == hits[0]["item"]["id"]
