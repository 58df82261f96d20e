"""The HTTP service: which addresses there are, and what they answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

import orjson
from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from genius import __version__
from genius.errors import GeniusError, InputError
from genius.index.index import Index
from genius.serve import openapi as describe
from genius.serve import schemas as m
from genius.serve import thumbnails
from genius.serve.config import LONGEST_ID, Settings
from genius.serve.errors import Refusal, busy, refusal_of, unexpected
from genius.serve.metrics import MEDIA_TYPE, Metrics
from genius.serve.middleware import Gate
from genius.serve.requests import read_json, read_search, said
from genius.serve.responses import (
    added_fields,
    cell_fields,
    hit_fields,
    item_fields,
    nothing_added,
    page_fields,
)
from genius.serve.service import Service
from genius.serve.static import add_pages

log = logging.getLogger(__name__)

CHILDREN = 200
SAMPLES = 24
PAGE = 200
ItemId = Path(description="An item's id; a slash in it is written %2F.", min_length=1, max_length=LONGEST_ID)


class _AnyText(PathConvertor):
    """What stands in a path, slashes and line breaks included."""

    regex = r"[\s\S]*"


register_url_convertor("any", _AnyText())


def create_app(index: Index, settings: Settings) -> ASGIApp:
    """The application for an open index; it closes the index when it is stopped."""
    metrics = Metrics()
    service = Service(index, settings, metrics)

    @contextlib.asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)
        index.close()

    app = FastAPI(
        title="genius",
        version=__version__,
        description=describe.ABOUT,
        docs_url=None,
        redoc_url=None,
        lifespan=life,
        # We count ourselves (/metrics), and nothing shall be sent anywhere because of a variable.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    _add_errors(app)
    _add_searching(app, service)
    _add_items(app, service)
    _add_facts(app, service)
    add_pages(app)
    return Gate(app, settings, metrics)


def _json(fields: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(fields), status, media_type="application/json")


def _refused(refusal: Refusal) -> Response:
    return Response(
        refusal.body(), refusal.status, media_type="application/json", headers=dict(refusal.headers)
    )


def _add_errors(app: FastAPI) -> None:
    """Every error has the same form."""

    @app.exception_handler(Refusal)
    async def refused(request: Request, error: Refusal) -> Response:
        return _refused(error)

    @app.exception_handler(GeniusError)
    async def ours(request: Request, error: GeniusError) -> Response:
        if not isinstance(error, InputError):
            log.error("%s %s: %s", request.method, request.url.path, error)
        return _refused(refusal_of(error))

    @app.exception_handler(HTTPException)
    async def of_the_framework(request: Request, error: HTTPException) -> Response:
        return _refused(Refusal(error.status_code, str(error.detail), headers=error.headers))

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> Response:
        return _refused(unexpected())  # the gate puts it on record

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return _refused(Refusal(422, said(error.errors())))


def _add_searching(app: FastAPI, service: Service) -> None:
    fingerprint = service.index.model.fingerprint

    @app.post("/search", response_model=m.SearchAnswer, **describe.search())
    async def search(request: Request) -> Response:
        """The items that answer a text, a picture or both, best first."""
        asked, picture = await read_search(request)
        hits = await service.search(asked, picture)
        fields = {
            "hits": [hit_fields(hit, explain=asked.explain) for hit in hits],
            "notes": hits.notes,
            "mode": hits.mode,
            "decoder": hits.decoder,
            "under": hits.under,
            "model": fingerprint,
        }
        return _json(fields)

    @app.get("/codes", response_model=m.CellAnswer, **describe.codes(root=True))
    @app.get("/codes/{prefix:path}", response_model=m.CellAnswer, **describe.codes(root=False))
    async def codes(
        prefix: str = "",
        start: int = Query(0, ge=0, le=1 << 31, description="The first child to show."),
        children: int = Query(48, ge=0, le=CHILDREN, description="How many children."),
        samples: int = Query(6, ge=0, le=SAMPLES, description="How many items of the cell."),
        child_samples: int | None = Query(
            None, ge=0, le=SAMPLES, description="How many items of each child; like `samples` if not given."
        ),
    ) -> Response:
        """What lies under a code: how many items, some of them, a label, and the codes that follow."""
        of_children = samples if child_samples is None else child_samples
        found = await service.cell(prefix, start, children, samples, of_children)
        return _json(cell_fields(found, len(service.index.coding.sizes)))


def _add_items(app: FastAPI, service: Service) -> None:
    @app.post("/items", response_model=m.AddAnswer, **describe.add())
    async def add(request: Request) -> Response:
        """Add items; one whose id is there takes its place. They can be found when this answers."""
        asked = await read_json(request, m.AddRequest)
        report = await service.add(asked.items, strict=asked.strict)
        if report.failures.count == len(asked.items):
            raise nothing_added(report)
        return _json(added_fields(report))

    @app.get("/items", response_model=m.PageAnswer, **describe.plain("items"))
    async def items(
        after: int = Query(0, ge=0, le=1 << 62, description="0, or what the last answer said to be next."),
        limit: int = Query(100, ge=1, le=PAGE, description="How many items."),
    ) -> Response:
        """All items, some at a time; one that is replaced meanwhile comes again, at the end."""
        return _json(page_fields(await service.page(after, limit), limit))

    @app.get("/items/{id:any}/image", **describe.picture())
    async def picture(
        request: Request,
        id: str = ItemId,
        size: int = Query(384, ge=1, le=thumbnails.SIZES[-1], description="Its longer side, about."),
    ) -> Response:
        """The picture of an item, small, as WebP."""
        if not request.scope.get("raw_path", b"/image").endswith(b"/image"):
            return await item(f"{id}/image")  # the slash was written %2F: it belongs to the id
        found = await service.thumbnail(id, size)
        headers = {"ETag": f'"{found.tag}"', "Cache-Control": "private, max-age=60"}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(found.content, media_type=thumbnails.MEDIA_TYPE, headers=headers)

    @app.get("/items/{id:any}", response_model=m.FullItemAnswer, **describe.item())
    async def item(id: str = ItemId) -> Response:
        """An item and its code."""
        found, code = await service.item(id)
        return _json({**item_fields(found), "code": code})

    @app.patch("/items/{id:any}", response_model=m.AddAnswer, **describe.change())
    async def change(request: Request, id: str = ItemId) -> Response:
        """Change an item: its text, its picture or its metadata; the rest stays."""
        asked = await read_json(request, m.ChangeRequest)
        return _json(added_fields(await service.change(id, asked)))

    @app.delete("/items/{id:any}", response_model=m.RemoveAnswer, **describe.remove())
    async def remove(id: str = ItemId) -> Response:
        """Remove an item; it can't be found when this answers."""
        return _json({"removed": await service.remove(id)})

    @app.post("/compact", response_model=m.CompactAnswer, **describe.compact())
    async def compact(request: Request) -> Response:
        """Make one segment of all, and let go of what was removed: searches are quicker after it."""
        await read_json(request, m.CompactRequest)  # which pages of other sites can't send
        return _json(asdict(await service.compact()))


def _add_facts(app: FastAPI, service: Service) -> None:
    @app.get("/about", response_model=m.AboutAnswer, **describe.plain("facts"))
    async def about() -> Response:
        """What is served."""
        index = service.index
        fields = {
            **await service.counts(),
            "model": index.model.fingerprint,
            "levels": index.coding.sizes,
            "modality_first": index.coding.told,
            "read_only": service.settings.read_only,
            "made_by": f"genius {__version__}",
        }
        return _json(fields)

    @app.get("/health", response_model=m.HealthAnswer, **describe.plain("facts"))
    async def health() -> Response:
        """Whether the service works; needs no token."""
        if not service.alive:
            raise busy("nobody works on searches any more: start the service again")
        return _json({"status": "ok"})

    @app.get("/metrics", **describe.metrics())
    async def metrics() -> Response:
        """Counters in Prometheus's text."""
        written = service.metrics.written(len(service.index), service.index.version)
        return Response(written, media_type=MEDIA_TYPE)
