"""Checks that every request passes: host name, token, size, load."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from genius import Index
from genius.serve.access_log import open_access_log
from genius.serve.config import Limits, Settings
from tests.serving import Serve, refused


def test_bodies_that_are_too_large_are_refused(serve: Serve) -> None:
    client = serve(limits=Limits(body=1000))
    assert refused(client.post("/search", json={"text": "x" * 2000}), 413)["kind"] == "too_large"
    # With a length in the header, and without:
    refused(client.post("/search", content=b"x", headers={"Content-Length": "99999999999999999999"}), 413)
    refused(client.post("/search", content=(b"x" * 100 for _ in range(20))), 413)
    assert client.post("/search", json={"text": "red"}).status_code == 200


def test_the_bytes_of_all_bodies_are_bounded(serve: Serve) -> None:
    client = serve(limits=Limits(bodies=100))
    for _ in range(3):  # the bytes of refused bodies are freed
        assert refused(client.post("/search", json={"text": "x" * 200}), 503)["kind"] == "busy"
    for _ in range(5):
        assert client.post("/search", json={"text": "red"}).status_code == 200


def test_requests_need_the_token(serve: Serve) -> None:
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


def test_every_route_but_health_needs_the_token(serve: Serve) -> None:
    client = serve(token="secret")
    paths = client.get("/openapi.json", headers={"Authorization": "Bearer secret"}).json()["paths"]
    for path, methods in paths.items():
        for method in methods:
            status = client.request(method.upper(), path.replace("{", "").replace("}", "")).status_code
            assert (status == 200) if path == "/health" else (status == 401), path


def test_a_service_on_loopback_answers_to_its_own_names_only(serve: Serve) -> None:
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


def test_a_bug_is_answered_without_its_details(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = serve()
    monkeypatch.setattr(Index, "search_many", lambda *_, **__: 1 / 0)
    error = refused(client.post("/search", json={"text": "red"}), 500)
    assert error == {"kind": "internal", "message": "something went wrong here; the service goes on"}
    assert "ZeroDivisionError" in caplog.text
    assert client.get("/health").status_code == 200


def test_the_access_log_has_a_line_for_each_request_without_what_was_searched_for(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(read_only=True).post("/search", json={"text": "a secret"})
    assert capsys.readouterr().out == ""  # it is off, unless it is wanted
    client = serve(read_only=True, access_log=True)
    open_access_log()
    client.post("/search", json={"text": "a secret"})
    client.get("/items?after=0&limit=1")
    client.get("/items/gone%0A127.0.0.1%20GET%20/forged")
    client.post("/search", content=b"{")
    lines = [line.split(" ") for line in capsys.readouterr().out.splitlines()]
    assert [line[2:5] for line in lines] == [
        ["POST", "/search", "200"],
        ["GET", "/items", "200"],
        ["GET", "/items/gone%0A127.0.0.1%20GET%20/forged", "404"],
        ["POST", "/search", "415"],
    ]
    for when, who, *_, milliseconds, unit in lines:
        assert datetime.datetime.fromisoformat(when).tzinfo is not None
        assert who == "testclient"
        assert float(milliseconds) >= 0 and unit == "ms"
