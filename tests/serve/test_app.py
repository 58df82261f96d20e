"""The routes of the service, compared with the index that it serves."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from genius import Index, Item
from genius.serve.batching import Batcher
from tests.pictures import square, write_square
from tests.serving import Serve, hit_ids, refused, to_base64


def test_a_search_returns_what_the_index_finds(client: TestClient, served: Path) -> None:
    with Index.open(served) as index:
        hits = index.search("the red one", want="image", k=5)
        plain = index.search("the red one", k=7, rerank=False)
    request = {"text": "the red one", "want": "image", "k": 5, "explain": True}
    answer = client.post("/search", json=request).json()
    for shown, hit in zip(answer["hits"], hits, strict=True):
        assert shown["item"]["id"] == hit.item.id
        assert tuple(shown["code"]) == hit.code
        assert tuple(shown["prefix_counts"]) == hit.prefix_counts
        assert shown["rank"] == hit.rank
        assert shown["score"] == pytest.approx(hit.score, abs=1e-4)
        assert shown["log_probabilities"] == pytest.approx(list(hit.log_probabilities), abs=1e-4)
    assert (answer["mode"], answer["decoder"], answer["num_candidates"]) == (
        hits.mode,
        hits.decoder,
        hits.num_candidates,
    )
    by_codes = client.post("/search", json={"text": "the red one", "k": 7, "rerank": False})
    assert hit_ids(by_codes) == [hit.item.id for hit in plain]


def test_an_instruction_says_what_is_found(client: TestClient) -> None:
    fields = {"text": "red", "instruction": "Find a text that matches this text.", "k": 99}
    hits = client.post("/search", json=fields).json()["hits"]
    assert {hit["item"]["modality"] for hit in hits} == {"text", "pair"}
    assert client.post("/search", json={"text": "red " * 500}).json()["notes"]


@pytest.mark.parametrize(
    "options",
    [
        {"want": "image"},
        {"want": ["image"]},
        {"want": ["image", "text"]},
        {"only": "image"},
        {"only": ["image", "text"]},
        {"k": 4, "offset": 4},
        {"sort": "-src_content"},
        {"sort": ["src_content"], "offset": 3},
    ],
)
def test_wants_pages_and_orders_are_those_of_the_index(
    client: TestClient, served: Path, options: dict[str, Any]
) -> None:
    with Index.open(served) as index:
        expected = index.search("the red one", **options)
        near = index.search(near=expected[0].item.id, **options)
        browsed = index.browse(**options)
    answer = client.post("/search", json={"text": "the red one", **options})
    assert hit_ids(answer) == [hit.item.id for hit in expected]
    assert [hit["rank"] for hit in answer.json()["hits"]] == [hit.rank for hit in expected]
    assert (answer.json()["total"], tuple(answer.json()["notes"])) == (None, expected.notes)
    more = client.post("/search", json={"near": expected[0].item.id, **options})
    assert hit_ids(more) == [hit.item.id for hit in near]
    page = client.post("/search", json={"filter": {}, **options})
    assert hit_ids(page) == [hit.item.id for hit in browsed]
    assert page.json()["total"] == browsed.total
    assert {(hit["score"], hit["cosine"]) for hit in page.json()["hits"]} == {(None, None)}
    assert [tuple(hit["code"]) for hit in page.json()["hits"]] == [hit.code for hit in browsed]


@pytest.mark.parametrize(
    ("request_fields", "message"),
    [
        ({}, "an empty query: give a text, an image or both, a vector, or near; or filter, sort, want"),
        ({"k": 3}, "an empty query"),
        ({"instruction": "Find a text.", "want": "text"}, "an empty query"),
        ({"sort": "n", "explain": True}, "explain needs a query"),
        ({"text": "red", "want": "image", "only": "text"}, "give one of the two"),
        ({"text": "red", "k": 10_000, "offset": 1}, "ranked up to the 10,000th"),
        ({"text": "red", "offset": -1}, "offset"),
        ({"text": "red", "sort": ["a"] * 9}, "up to 8 keys"),
        ({"text": "red", "sort": ""}, "sort"),
    ],
)
def test_what_can_not_be_browsed_or_paged(
    client: TestClient, request_fields: dict[str, Any], message: str
) -> None:
    assert message in refused(client.post("/search", json=request_fields), 400, 422)["message"]


def test_a_search_that_finds_nothing_says_what_was_perhaps_meant(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    items = [{"id": "a", "text": "A red square.", "metadata": {"price": 30, "brand": "Acme"}}]
    client.post("/items", json={"items": items})
    for filter, note in (
        ({"prize": 30}, "no item has the metadata 'prize': did you mean 'price'?"),
        ({"brand": "acme"}, "no item has brand = 'acme': did you mean 'Acme'?"),
    ):
        for query in ({"text": "red"}, {"near": "a"}, {}):
            answer = client.post("/search", json={**query, "filter": filter}).json()
            assert (answer["hits"], answer["notes"][-1]) == ([], note)


def test_items_are_added_and_found_at_once(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    assert client.post("/search", json={"text": "red"}).json()["notes"] == [
        "the index is empty: add items first"
    ]
    assert client.get("/codes").json()["count"] == 0
    items: list[dict[str, object]] = [
        {"id": "a/b c", "text": "A red square.", "metadata": {"price": 30}},
        {"id": "image", "image": to_base64(square("blue"))},
    ]
    answer = client.post("/items", json={"items": items}).json()
    assert (answer["added"], answer["replaced"], answer["failed"]) == (2, 0, 0)
    assert set(hit_ids(client.post("/search", json={"text": "red"}))) == {"a/b c", "image"}
    shown = client.get("/items/a%2Fb%20c").json()
    assert (shown["text"], shown["metadata"]) == ("A red square.", {"price": 30})
    assert client.get("/items/image/image").status_code == 200
    again = client.post("/items", json={"items": [items[0], {**items[1], "text": "blue"}]}).json()
    assert (again["known"], again["replaced"]) == (1, 1)
    assert client.get("/about").json()["items"] == 2
    assert client.get("/codes").json()["count"] == 2


def test_an_id_may_end_like_a_route(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    client.post("/items", json={"items": [{"id": "x/image", "text": "red"}, {"id": "x", "text": "blue"}]})
    assert client.get("/items/x%2Fimage").json()["text"] == "red"
    assert client.get("/items/x").json()["text"] == "blue"
    assert client.get("/items/x/image").status_code == 404


def test_paths_of_images_are_answered_only_if_the_service_allows_it(
    serve: Serve, own_index: Path, tmp_path: Path
) -> None:
    file = write_square(tmp_path / "photos" / "red.jpg")
    with Index.open(own_index) as index:
        index.add(tmp_path / "photos")
    for paths, expected in ((False, None), (True, str(file))):
        client = serve(own_index, paths=paths)
        assert client.get("/items/red.jpg").json().get("path") == expected
        assert client.get("/about").json()["paths"] is paths
        assert "path" not in client.get("/items").json()["items"][0]


def test_all_items_page_by_page(client: TestClient, served: Path) -> None:
    after: int | None = 0
    seen: list[dict[str, Any]] = []
    while after is not None:
        page = client.get("/items", params={"after": after, "limit": 33}).json()
        after, seen = page["next"], [*seen, *page["items"]]
    with Index.open(served) as index:
        assert [item["id"] for item in seen] == [item.id for item in index]
    assert seen[0] == {
        name: value for name, value in client.get("/items/9:1").json().items() if name != "code"
    }


def test_compacting(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    for n in (9, 1):
        client.post("/items", json={"items": [{"id": f"{n} {m}", "text": "red"} for m in range(n)]})
    client.delete("/items/9%203")
    assert client.post("/compact", json={}).json() == {"before": 2, "after": 1, "dropped": 1}
    assert len(hit_ids(client.post("/search", json={"text": "red", "k": 20}))) == 9


def test_health_fails_when_the_searching_thread_is_dead(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Batcher, "alive", False)
    assert client.get("/health").status_code == 503


def test_a_removed_item_is_gone(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    client.post("/items", json={"items": [{"id": "a", "text": "red"}, {"id": "b", "text": "blue"}]})
    assert client.delete("/items/a").json() == {"removed": 1}
    assert client.delete("/items/a").status_code == 404
    assert hit_ids(client.post("/search", json={"text": "red"})) == ["b"]
    assert client.get("/items/a").status_code == 404


def test_a_change_leaves_the_other_fields_alone(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    item = {"id": "a", "text": "red", "image": to_base64(square("red")), "metadata": {"n": 1}}
    client.post("/items", json={"items": [item]})
    assert client.patch("/items/a", json={"metadata": {"m": 2}}).json()["replaced"] == 1
    shown = client.get("/items/a").json()
    assert (shown["text"], shown["modality"], shown["metadata"]) == ("red", "pair", {"n": 1, "m": 2})
    assert client.patch("/items/a", json={"text": None}).status_code == 200
    assert client.get("/items/a").json()["modality"] == "image"
    nothing = client.patch("/items/a", json={"image": None})
    assert (nothing.status_code, nothing.json()["error"]["kind"]) == (400, "input")
    assert client.patch("/items/b", json={"text": "b"}).status_code == 404
    assert client.patch("/items/a", json={"id": "b"}).status_code == 422


def test_filters_exclusions_and_more_like_this(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    items = [{"id": str(n), "text": f"square {n}", "metadata": {"price": n}} for n in range(10)]
    client.post("/items", json={"items": items})
    cheap = {"text": "square", "filter": {"price": {"$lt": 3}}, "exclude": ["1"]}
    assert set(hit_ids(client.post("/search", json=cheap))) == {"0", "2"}
    form = {"text": "square", "filter": '{"price": {"$lt": 3}}', "exclude": "1"}
    assert set(hit_ids(client.post("/search", data=form, files={"image": b""}))) == {"0", "2"}
    similar = hit_ids(client.post("/search", json={"near": "4", "k": 3}))
    assert len(similar) == 3
    assert "4" not in similar
    unknown = client.post("/search", json={"near": "nothing"})
    assert (unknown.status_code, unknown.json()["error"]["kind"]) == (400, "input")


def test_facets_are_those_of_the_index_and_current(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    assert client.get("/facets").json() == {"facets": []}
    metadata = [{"price": 3, "brand": "acme", "taken": "2024-05-01"}, {"price": 9.5, "brand": "acme"}]
    items = [{"id": str(n), "text": f"square {n}", "metadata": own} for n, own in enumerate(metadata)]
    client.post("/items", json={"items": items})
    listed = {facet["key"]: facet for facet in client.get("/facets").json()["facets"]}
    assert listed["brand"]["values"] == [{"value": "acme", "count": 2}]
    assert (listed["price"]["kind"], listed["price"]["minimum"], listed["price"]["maximum"]) == (
        "number",
        3,
        9.5,
    )
    assert (listed["taken"]["kind"], listed["taken"]["count"]) == ("date", 1)
    client.patch("/items/0", json={"metadata": {"brand": "other"}})
    listed = {facet["key"]: facet for facet in client.get("/facets").json()["facets"]}
    assert {value["value"] for value in listed["brand"]["values"]} == {"acme", "other"}


def test_a_read_only_service_refuses_changes(client: TestClient) -> None:
    for answer in (
        client.post("/items", json={"items": [{"id": "a", "text": "b"}]}),
        client.patch("/items/9:1", json={"text": "b"}),
        client.delete("/items/9:1"),
        client.post("/compact", json={}),
    ):
        assert answer.status_code == 403
        assert answer.json()["error"]["kind"] == "read_only"


def test_unknown_methods_and_routes_are_refused(client: TestClient) -> None:
    assert refused(client.get("/nowhere"), 404)["kind"] == "not_found"
    assert refused(client.put("/search"), 405)["kind"] == "method"
    assert refused(client.delete("/items/"), 404, 405, 422)
    assert refused(client.get("/codes?children=1000"), 422)["message"].startswith("children")
    assert refused(client.get("/items/9:1/image?size=0"), 422)


def test_an_id_with_line_breaks_has_a_route(serve: Serve, own_index: Path) -> None:
    client, id = serve(own_index), "two\nlines/and\ta slash"
    with Index.open(own_index) as index:
        index.add([Item(id, "red")])
    assert client.get(f"/items/{quote(id, safe='')}").json()["id"] == id
    assert client.post("/search", json={"near": id, "k": 1}).status_code == 200
    assert client.delete(f"/items/{quote(id, safe='')}").json() == {"removed": 1}
