"""The service's work on its index."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from genius import ImageBytes, Index, Item
from genius.index import sqlite as database
from genius.serve.config import Limits
from tests.pictures import square
from tests.serving import Serve, hit_ids, refused, to_base64


def test_one_bad_item_is_reported_and_the_others_are_added(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    items = [{"id": "blank", "text": " "}, {"id": "good", "text": "red"}]
    answer = client.post("/items", json={"items": items}).json()
    assert (answer["added"], answer["failed"]) == (1, 1)
    assert answer["failures"] == [{"id": "blank", "message": "its text says nothing"}]


def test_bad_images_are_reported_and_the_other_items_are_added(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    bad = [{"id": "none", "image": to_base64(b"no image")}]
    bad += [{"id": "cut", "image": to_base64(square("red", side=400)[:300])}]
    good = [{"id": f"good {n}", "text": f"red {n}"} for n in range(100)]
    answer = client.post("/items", json={"items": [*good, *bad]})
    assert answer.status_code == 200
    assert (answer.json()["added"], answer.json()["failed"]) == (100, 2)
    failures = {failure["id"]: failure["message"] for failure in answer.json()["failures"]}
    assert "none of JPEG" in failures["none"]
    assert set(failures) == {"none", "cut"}
    nothing = client.post("/items", json={"items": bad})
    assert nothing.status_code == 400
    assert nothing.json()["error"]["message"].startswith("nothing could be added: item 'none': the picture")
    assert [failure["id"] for failure in nothing.json()["failures"]] == ["none", "cut"]
    strict = client.post("/items", json={"items": [{"id": "new", "text": "new"}, *bad], "strict": True})
    assert strict.status_code == 400
    assert strict.json()["error"]["message"].startswith("item 'none': the picture")
    assert client.get("/about").json()["items"] == 100


def write_meanwhile(index: Path, item: Item) -> None:
    """Change an index as another process would."""
    with Index.open(index) as writer:
        writer.add([item])
        writer.compact()


def test_an_item_and_its_code_are_of_one_version(
    serve: Serve, own_index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = serve(own_index)
    client.post("/items", json={"items": [{"id": "a", "text": "red"}]})
    before = client.get("/items/a").json()
    get = Index.get

    def overtaken(index: Index, id: str) -> Item | None:
        item = get(index, id)
        write_meanwhile(own_index, Item("a", image=ImageBytes(square("blue"))))
        return item

    with monkeypatch.context() as patch:
        patch.setattr(Index, "get", overtaken)
        assert client.get("/items/a").json() == before
    assert client.get("/items/a").json()["code"][0] != before["code"][0]


def test_a_cell_and_its_children_are_of_one_version(
    serve: Serve, own_index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = serve(own_index)
    client.post("/items", json={"items": [{"id": "a", "text": "red"}]})
    cell, number = Index.cell, [0]

    def overtaken(index: Index, prefix: Any = (), items: int = 0) -> Any:
        number[0] += 1
        write_meanwhile(own_index, Item(str(number[0]), "red"))
        return cell(index, prefix, items)

    with monkeypatch.context() as patch:
        patch.setattr(Index, "cell", overtaken)
        shown = client.get("/codes/1").json()
    assert shown["count"] == sum(child["count"] for child in shown["children"]) == 1
    assert client.get("/codes/1").json()["count"] == 1 + number[0]


def test_a_slow_filter_is_refused_and_other_searches_do_not_wait_for_it(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "DEADLINE_STEPS", 1)
    client = serve(limits=Limits(filter_seconds=0), read_only=True)
    request = {"text": "red", "filter": {"price": {"$lt": 3}}}
    error = refused(client.post("/search", json=request), 503)
    assert error["kind"] == "timeout"
    assert "filter takes too long" in error["message"]
    begun, go = threading.Event(), threading.Event()

    def held(index: Index, filter: object) -> None:
        begun.set()
        go.wait()

    monkeypatch.setattr(Index, "prepare", held)
    with ThreadPoolExecutor(1) as thread:
        costly = thread.submit(client.post, "/search", json=request)
        begun.wait()
        assert len(hit_ids(client.post("/search", json={"text": "red"}))) == 10
        assert not costly.done()
        go.set()


def test_an_overloaded_service_refuses_searches_and_stays_healthy(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, begun = threading.Event(), threading.Event()
    search = Index.search_many

    def slow(*given: Any, **options: Any) -> Any:
        begun.set()
        go.wait()
        return search(*given, **options)

    client = serve(limits=Limits(queue=1, batch=1))
    monkeypatch.setattr(Index, "search_many", slow)
    statuses: list[int] = []

    def search_red() -> None:
        statuses.append(client.post("/search", json={"text": "red"}).status_code)

    threads = [threading.Thread(target=search_red) for _ in range(6)]
    threads[0].start()
    begun.wait()
    for thread in threads[1:]:
        thread.start()
    while len(statuses) < 4:  # one is searched, one waits: the others are refused
        assert client.get("/health").status_code == 200
    assert statuses == [503] * 4
    go.set()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200, 200, 503, 503, 503, 503]


def test_a_decoder_that_the_model_lacks_is_an_input_error(serve: Serve) -> None:
    answer = serve().post("/search", json={"text": "red", "decoder": "learned"})
    assert answer.status_code == 400 and "no learned decoder" in answer.text
