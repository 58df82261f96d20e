"""What the service answers, against the index that it serves."""

from __future__ import annotations

import base64
import errno
import io
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from starlette.testclient import TestClient

from genius import ImageBytes, ImageFile, Index, Item
from genius.errors import DiskError, InputError
from genius.index import sqlite as database
from genius.serve.atlas import format_prefix, parse_prefix
from genius.serve.batching import Batcher
from genius.serve.config import Limits
from tests.pictures import encoded, square
from tests.serve.conftest import Serve


def ids(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [hit["item"]["id"] for hit in answer.json()["hits"]]


def test_a_search_is_what_the_index_finds(client: TestClient, served: Path) -> None:
    with Index.open(served) as index:
        hits = index.search("the red one", want="image", k=5)
        plain = index.search("the red one", k=7, rerank=False)
    asked = {"text": "the red one", "want": "image", "k": 5, "explain": True}
    answer = client.post("/search", json=asked).json()
    for shown, hit in zip(answer["hits"], hits, strict=True):
        assert shown["item"]["id"] == hit.item.id
        assert tuple(shown["code"]) == hit.code
        assert tuple(shown["prefix_counts"]) == hit.below
        assert shown["rank"] == hit.rank
        assert shown["score"] == pytest.approx(hit.score, abs=1e-4)
        assert shown["log_probabilities"] == pytest.approx(list(hit.log_probabilities), abs=1e-4)
    assert (answer["mode"], answer["decoder"], answer["num_candidates"]) == (
        hits.mode,
        hits.decoder,
        hits.under,
    )
    found = client.post("/search", json={"text": "the red one", "k": 7, "rerank": False})
    assert ids(found) == [hit.item.id for hit in plain]


def test_a_picture_comes_as_base64_or_in_a_form(client: TestClient, served: Path) -> None:
    red = square("red")
    with Index.open(served) as index:
        alone = [hit.item.id for hit in index.search(image=red, k=4)]
        both = [hit.item.id for hit in index.search(image=red, text="the same", want="pair", k=4)]
    in_text = base64.b64encode(red).decode()
    assert ids(client.post("/search", json={"image": in_text, "k": 4})) == alone
    assert ids(client.post("/search", json={"image": f"data:image/jpeg;base64,{in_text}", "k": 4})) == alone
    files = {"image": ("red.jpg", red, "image/jpeg")}
    assert ids(client.post("/search", files=files, data={"k": "4"})) == alone
    fields = {"text": "the same", "want": "pair", "k": "4"}
    assert ids(client.post("/search", files=files, data=fields)) == both


def test_an_instruction_steers(client: TestClient) -> None:
    fields = {"text": "red", "instruction": "Find a text that matches this text."}
    hits = client.post("/search", json=fields).json()["hits"]
    assert {hit["item"]["modality"] for hit in hits} == {"text"}
    assert client.post("/search", json={"text": "red " * 500}).json()["notes"]


def test_an_item_and_its_picture(client: TestClient, served: Path) -> None:
    with Index.open(served) as index:
        item = next(item for item in index if item.image)
        code = index.code(item.id)
    shown = client.get(f"/items/{item.id}").json()
    assert shown["id"] == item.id
    assert tuple(shown["code"]) == code
    assert shown["has_image"]
    assert "image" not in shown  # where it is on this machine is nobody's business
    answer = client.get(f"/items/{item.id}/image", params={"size": 96})
    assert answer.headers["content-type"] == "image/webp"
    with Image.open(io.BytesIO(answer.content)) as picture:
        assert max(picture.size) <= 96
    same = client.get(f"/items/{item.id}/image?size=96", headers={"If-None-Match": answer.headers["etag"]})
    assert same.status_code == 304
    with Index.open(served) as index:
        text = next(item for item in index if not item.image)
    assert client.get(f"/items/{text.id}/image").status_code == 404
    assert client.get("/items/nothing").status_code == 404
    assert client.get("/items/nothing/image").status_code == 404


def test_pictures_lose_what_the_file_says_of_itself(serve: Serve, own_index: Path, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x010E] = "a secret place"
    content = encoded(Image.new("RGB", (2000, 1000), "red"), "JPEG", exif=exif)
    (tmp_path / "a.jpg").write_bytes(content)
    assert b"a secret place" in content
    with Index.open(own_index) as index:
        index.add([Item("a", image=ImageFile(str(tmp_path), "a.jpg"))])
    answer = serve(own_index).get("/items/a/image?size=192")
    assert b"a secret place" not in answer.content
    with Image.open(io.BytesIO(answer.content)) as picture:
        assert picture.size == (192, 96)
        assert not picture.getexif()


def test_codes_are_the_cells_of_the_index(client: TestClient, served: Path) -> None:
    with Index.open(served) as index:
        todo: list[tuple[int | None, ...]] = [(), (None,)]
        while todo:
            prefix = todo.pop()
            cell = index.cell(prefix, items=4)
            shown = client.get(
                f"/codes/{format_prefix(prefix)}", params={"samples": 4, "children": 200}
            ).json()
            assert shown["prefix"] == format_prefix(prefix)
            assert (shown["depth"], shown["levels"], shown["count"]) == (len(prefix), 4, cell.count)
            assert [(child["code"], child["count"]) for child in shown["children"]] == list(cell.children)
            assert [item["id"] for item in shown["items"]] == [item.id for item in cell.items]
            todo += [(*prefix, code) for code, _ in cell.children][:3]
    assert client.get("/codes").json() == client.get("/codes/").json()
    second = client.get("/codes", params={"start": 1, "children": 1}).json()
    assert second["children"] == client.get("/codes").json()["children"][1:2]


def test_items_of_a_cell_and_of_its_children_are_asked_for_apart(client: TestClient) -> None:
    def numbers(**asked: int) -> tuple[int, set[int]]:
        shown = client.get("/codes", params=asked).json()
        return len(shown["items"]), {len(child["items"]) for child in shown["children"]}

    assert numbers(samples=7, child_samples=2) == (7, {2})
    assert numbers(samples=0, child_samples=3) == (0, {3})
    assert numbers(samples=5, child_samples=0) == (5, {0})
    assert numbers(samples=5) == (5, {5})
    assert client.get("/codes", params={"child_samples": 25}).status_code == 422


def test_labels_are_words_of_the_texts_there(client: TestClient) -> None:
    cells = client.get("/codes/1").json()["children"]
    labelled = [cell for cell in cells if cell["label"]]
    assert labelled
    for cell in labelled:
        under = client.get(f"/codes/{cell['prefix']}?samples=24").json()
        texts = " ".join(item["text"] for item in under["items"]).lower()
        assert any(word in texts for word in cell["label"].split(", "))


def test_pictures_without_texts_at_their_place_are_labelled_by_the_texts_most_like_them(
    client: TestClient,
) -> None:
    for picture in client.get("/codes/0").json()["children"]:
        whole = picture["prefix"]
        while len(whole.split("-")) < 4:  # to the end: there no text has the same code
            whole = client.get(f"/codes/{whole}").json()["children"][0]["prefix"]
        assert client.get(f"/codes/{whole}").json()["label"], whole


@pytest.mark.parametrize("text", ["9", "0-99", "0-1-2-3-4", "*-*", "-1", "a", "0-", "٣", "0" * 300])
def test_prefixes_that_cannot_be(client: TestClient, text: str) -> None:
    answer = client.get(f"/codes/{text}")
    assert answer.status_code == 400
    assert answer.json()["error"]["kind"] == "input"
    if text not in ("9", "0-99", "0-1-2-3-4"):
        with pytest.raises(InputError):
            parse_prefix(text)


def test_items_are_added_and_found_at_once(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    assert client.post("/search", json={"text": "red"}).json()["notes"] == ["the index is empty"]
    assert client.get("/codes").json()["count"] == 0
    items = [
        {"id": "a/b c", "text": "A red square.", "metadata": {"price": 30}},
        {"id": "picture", "image": base64.b64encode(square("blue")).decode()},
    ]
    answer = client.post("/items", json={"items": items}).json()
    assert (answer["added"], answer["replaced"], answer["failed"]) == (2, 0, 0)
    assert set(ids(client.post("/search", json={"text": "red"}))) == {"a/b c", "picture"}
    shown = client.get("/items/a%2Fb%20c").json()
    assert (shown["text"], shown["metadata"]) == ("A red square.", {"price": 30})
    assert client.get("/items/picture/image").status_code == 200
    again = client.post("/items", json={"items": [items[0], {**items[1], "text": "blue"}]}).json()
    assert (again["known"], again["replaced"]) == (1, 1)
    assert client.get("/about").json()["items"] == 2
    assert client.get("/codes").json()["count"] == 2


def test_an_id_may_end_like_an_address(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    client.post("/items", json={"items": [{"id": "x/image", "text": "red"}, {"id": "x", "text": "blue"}]})
    assert client.get("/items/x%2Fimage").json()["text"] == "red"
    assert client.get("/items/x").json()["text"] == "blue"
    assert client.get("/items/x/image").status_code == 404


def test_one_bad_item_is_reported_and_the_others_are_added(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    items = [{"id": "blank", "text": " "}, {"id": "good", "text": "red"}]
    answer = client.post("/items", json={"items": items}).json()
    assert (answer["added"], answer["failed"]) == (1, 1)
    assert answer["failures"] == [{"id": "blank", "message": "its text says nothing"}]


def test_bad_pictures_are_named_and_the_others_are_added(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    bad = [{"id": "none", "image": base64.b64encode(b"no picture").decode()}]
    bad += [{"id": "cut", "image": base64.b64encode(square("red", side=400)[:300]).decode()}]
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


def test_all_items_some_at_a_time(client: TestClient, served: Path) -> None:
    after, seen = 0, []
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
    assert len(ids(client.post("/search", json={"text": "red", "k": 20}))) == 9


def changing(index: Path, item: Item) -> None:
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
        found = get(index, id)
        changing(own_index, Item("a", image=ImageBytes(square("blue"))))
        return found

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
        changing(own_index, Item(str(number[0]), "red"))
        return cell(index, prefix, items)

    with monkeypatch.context() as patch:
        patch.setattr(Index, "cell", overtaken)
        shown = client.get("/codes/1").json()
    assert shown["count"] == sum(child["count"] for child in shown["children"]) == 1
    assert client.get("/codes/1").json()["count"] == 1 + number[0]


def test_a_costly_filter_is_refused_and_nobody_waits_for_it(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "STEPS", 1)
    client = serve(limits=Limits(filter_seconds=0), read_only=True)
    asked = {"text": "red", "filter": {"price": {"$lt": 3}}}
    refused = client.post("/search", json=asked)
    assert (refused.status_code, refused.json()["error"]["kind"]) == (503, "timeout")
    assert "filter takes too long" in refused.json()["error"]["message"]
    begun, go = threading.Event(), threading.Event()
    monkeypatch.setattr(Index, "prepare", lambda *_: begun.set() or go.wait())
    with ThreadPoolExecutor(1) as thread:
        costly = thread.submit(client.post, "/search", json=asked)
        begun.wait()
        assert len(ids(client.post("/search", json={"text": "red"}))) == 10
        assert not costly.done()
        go.set()


def test_a_disk_that_is_full_is_said(serve: Serve, own_index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = serve(own_index)

    def full(*_: Any, **__: Any) -> None:
        raise DiskError(own_index, errno.ENOSPC, "written to")

    monkeypatch.setattr(Index, "add", full)
    answer = client.post("/items", json={"items": [{"id": "a", "text": "red"}]})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (507, "disk")
    assert "No space left on device" in answer.json()["error"]["message"]
    assert str(own_index) not in answer.text


def test_health_knows_when_nobody_searches(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Batcher, "alive", False)
    assert client.get("/health").status_code == 503


def test_workers_count_together_who_waits(tmp_path: Path) -> None:
    code = "from genius.serve.metrics import Metrics; m = Metrics(); m.set_waiting(3); print(m.to_text(0, 0))"
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=True)
    assert b"genius_waiting 3.0" in shown.stdout


def test_what_is_removed_is_gone(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    client.post("/items", json={"items": [{"id": "a", "text": "red"}, {"id": "b", "text": "blue"}]})
    assert client.delete("/items/a").json() == {"removed": 1}
    assert client.delete("/items/a").status_code == 404
    assert ids(client.post("/search", json={"text": "red"})) == ["b"]
    assert client.get("/items/a").status_code == 404


def test_what_is_changed_stays_otherwise(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    item = {"id": "a", "text": "red", "image": base64.b64encode(square("red")).decode(), "metadata": {"n": 1}}
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
    assert set(ids(client.post("/search", json=cheap))) == {"0", "2"}
    form = {"text": "square", "filter": '{"price": {"$lt": 3}}', "exclude": "1"}
    assert set(ids(client.post("/search", data=form, files={"image": b""}))) == {"0", "2"}
    similar = ids(client.post("/search", json={"near": "4", "k": 3}))
    assert len(similar) == 3
    assert "4" not in similar
    unknown = client.post("/search", json={"near": "nothing"})
    assert (unknown.status_code, unknown.json()["error"]["kind"]) == (400, "input")


def test_a_service_that_only_reads(client: TestClient) -> None:
    for answer in (
        client.post("/items", json={"items": [{"id": "a", "text": "b"}]}),
        client.patch("/items/9:1", json={"text": "b"}),
        client.delete("/items/9:1"),
        client.post("/compact", json={}),
    ):
        assert answer.status_code == 403
        assert answer.json()["error"]["kind"] == "read_only"


def test_facts_and_counters(client: TestClient, served: Path) -> None:
    about = client.get("/about").json()
    assert about["items"] == 99
    assert about["modalities"] == {"image": 39, "text": 36, "pair": 24}
    assert about["levels"] == [3, 16, 16, 16]
    assert client.get("/health").json() == {"status": "ok"}
    client.post("/search", json={"text": "red"})
    client.get("/nowhere")
    counted = client.get("/metrics").text
    assert 'genius_requests_total{method="POST",route="/search",status="200"} 1.0' in counted
    assert "genius_batch_size_count 1.0" in counted
    assert "genius_items 99.0" in counted
    assert 'route="other",status="404"} 1.0' in counted


def test_the_page_and_its_parts(client: TestClient) -> None:
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"].startswith("default-src 'self'")
    assert "<script>" not in page.text
    assert "style=" not in page.text
    for name in ("app.js", "style.css", "icon.svg"):
        answer = client.get(f"/page/{name}")
        assert answer.status_code == 200
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.get("/page/../app.py").status_code == 404
    assert client.get("/page/..%2Fapp.py").status_code == 404
    assert client.get("/", headers={"If-None-Match": page.headers["etag"]}).status_code == 304
