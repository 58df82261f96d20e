"""Bodies of requests: JSON and forms, right and wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from starlette.testclient import TestClient

from genius import Index
from genius.index.query import MAX_TEXT_LENGTH
from tests.pictures import encoded, png_header, square
from tests.serving import Serve, hit_ids, refused, to_base64


def test_an_image_comes_as_base64_or_in_a_form(client: TestClient, served: Path) -> None:
    red = square("red")
    with Index.open(served) as index:
        alone = [hit.item.id for hit in index.search(image=red, k=4)]
        both = [hit.item.id for hit in index.search(image=red, text="the same", want="pair", k=4)]
    encoded_red = to_base64(red)
    assert hit_ids(client.post("/search", json={"image": encoded_red, "k": 4})) == alone
    data_url = f"data:image/jpeg;base64,{encoded_red}"
    assert hit_ids(client.post("/search", json={"image": data_url, "k": 4})) == alone
    files = {"image": ("red.jpg", red, "image/jpeg")}
    assert hit_ids(client.post("/search", files=files, data={"k": "4"})) == alone
    fields = {"text": "the same", "want": "pair", "k": "4"}
    assert hit_ids(client.post("/search", files=files, data=fields)) == both


def test_a_form_may_hold_several_wants_and_sort_keys(client: TestClient, served: Path) -> None:
    with Index.open(served) as index:
        expected = index.search("red", only=["image", "text"], sort=["gone", "-src_content"], k=40)
    parts = [(name, (None, value)) for name, value in (("text", "red"), ("k", "40"))]
    parts += [("only", (None, value)) for value in ("image", "text")]
    parts += [("sort", (None, value)) for value in ("gone", "-src_content")]
    assert hit_ids(client.post("/search", files=parts)) == [hit.item.id for hit in expected]


IMAGES = {
    "empty": b"",
    "text": b"this is no image",
    "cut": square("red", side=400)[:300],
    "bomb": png_header(60_000, 60_000),
    "large": png_header(9_000, 9_000),
    "no pixels": png_header(100, 100),
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
    "zip": b"PK\x03\x04" + bytes(100),
    "other format": encoded(Image.new("RGB", (9, 9)), "ICO"),
}


@pytest.mark.parametrize("name", IMAGES)
def test_broken_images_and_decompression_bombs_are_refused(client: TestClient, name: str) -> None:
    content = IMAGES[name]
    refused(client.post("/search", json={"image": to_base64(content)}), 400, 422)
    refused(client.post("/search", files={"image": ("a.jpg", content)}), 400, 422)
    assert client.post("/search", json={"text": "red"}).status_code == 200


def test_an_item_with_a_broken_image_is_not_added(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    for name in ("text", "bomb"):
        item = {"id": "a", "image": to_base64(IMAGES[name])}
        refused(client.post("/items", json={"items": [item]}), 400)
    answer = client.post("/items", json={"items": [{"id": "a", "image": to_base64(IMAGES["no pixels"])}]})
    assert refused(answer, 400)["message"].startswith("nothing could be added: item 'a'")
    assert client.get("/about").json()["items"] == 0


BODIES = {
    "a long text": json.dumps({"text": "x" * 10_000_000}).encode(),
    "deep lists": b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep filter": b'{"text": "a", "filter": ' + b'{"$not": ' * 500 + b"{}" + b"}" * 500 + b"}",
    "deeper filter": b'{"text": "a", "filter": ' + b'{"$not": ' * 100_000 + b"{}" + b"}" * 100_000 + b"}",
    "half a character": b'{"text": "\\ud800"}',
    "no UTF-8": b'{"text": "\xff\xfe"}',
    "not JSON": b"{'text': 1}",
    "nothing": b"",
    "a list": b"[]",
    "null": b"null",
    "an empty object": b"{}",
    "blanks": b'{"text": "   "}',
    "a number as text": b'{"text": 5}',
    "a list as text": b'{"text": ["red"]}',
    "too many": b'{"text": "red", "k": 1000000000}',
    "none": b'{"text": "red", "k": 0}',
    "fewer": b'{"text": "red", "k": -1}',
    "a fraction": b'{"text": "red", "k": 1.5}',
    "beyond all": b'{"text": "red", "k": 1e308}',
    "not a number": b'{"text": "red", "k": NaN}',
    "wide": b'{"text": "red", "beam": 100000}',
    "video": b'{"text": "red", "want": "video"}',
    "an unknown field": b'{"text": "red", "__class__": "x"}',
    "an address": b'{"image": "http://127.0.0.1:22/"}',
    "a file": b'{"image": "file:///etc/passwd"}',
    "a path": b'{"image": "/etc/passwd"}',
    "near and text": b'{"text": "red", "near": "1"}',
    "near and instruction": b'{"instruction": "find", "near": "1"}',
    "control characters": b'{"near": "a\\u0000b"}',
}


@pytest.mark.parametrize("name", BODIES)
def test_wrong_bodies_are_refused(client: TestClient, name: str) -> None:
    answer = client.post("/search", content=BODIES[name], headers={"Content-Type": "application/json"})
    message = refused(answer, 400, 422)["message"]
    assert len(message) < 500
    answer = client.post("/items", content=BODIES[name], headers={"Content-Type": "application/json"})
    refused(answer, 400, 422)


@pytest.mark.parametrize(
    "text",
    ["\x00", "a\x00b", "\u202eevil", "💥" * 1000, "\ufeff", "a\u0301" * 999, "' OR 1=1; --", "<script>"],
)
def test_odd_texts_are_texts(client: TestClient, text: str) -> None:
    answer = client.post("/search", json={"text": text, "instruction": text, "k": 2})
    assert answer.status_code in (200, 400), answer.text
    assert client.post("/search", json={"text": "x" * MAX_TEXT_LENGTH, "k": 2}).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/xml"])
def test_bodies_of_other_media_types_are_refused(client: TestClient, kind: str) -> None:
    for path in ("/search", "/items"):
        refused(client.post(path, content=b'{"text": "a"}', headers={"Content-Type": kind}), 415)


def test_wrong_forms_are_refused(client: TestClient) -> None:
    head = {"Content-Type": "multipart/form-data; boundary=x"}
    for body in (b"", b"--x\r\n", b"no form", b"--x\r\nContent-Disposition: form-data\r\n\r\na\r\n--x--\r\n"):
        refused(client.post("/search", content=body, headers=head), 400, 422)
    refused(client.post("/search", content=b"a", headers={"Content-Type": "multipart/form-data"}), 400, 422)
    refused(client.post("/search", files={"other": b"x"}), 422)
    refused(client.post("/search", files=[("image", b"x"), ("image", b"y")]), 400, 422)
    refused(client.post("/search", data={"filter": "{"}, files={"image": square()}), 400)
    refused(client.post("/search", data={"k": "many"}, files={"image": square()}), 422)


def test_empty_fields_of_a_form_are_ignored(serve: Serve) -> None:
    answer = serve().post("/search", data={"text": "red", "exclude": "", "k": ""}, files={"image": b""})
    assert answer.status_code == 200
