"""The web page: a few files that come with the package, read once and served from memory."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources

from fastapi import FastAPI, Request
from fastapi.responses import Response

from genius.serve.errors import ApiError

MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class _File:
    content: bytes
    media_type: str
    etag: str


def add_pages(app: FastAPI) -> None:
    """Serve the page at `/`, and its files below `/page/`."""
    files = _read_files()

    def respond(request: Request, name: str) -> Response:
        file = files.get(name)
        if file is None:
            raise ApiError(404, "there is no such page")
        headers = {"ETag": file.etag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == file.etag:
            return Response(status_code=304, headers=headers)
        return Response(file.content, media_type=file.media_type, headers=headers)

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        return respond(request, "index.html")

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon(request: Request) -> Response:
        return respond(request, "icon.svg")

    @app.get("/page/{name}", include_in_schema=False)
    async def page_file(request: Request, name: str) -> Response:
        return respond(request, name)


def _read_files() -> dict[str, _File]:
    files = {}
    for entry in resources.files("genius.serve").joinpath("page").iterdir():
        media_type = MEDIA_TYPES.get("." + entry.name.rpartition(".")[2])
        if media_type is not None:
            content = entry.read_bytes()
            etag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
            files[entry.name] = _File(content, media_type, etag)
    return files
