"""The files of the web page."""

from __future__ import annotations

from starlette.testclient import TestClient


def test_the_page_and_its_files(client: TestClient) -> None:
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
