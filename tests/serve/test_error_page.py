"""Errors: a page for browsers, JSON for programs."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from genius.serve.error_page import error_page
from genius.serve.errors import KINDS, ApiError
from tests.serving import Serve, refused

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize("path", ["/nowhere", "/page/nothing.js", "/items/nothing", "/items/nothing/image"])
def test_what_does_not_exist_is_a_page_for_browsers_and_json_for_programs(
    client: TestClient, path: str
) -> None:
    page = client.get(path, headers={"Accept": BROWSER})
    assert page.status_code == 404
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<h1>Not found</h1>" in page.text
    assert 'href="/"' in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'self'")
    for accept in ("*/*", "application/json", ""):
        answer = client.get(path, headers={"Accept": accept})
        assert refused(answer, 404)["kind"] == "not_found"
        assert answer.headers["vary"] == page.headers["vary"] == "Accept"


def test_an_address_without_a_page_says_where_to_look(client: TestClient) -> None:
    assert "/openapi.json" in refused(client.get("/nowhere"), 404)["message"]


def test_what_is_refused_before_it_is_read_is_a_page_too(serve: Serve) -> None:
    client = serve(token="secret")
    page = client.get("/about", headers={"Accept": BROWSER})
    assert page.status_code == 401
    assert "This needs a token that is right." in page.text
    assert page.headers["www-authenticate"] == "Bearer"
    assert refused(client.get("/about"), 401)["kind"] == "unauthorized"


def test_a_page_shows_a_message_as_text() -> None:
    page = error_page(ApiError(404, "there is no <script>alert(1)</script>")).decode()
    assert "<script" not in page
    assert "There is no &lt;script&gt;alert(1)&lt;/script&gt;." in page


@pytest.mark.parametrize("status", KINDS)
def test_every_status_has_a_page(status: int) -> None:
    assert b"<h1>" in error_page(ApiError(status, "so it is"))
