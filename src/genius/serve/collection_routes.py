"""The routes on the collection as a whole; all of them only read."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import FastAPI, Path, Query
from fastapi.responses import Response

from genius.collection.albums import MAX_ALBUMS, album_to_dict, albums_to_dict
from genius.collection.duplicates import Level, duplicates_to_dict, links_to_dict
from genius.collection.outliers import outliers_to_dict
from genius.collection.samples import SampleKind, sample_to_dict
from genius.index.hits import item_to_dict
from genius.index.query import MAX_ID_LENGTH
from genius.serve import collection_schemas as schemas
from genius.serve import openapi
from genius.serve.overview import Overview

MAX_PAGE = 200
MAX_SHOWN = 1000
DuplicateLevel = Query(None, description="`same` by default, and `near` if there is a similarity.")
KindOfSample = Query("spread", description="What kind of sample.")
AlbumCount = Query(30, ge=1, le=MAX_ALBUMS, description="The number of albums in all.")


def _json(fields: Any) -> Response:
    return Response(orjson.dumps(fields), media_type="application/json")


def add_collection_routes(app: FastAPI, overview: Overview) -> None:
    """Add the routes to the application."""
    _add_album_routes(app, overview)

    @app.get("/duplicates", response_model=schemas.DuplicatesAnswer, **openapi.plain("collection"))
    async def duplicates(
        level: Level | None = DuplicateLevel,
        similarity: float | None = Query(None, ge=0, le=1, description="The least cosine of near ones."),
        limit: int = Query(100, ge=0, le=MAX_SHOWN, description="The number of groups."),
        links: bool = Query(False, description="Whether to list all links that were found."),
    ) -> Response:
        """Find what the collection holds twice: equal contents, copies of an image, near shots."""
        result = await overview.duplicates(level, similarity)
        return _json(
            {
                **duplicates_to_dict(result, most=limit),
                "links": links_to_dict(result.links) if links else None,
            }
        )

    @app.get("/outliers", response_model=schemas.OutliersAnswer, **openapi.plain("collection"))
    async def outliers(
        n: int = Query(50, ge=1, le=MAX_SHOWN, description="The number of items, at most."),
    ) -> Response:
        """List odd items: far from all others, with a text that does not fit, or with a broken image."""
        return _json(outliers_to_dict(await overview.outliers(n)))

    @app.get("/sample", response_model=schemas.SampleAnswer, **openapi.plain("collection"))
    async def sample(
        n: int = Query(100, ge=1, le=MAX_SHOWN, description="The number of items."),
        kind: SampleKind = KindOfSample,
        seed: int = Query(0, ge=0, le=1 << 31, description="Another seed gives another sample."),
    ) -> Response:
        """Choose items that stand for all: spread out, typical, or from every cell of codes."""
        return _json(sample_to_dict(await overview.sample(n, kind, seed), kind, seed))


def _add_album_routes(app: FastAPI, overview: Overview) -> None:
    @app.get("/albums", response_model=schemas.AlbumsAnswer, **openapi.plain("collection"))
    async def albums(
        n: int = AlbumCount,
        ids: bool = Query(False, description="Whether to list the ids of all items."),
    ) -> Response:
        """Put all items into albums of what belongs together, each with a name."""
        return _json(albums_to_dict(await overview.albums(n), ids=ids))

    @app.get("/albums/{id:any}", response_model=schemas.AlbumItemsAnswer, **openapi.album())
    async def album(
        id: str = Path(
            description="An album's id; a slash in it is written %2F.", min_length=1, max_length=MAX_ID_LENGTH
        ),
        n: int = AlbumCount,
        within: str | None = Query(
            None, max_length=MAX_ID_LENGTH, description="The id of the album that it is within, if any."
        ),
        start: int = Query(0, ge=0, le=1 << 31, description="The first item to include."),
        limit: int = Query(48, ge=0, le=MAX_PAGE, description="The number of items."),
    ) -> Response:
        """Get an album with some of its items."""
        known, items = await overview.album(id, n, within, start, limit)
        return _json({**album_to_dict(known, ids=False), "items": [item_to_dict(item) for item in items]})
