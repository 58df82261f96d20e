"""Requests that try to break or trick the service: each gets an error, and the service goes on."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from genius import ImageFile, Index, Item
from tests.pictures import square
from tests.serving import Running, Serve, refused

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


RAW_PATHS = (
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


def test_path_tricks_in_raw_requests(running: Running) -> None:
    """By a socket, as a client would normalise the paths before it sends them."""
    port = int(running(read_only=True).rpartition(":")[2])
    for path in RAW_PATHS:
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
def test_injections_in_filters(client: TestClient, filter: Any) -> None:
    answer = client.post("/search", json={"text": "red", "filter": filter})
    if answer.status_code == 200:
        assert answer.json()["hits"] == []
    else:
        refused(answer, 400, 422)
    assert client.get("/about").json()["items"] == 99


def test_an_id_with_a_zero_byte_removes_nothing(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    client.post("/items", json={"items": [{"id": "c", "text": "red"}]})
    assert client.delete("/items/c%00zz").status_code == 404
    assert client.get("/items/c").status_code == 200


def test_the_paths_of_images_on_this_machine_stay_secret(
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


def test_a_page_of_another_site_cannot_compact(serve: Serve, own_index: Path) -> None:
    client = serve(own_index)
    answer = client.post("/compact", content="", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415
    bodies: list[object] = [[], 1, {"a": 1}]
    for body in bodies:
        assert client.post("/compact", json=body).status_code == 422
