"""The web page: a few files that come with the package, read once and served from memory."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources

from fastapi import FastAPI, Request
from fastapi.responses import Response

from genius.serve.errors import Refusal

MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class _File:
    content: bytes
    media_type: str
    tag: str


def add_pages(app: FastAPI) -> None:
    """Serve the page at the root, and what it needs below /page/."""
    files = _files()

    def answer(request: Request, name: str) -> Response:
        file = files.get(name)
        if file is None:
            raise Refusal(404, "there is no such page")
        headers = {"ETag": file.tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == file.tag:
            return Response(status_code=304, headers=headers)
        return Response(file.content, media_type=file.media_type, headers=headers)

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        return answer(request, "index.html")

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon(request: Request) -> Response:
        return answer(request, "icon.svg")

    @app.get("/page/{name}", include_in_schema=False)
    async def part(request: Request, name: str) -> Response:
        return answer(request, name)


def _files() -> dict[str, _File]:
    found = {}
    for entry in resources.files("genius.serve").joinpath("page").iterdir():
        kind = MEDIA_TYPES.get("." + entry.name.rpartition(".")[2])
        if kind is not None:
            content = entry.read_bytes()
            tag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
            found[entry.name] = _File(content, kind, tag)
    return found
