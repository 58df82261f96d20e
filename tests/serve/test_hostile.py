"""Requests that mean no good, or know no better: each gets a sentence, and the service goes on."""

from __future__ import annotations

import base64
import json
import socket
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from PIL import Image
from starlette.testclient import TestClient

from genius import ImageFile, Index, Item
from genius.errors import InputError
from genius.serve.config import MAX_TEXT_LENGTH, Limits, Settings
from genius.serve.schemas import _depth
from tests.pictures import encoded, png_header, square
from tests.serve.conftest import Serve


def refused(answer: Any, *statuses: int) -> dict[str, str]:
    assert answer.status_code in statuses, (answer.status_code, answer.text)
    error: dict[str, str] = answer.json()["error"]
    assert set(error) == {"kind", "message"}
    assert "Traceback" not in answer.text
    return error


def in_text(content: bytes) -> str:
    return base64.b64encode(content).decode()


PICTURES = {
    "empty": b"",
    "text": b"this is no picture",
    "cut": square("red", side=400)[:300],
    "bomb": png_header(60_000, 60_000),
    "large": png_header(9_000, 9_000),
    "no pixels": png_header(100, 100),
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
    "zip": b"PK\x03\x04" + bytes(100),
    "other format": encoded(Image.new("RGB", (9, 9)), "ICO"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_broken_and_bomb_pictures(client: TestClient, name: str) -> None:
    content = PICTURES[name]
    refused(client.post("/search", json={"image": in_text(content)}), 400, 422)
    refused(client.post("/search", files={"image": ("a.jpg", content)}), 400, 422)
    assert client.post("/search", json={"text": "red"}).status_code == 200


def test_a_broken_picture_among_items_is_not_added(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    for name in ("text", "bomb"):
        item = {"id": "a", "image": in_text(PICTURES[name])}
        refused(client.post("/items", json={"items": [item]}), 400)
    answer = client.post("/items", json={"items": [{"id": "a", "image": in_text(PICTURES["no pixels"])}]})
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
def test_bodies_that_are_wrong(client: TestClient, name: str) -> None:
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
def test_bodies_of_other_types(client: TestClient, kind: str) -> None:
    for path in ("/search", "/items"):
        refused(client.post(path, content=b'{"text": "a"}', headers={"Content-Type": kind}), 415)


def test_forms_that_are_wrong(client: TestClient) -> None:
    head = {"Content-Type": "multipart/form-data; boundary=x"}
    for body in (b"", b"--x\r\n", b"no form", b"--x\r\nContent-Disposition: form-data\r\n\r\na\r\n--x--\r\n"):
        refused(client.post("/search", content=body, headers=head), 400, 422)
    refused(client.post("/search", content=b"a", headers={"Content-Type": "multipart/form-data"}), 400, 422)
    refused(client.post("/search", files={"other": b"x"}), 422)
    refused(client.post("/search", files=[("image", b"x"), ("image", b"y")]), 400, 422)
    refused(client.post("/search", data={"filter": "{"}, files={"image": square()}), 400)
    refused(client.post("/search", data={"k": "many"}, files={"image": square()}), 422)


IDS = (
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "/etc/passwd",
    "C:\\windows",
    "a' OR '1'='1",
    "1; DROP TABLE items",
    "%00",
    "a%0d%0aSet-Cookie: x",
    "x" * 5000,
    "~root",
)


@pytest.mark.parametrize("id", IDS)
def test_path_tricks_in_ids(client: TestClient, id: str) -> None:
    for path in (f"/items/{id}", f"/items/{id}/image", f"/page/{id}", f"/codes/{id}"):
        answer = client.get(path)
        refused(answer, 400, 404, 405, 414, 422)
        assert "set-cookie" not in answer.headers
        assert b"root:" not in answer.content


RAW = (
    "/items/../../etc/passwd",
    "/items/../../../../../../etc/passwd/image",
    "/page/../../../../../../etc/passwd",
    "/page/..%2f..%2f..%2f..%2fetc%2fpasswd",
    "/page/../app.py",
    "/codes/../../etc/passwd",
    "//etc/passwd",
    "/./../etc/passwd",
    "http://127.0.0.1/../../etc/passwd",
)


def test_path_tricks_as_they_are(running: Any) -> None:
    """Not by a client, which would make a plain path of them before it sends them."""
    port = int(running(read_only=True).rpartition(":")[2])
    for path in RAW:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
            connection.sendall(head.encode())
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
        assert answer.split()[1] in (b"400", b"404"), (path, answer)
        assert b"root:" not in answer
        assert b"import" not in answer
        assert set(json.loads(answer.partition(b"\r\n\r\n")[2])["error"]) == {"kind", "message"}


FILTERS: list[Any] = [
    {"a'; DROP TABLE items; --": 1},
    {'a") OR 1=1 --': 1},
    {"a": {"$where": "1"}},
    {"a": {"$lt": {"$gt": 1}}},
    {"$and": "x"},
    {"$in": []},
    {"": ""},
    {"a.b[0]": 1},
    {"a": "' OR 1=1 --"},
    {"a": {"$in": ["' OR 1=1 --"] * 1000}},
]


@pytest.mark.parametrize("filter", FILTERS, ids=str)
def test_tricks_in_filters(client: TestClient, filter: Any) -> None:
    answer = client.post("/search", json={"text": "red", "filter": filter})
    if answer.status_code == 200:
        assert answer.json()["hits"] == []
    else:
        refused(answer, 400, 422)
    assert client.get("/about").json()["items"] == 99


def test_bodies_that_are_too_large(serve: Serve) -> None:
    client = serve(limits=Limits(body=1000))
    assert refused(client.post("/search", json={"text": "x" * 2000}), 413)["kind"] == "too_large"
    # Said of itself, and not said:
    refused(client.post("/search", content=b"x", headers={"Content-Length": "99999999999999999999"}), 413)
    refused(client.post("/search", content=(b"x" * 100 for _ in range(20))), 413)
    assert client.post("/search", json={"text": "red"}).status_code == 200


def test_the_bytes_of_all_bodies_are_bounded(serve: Serve) -> None:
    client = serve(limits=Limits(bodies=100))
    for _ in range(3):  # what was refused is let go of
        assert refused(client.post("/search", json={"text": "x" * 200}), 503)["kind"] == "busy"
    for _ in range(5):
        assert client.post("/search", json={"text": "red"}).status_code == 200


def test_tokens(serve: Serve) -> None:
    client = serve(token="secret", read_only=True)
    addresses = [("GET", path) for path in ("/about", "/metrics", "/codes", "/codes/0", "/items/9:1")]
    addresses += [("GET", "/items/9:1/image"), ("GET", "/openapi.json"), ("GET", "/nowhere")]
    addresses += [("POST", "/search"), ("POST", "/items"), ("DELETE", "/items/9:1")]
    for method, path in addresses:
        for shown in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}):
            answer = client.request(method, path, headers=shown)
            assert refused(answer, 401)["kind"] == "unauthorized"
            assert answer.headers["www-authenticate"] == "Bearer"
        right = client.request(method, path, headers={"Authorization": "Bearer secret"})
        assert right.status_code != 401
    for path in ("/", "/health", "/page/app.js"):
        assert client.get(path).status_code == 200
    assert "secret" not in repr(Settings(Path("index"), token="secret"))


def test_every_address_is_among_those_that_need_a_token(serve: Serve) -> None:
    client = serve(token="secret")
    paths = client.get("/openapi.json", headers={"Authorization": "Bearer secret"}).json()["paths"]
    for path, methods in paths.items():
        for method in methods:
            status = client.request(method.upper(), path.replace("{", "").replace("}", "")).status_code
            assert (status == 200) if path == "/health" else (status == 401), path


def test_other_names_for_loopback(serve: Serve) -> None:
    client = serve(allowed_names=("search.example",))
    for name in ("127.0.0.1:8000", "localhost", "[::1]:8000", "search.example"):
        assert client.get("/about", headers={"Host": name}).status_code == 200
    for name in ("evil.example", "127.0.0.1.evil.example", "[::2]"):
        refused(client.get("/about", headers={"Host": name}), 403)
    assert serve(token="t").get("/health", headers={"Host": "any.example"}).status_code == 200
    assert serve(host="0.0.0.0").get("/about", headers={"Host": "any.example"}).status_code == 200
    for host in ("127.0.0.2", "::ffff:127.0.0.1", "0:0:0:0:0:0:0:1", "LOCALHOST"):
        assert Settings(Path("index"), host=host).loopback, host
        assert host.lower() in (Settings(Path("index"), host=host).hosts or ())
    refused(serve(host="127.0.0.2").get("/about", headers={"Host": "evil.example"}), 403)
    assert not Settings(Path("index"), host="192.0.2.1").loopback


def test_methods_and_addresses_that_there_are_not(client: TestClient) -> None:
    assert refused(client.get("/nowhere"), 404)["kind"] == "not_found"
    assert refused(client.put("/search"), 405)["kind"] == "method"
    assert refused(client.delete("/items/"), 404, 405, 422)
    assert refused(client.get("/codes?children=1000"), 422)["message"].startswith("children")
    assert refused(client.get("/items/9:1/image?size=0"), 422)


def test_what_fails_inside_is_an_answer_without_secrets(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = serve()
    monkeypatch.setattr(Index, "search_many", lambda *_, **__: 1 / 0)
    error = refused(client.post("/search", json={"text": "red"}), 500)
    assert error == {"kind": "internal", "message": "something went wrong here; the service goes on"}
    assert "ZeroDivisionError" in caplog.text
    assert client.get("/health").status_code == 200


def test_a_client_that_is_slow(running: Any) -> None:
    url = running(limits=Limits(head_seconds=0.1, body_seconds=0.1))
    port = int(url.rpartition(":")[2])
    head = b"POST /search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    for part in (b"", b"GET /hea", head, head + b"Content-Length: 100\r\n\r\n{"):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(part)
            answer = b"".join(iter(lambda: connection.recv(4096), b""))  # until it hangs up
        assert answer.startswith(b"HTTP/1.1 408"), answer
        assert b'"kind":"slow"' in answer


def test_a_client_that_never_takes_its_answer(running: Any) -> None:
    port = int(running(limits=Limits(connections=1, answer_seconds=0.1)).rpartition(":")[2])
    ask = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as greedy:
        greedy.sendall(ask * 2000)  # far more than the system keeps for somebody who does not read
        answer = b"HTTP/1.1 503"
        while answer == b"HTTP/1.1 503":  # there is room for one, which is let go of
            with socket.create_connection(("127.0.0.1", port), timeout=20) as other:
                other.sendall(ask)
                answer = other.recv(12)
    assert answer == b"HTTP/1.1 200"


def test_an_answer_that_is_taken_slowly_comes_whole(running: Any) -> None:
    port = int(running().rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        whole = b"".join(iter(lambda: connection.recv(50), b""))
    head, _, body = whole.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert json.loads(body)["info"]["title"] == "genius"


def test_connections_one_too_many(running: Any) -> None:
    port = int(running(limits=Limits(connections=2)).rpartition(":")[2])
    held = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(2)]
    for connection in held:  # they are taken in their order
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as third:
        assert third.recv(12) == b"HTTP/1.1 503"
    for connection in held:
        connection.close()


def test_overload_is_said_and_health_answers(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    go, begun = threading.Event(), threading.Event()
    search = Index.search_many

    def slow(*given: Any, **options: Any) -> Any:
        begun.set()
        go.wait()
        return search(*given, **options)

    client = serve(limits=Limits(queue=1, batch=1))
    monkeypatch.setattr(Index, "search_many", slow)
    found: list[int] = []

    def ask() -> None:
        found.append(client.post("/search", json={"text": "red"}).status_code)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    threads[0].start()
    begun.wait()
    for thread in threads[1:]:
        thread.start()
    while len(found) < 4:  # one is searched, one waits: the others are refused
        assert client.get("/health").status_code == 200
    assert found == [503] * 4
    go.set()
    for thread in threads:
        thread.join()
    assert sorted(found) == [200, 200, 503, 503, 503, 503]


def test_depth_is_found_without_recursion() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": [deep]}
    assert _depth(deep) == 200_001
    while deep:  # so that letting go of it does not go deep either
        deep = deep.pop("a").pop()


def test_an_id_with_a_zero_byte_removes_nothing(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    client.post("/items", json={"items": [{"id": "c", "text": "red"}]})
    assert client.delete("/items/c%00zz").status_code == 404
    assert client.get("/items/c").status_code == 200


def test_ids_with_line_breaks_have_an_address(serve: Serve, own_index: Path) -> None:
    client, id = serve(own_index), "two\nlines/and\ta slash"
    with Index.open(own_index) as index:
        index.add([Item(id, "red")])
    assert client.get(f"/items/{quote(id, safe='')}").json()["id"] == id
    assert client.post("/search", json={"near": id, "k": 1}).status_code == 200
    assert client.delete(f"/items/{quote(id, safe='')}").json() == {"removed": 1}


def test_where_pictures_are_on_this_machine_is_not_told(
    serve: Serve, own_index: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "p.png").write_bytes(square("red"))
    with Index.open(own_index) as index:
        index.add([Item("p", None, ImageFile(str(tmp_path / "secret"), "p.png"))])
    (tmp_path / "secret" / "p.png").unlink()
    client = serve(own_index)
    gone = client.patch("/items/p", json={"text": "a text"})
    assert gone.status_code == 400 and "item 'p'" in gone.text
    (tmp_path / "elsewhere.png").write_bytes(square("red"))
    (tmp_path / "secret" / "p.png").symlink_to(tmp_path / "elsewhere.png")
    for answer in (gone, client.get("/items/p/image"), client.patch("/items/p", json={"text": "a text"})):
        assert answer.status_code >= 400 and str(tmp_path) not in answer.text


def test_another_sites_page_cannot_compact(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    answer = client.post("/compact", content="", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415
    for body in ([], 1, {"a": 1}):
        assert client.post("/compact", json=body).status_code == 422


def test_a_decoder_that_the_model_lacks_is_the_requests_fault(serve: Serve) -> None:
    answer = serve().post("/search", json={"text": "red", "decoder": "learned"})
    assert answer.status_code == 400 and "no learned decoder" in answer.text


def test_empty_fields_of_a_form_are_left_out(serve: Serve) -> None:
    answer = serve().post("/search", data={"text": "red", "exclude": "", "k": ""}, files={"image": b""})
    assert answer.status_code == 200


@pytest.mark.parametrize("token", ["", " ", " \n", "t\nt", "ä", "tökén"])
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(InputError, match="a token is some plain letters"):
        Settings(Path("index"), token=token)


def test_the_line_that_ends_a_token_is_not_part_of_it(serve: Serve) -> None:
    client = serve(token="secret\n")
    assert client.get("/about", headers={"Authorization": "Bearer secret"}).status_code == 200
