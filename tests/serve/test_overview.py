"""The routes on the collection as a whole: pages of albums, what is kept between requests, and errors."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from genius import Index, Item
from tests.serving import Serve, refused


def test_an_album_page_by_page(client: TestClient) -> None:
    albums = client.get("/albums", params={"n": 3}).json()["albums"]
    largest = albums[0]
    address = f"/albums/{quote(largest['id'], safe='')}"
    listed_ids: list[str] = []
    for start in range(0, largest["size"], 7):
        page = client.get(address, params={"n": 3, "start": start, "limit": 7}).json()
        listed_ids += [item["id"] for item in page["items"]]
        assert (page["label"], page["size"]) == (largest["label"], largest["size"])
    listed = client.get("/albums", params={"n": 3, "ids": True}).json()["albums"][0]
    assert listed_ids == listed["ids"]
    for inner in largest["albums"]:
        within = client.get(
            f"/albums/{quote(inner['id'], safe='')}", params={"n": 3, "within": largest["id"]}
        ).json()
        assert within["size"] == inner["size"]
    assert largest["albums"]


def test_what_is_computed_is_kept_until_the_index_changes(
    serve: Serve, own_index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[object] = []
    albums = Index.albums

    def counted(index: Index, n: int = 30, *, like: object = None) -> object:
        computed.append(like)
        return albums(index, n, like=like)  # type: ignore[arg-type]

    monkeypatch.setattr(Index, "albums", counted)
    client = serve(own_index)
    assert client.get("/albums").json() == {"albums": [], "notes": ["the index is empty: add items first"]}
    new = [{"id": str(n), "text": f"A red square, number {n}."} for n in range(6)]
    client.post("/items", json={"items": new})
    first = client.get("/albums").json()
    assert client.get("/albums").json() == first
    assert len(computed) == 2
    client.post("/items", json={"items": [{"id": "more", "text": "A blue circle."}]})
    sizes = [album["size"] for album in client.get("/albums").json()["albums"]]
    assert sum(sizes) == 7 and len(computed) == 3
    assert computed[2] is not None, "new albums start from those before"


def test_an_empty_index(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    assert client.get("/duplicates").json()["groups"] == []
    assert client.get("/outliers").json()["outliers"] == []
    assert client.get("/sample").json()["items"] == []


def test_bad_requests(client: TestClient) -> None:
    for address in (
        "/albums?n=0",
        "/albums?n=2000",
        "/duplicates?level=some",
        "/duplicates?similarity=1.5",
        "/outliers?n=0",
        "/sample?kind=best",
        "/sample?seed=-1",
    ):
        refused(client.get(address), 422)
    refused(client.get("/duplicates?level=exact&similarity=0.9"), 400)
    assert "no such album" in refused(client.get("/albums/nothing"), 404)["message"]
    assert "no such album" in refused(client.get("/albums/x?within=nothing"), 404)["message"]


def test_an_item_that_is_gone_is_left_out_of_its_album(serve: Serve, own_index: Path) -> None:
    with Index.open(own_index) as index:
        index.add([Item(str(n), f"A red square, number {n}.") for n in range(4)])
    client = serve(own_index)
    album = client.get("/albums?n=1").json()["albums"][0]
    client.delete(f"/items/{next(id for id in '0123' if id != album['id'])}")
    page = client.get(f"/albums/{album['id']}?n=1")
    assert page.status_code == 404 or len(page.json()["items"]) == 3
