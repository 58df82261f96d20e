"""The ASGI application: the routes of the service and their error handling."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
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
from genius.index.hits import item_to_dict
from genius.index.index import Index
from genius.index.query import MAX_ID_LENGTH
from genius.serve import answer_schemas, openapi, responses, schemas, thumbnails
from genius.serve.collection_routes import add_collection_routes
from genius.serve.config import Settings
from genius.serve.error_page import render_error
from genius.serve.errors import ApiError, api_error, busy_error, internal_error
from genius.serve.metrics import MEDIA_TYPE, Metrics
from genius.serve.middleware import GuardMiddleware
from genius.serve.requests import read_json, read_search, validation_error
from genius.serve.service import Service
from genius.serve.static import add_pages

log = logging.getLogger(__name__)

MAX_CHILDREN = 200
MAX_SAMPLES = 24
MAX_PAGE = 200
ItemId = Path(
    description="An item's id; a slash in it is written %2F.", min_length=1, max_length=MAX_ID_LENGTH
)


class _AnyTextConvertor(PathConvertor):
    """A path parameter that may hold slashes and line breaks."""

    regex = r"[\s\S]*"


register_url_convertor("any", _AnyTextConvertor())


def create_app(index: Index, settings: Settings, on_stop: Callable[[], object] = lambda: None) -> ASGIApp:
    """The application for an open index, which it closes when it is stopped, after calling `on_stop`."""
    metrics = Metrics()
    service = Service(index, settings, metrics)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(on_stop)
        await asyncio.to_thread(service.close)
        index.close()

    app = FastAPI(
        title="genius",
        version=__version__,
        description=openapi.ABOUT,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        # We have metrics of our own, and no environment variable should make the service send anything.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    _add_error_handlers(app)
    _add_search_routes(app, service)
    _add_item_routes(app, service)
    add_collection_routes(app, service.overview)
    _add_status_routes(app, service)
    add_pages(app)
    return GuardMiddleware(app, settings, metrics)


def _json(fields: Any) -> Response:
    return Response(orjson.dumps(fields), media_type="application/json")


def _error(request: Request, error: ApiError) -> Response:
    body, media_type = render_error(error, request.headers.get("accept", ""))
    return Response(body, error.status, {**error.headers, "Vary": "Accept"}, media_type=media_type)


def _add_error_handlers(app: FastAPI) -> None:
    """Give all errors the same form."""

    @app.exception_handler(ApiError)
    async def on_api_error(request: Request, error: ApiError) -> Response:
        return _error(request, error)

    @app.exception_handler(GeniusError)
    async def on_genius_error(request: Request, error: GeniusError) -> Response:
        if not isinstance(error, InputError):
            log.error("%s %s: %s", request.method, request.url.path, error)
        return _error(request, api_error(error))

    @app.exception_handler(HTTPException)
    async def on_http_exception(request: Request, error: HTTPException) -> Response:
        nowhere = "there is nothing at this address: /openapi.json lists what there is"
        message = nowhere if error.status_code == 404 else str(error.detail)
        return _error(request, ApiError(error.status_code, message, headers=error.headers))

    @app.exception_handler(Exception)
    async def on_exception(request: Request, error: Exception) -> Response:
        return _error(request, internal_error())  # the middleware logs it

    @app.exception_handler(RequestValidationError)
    async def on_validation_error(request: Request, error: RequestValidationError) -> Response:
        return _error(request, validation_error(error.errors()))


def _add_search_routes(app: FastAPI, service: Service) -> None:
    index = service.index

    @app.post("/search", response_model=answer_schemas.SearchAnswer, **openapi.search())
    async def search(request: Request) -> Response:
        """Find the items that answer a text, an image or both, best first."""
        wanted, image = await read_search(request)
        hits = await service.search(wanted, image)
        return _json(responses.search_fields(hits, index.model.fingerprint, explain=wanted.explain))

    @app.get("/facets", response_model=answer_schemas.FacetsAnswer, **openapi.facets())
    async def facets() -> Response:
        """List the keys of the items' metadata with their ranges or values: what a filter can ask for."""
        return _json(responses.facets_fields(await service.facets()))

    @app.get("/codes", response_model=answer_schemas.CellAnswer, **openapi.codes(root=True))
    @app.get("/codes/{prefix:path}", response_model=answer_schemas.CellAnswer, **openapi.codes(root=False))
    async def codes(
        prefix: str = "",
        start: int = Query(0, ge=0, le=1 << 31, description="The first child to include."),
        children: int = Query(48, ge=0, le=MAX_CHILDREN, description="The number of children."),
        samples: int = Query(6, ge=0, le=MAX_SAMPLES, description="The number of items of the cell."),
        child_samples: int | None = Query(
            None, ge=0, le=MAX_SAMPLES, description="The number of items of each child; by default `samples`."
        ),
    ) -> Response:
        """Show the cell under a prefix of codes: how many items, some of them, a label, and its children."""
        each = samples if child_samples is None else child_samples
        cell = await service.cell(prefix, start, children, samples, each)
        return _json(responses.cell_fields(cell, len(index.format.sizes)))


def _add_item_routes(app: FastAPI, service: Service) -> None:
    @app.post("/items", response_model=answer_schemas.AddAnswer, **openapi.add())
    async def add(request: Request) -> Response:
        """Add items; one whose id exists replaces the item that has it. Searches find them at once."""
        new = await read_json(request, schemas.AddRequest)
        report = await service.add(new.items, strict=new.strict)
        if report.failures.count == len(new.items):
            raise responses.nothing_added(report)
        return _json(responses.added_fields(report))

    @app.get("/items", response_model=answer_schemas.PageAnswer, **openapi.plain("items"))
    async def items(
        after: int = Query(0, ge=0, le=1 << 62, description="0, or `next` of the page before."),
        limit: int = Query(100, ge=1, le=MAX_PAGE, description="The number of items."),
    ) -> Response:
        """List all items, page by page; one that is replaced meanwhile comes again, at the end."""
        return _json(responses.page_fields(await service.page(after, limit), limit))

    @app.get("/items/{id:any}/image", **openapi.image())
    async def image(
        request: Request,
        id: str = ItemId,
        size: int = Query(384, ge=1, le=thumbnails.SIZES[-1], description="Its longer side, about."),
    ) -> Response:
        """Get the image of an item, scaled down, as WebP."""
        if not request.scope.get("raw_path", b"/image").endswith(b"/image"):
            return await item(f"{id}/image")  # the slash was written %2F: it belongs to the id
        thumbnail = await service.thumbnail(id, size)
        headers = {"ETag": f'"{thumbnail.etag}"', "Cache-Control": "private, max-age=60"}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(thumbnail.content, media_type=thumbnails.MEDIA_TYPE, headers=headers)

    @app.get("/items/{id:any}", response_model=answer_schemas.FullItemAnswer, **openapi.item())
    async def item(id: str = ItemId) -> Response:
        """Get an item and its code."""
        known, code = await service.item(id)
        fields = {**item_to_dict(known), "code": code}
        if service.settings.paths:
            fields["path"] = None if known.image_path is None else str(known.image_path)
        return _json(fields)

    @app.patch("/items/{id:any}", response_model=answer_schemas.AddAnswer, **openapi.change())
    async def change(request: Request, id: str = ItemId) -> Response:
        """Change the text, the image or metadata of an item; what is not given stays."""
        changes = await read_json(request, schemas.ChangeRequest)
        return _json(responses.added_fields(await service.change(id, changes)))

    @app.delete("/items/{id:any}", response_model=answer_schemas.RemoveAnswer, **openapi.remove())
    async def remove(id: str = ItemId) -> Response:
        """Remove an item; no search finds it any more."""
        return _json({"removed": await service.remove(id)})

    @app.post("/compact", response_model=answer_schemas.CompactAnswer, **openapi.compact())
    async def compact(request: Request) -> Response:
        """Merge all segments and purge removed items, which makes searches faster."""
        await read_json(request, schemas.CompactRequest)  # pages of other sites can't send JSON
        return _json(asdict(await service.compact()))


def _add_status_routes(app: FastAPI, service: Service) -> None:
    @app.get("/about", response_model=answer_schemas.AboutAnswer, **openapi.plain("status"))
    async def about() -> Response:
        """Describe the index that is served."""
        return _json(await service.about())

    @app.get("/health", response_model=answer_schemas.HealthAnswer, **openapi.plain("status"))
    async def health() -> Response:
        """Tell whether the service works; needs no token."""
        if not service.alive:
            raise busy_error("nobody works on searches any more: start the service again")
        return _json({"status": "ok"})

    app.add_api_route("/health", health, methods=["HEAD"], include_in_schema=False)

    @app.get("/metrics", **openapi.metrics())
    async def metrics() -> Response:
        """Get metrics in Prometheus's text format."""
        text = service.metrics.to_text(len(service.index), service.index.version)
        return Response(text, media_type=MEDIA_TYPE)
