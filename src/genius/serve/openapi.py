"""The words of the service's OpenAPI description: examples, bodies, and how each request may be refused."""

from __future__ import annotations

from typing import Any

from genius.serve.schemas import AddRequest, ChangeRequest, CompactRequest, ErrorAnswer, SearchRequest

ABOUT = (
    "One search over pictures, texts and both together. Every error is an object with `kind` and `message` "
    "under `error`; after a 503 try again as `Retry-After` says."
)

_MEANINGS = {
    400: "Something that was sent is wrong; the message says what.",
    401: "The token is missing or wrong.",
    403: "The service only reads, or does not answer to this host name.",
    404: "There is no such thing.",
    408: "The request came too slowly.",
    413: "The request is too large.",
    415: "The body is of another type than it should be.",
    422: "A field is wrong; the message says which.",
    503: "Too much is asked at the same time, or it takes too long.",
    507: "The disk is full, or may not be written to.",
}
_ALWAYS = (400, 401, 403, 408, 413, 422, 503)

_SEARCH_EXAMPLES = {
    "by text": {"value": {"text": "a dog on the beach", "want": "image", "k": 5}},
    "with a filter": {"value": {"text": "running shoes", "filter": {"price": {"$lt": 50}}}},
    "more like this": {"value": {"near": "42"}},
}
_ADD_EXAMPLE = {"items": [{"id": "42", "text": "A red shoe.", "metadata": {"price": 30}}]}
_FAILURE = {"id": "43", "message": "the picture is none of JPEG, PNG"}
_ITEM = {"id": "42", "modality": "text", "text": "A red shoe.", "has_image": False, "metadata": {"price": 30}}
_HIT = {
    "rank": 1,
    "score": 0.71,
    "cosine": 0.68,
    "item": _ITEM,
    "code": [1, 17, 3],
}
_FOUND = {"hits": [_HIT], "notes": [], "mode": "safe", "decoder": "geometry", "under": 3, "model": "5f3a"}
_CELL = {
    "prefix": "1-17",
    "depth": 2,
    "levels": 3,
    "count": 1,
    "label": "shoe, red",
    "items": [_ITEM],
    "children": [{"code": 3, "prefix": "1-17-3", "count": 1, "label": "shoe", "items": [_ITEM]}],
    "children_total": 1,
}


def search() -> dict[str, Any]:
    """Of POST /search, which takes JSON or a form."""
    schema = SearchRequest.model_json_schema()
    form = {**schema, "properties": {**schema["properties"], "image": {"type": "string", "format": "binary"}}}
    form["properties"]["filter"] = {"type": "string", "description": "As JSON."}
    body = {
        "required": True,
        "content": {
            "application/json": {"schema": schema, "examples": _SEARCH_EXAMPLES},
            "multipart/form-data": {"schema": form},
        },
    }
    return {
        "tags": ["search"],
        "responses": {**_example(_FOUND), **_refusals(415)},
        "openapi_extra": {"requestBody": body},
    }


def codes(*, root: bool) -> dict[str, Any]:
    """Of GET /codes, with a prefix or without."""
    name = "root" if root else "cell"
    return {
        "tags": ["search"],
        "operation_id": name,
        "responses": {**_example(_CELL), **_refusals(404)},
    }


def add() -> dict[str, Any]:
    """Of POST /items."""
    schema = AddRequest.model_json_schema(ref_template="#/components/schemas/{model}")
    inner = schema.pop("$defs")["NewItem"]
    schema["properties"]["items"]["items"] = inner
    content = {"application/json": {"schema": schema, "example": _ADD_EXAMPLE}}
    return {
        "tags": ["items"],
        "responses": {
            **_example({"added": 1, "replaced": 0, "known": 0, "failed": 1, "failures": [_FAILURE]}),
            **_refusals(415, 507),
        },
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
    }


def change() -> dict[str, Any]:
    """Of PATCH /items/{id}."""
    content = {
        "application/json": {
            "schema": ChangeRequest.model_json_schema(),
            "example": {"metadata": {"price": 25}},
        }
    }
    return {
        "tags": ["items"],
        "responses": {
            **_example({"added": 0, "replaced": 1, "known": 0, "failed": 0, "failures": []}),
            **_refusals(404, 415, 507),
        },
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
    }


def item() -> dict[str, Any]:
    """Of GET /items/{id}."""
    return {
        "tags": ["items"],
        "responses": {**_example({**_ITEM, "code": [1, 17, 3]}), **_refusals(404)},
    }


def picture() -> dict[str, Any]:
    """Of GET /items/{id}/image."""
    found = {"description": "The picture.", "content": {"image/webp": {}}}
    same = {"description": "The picture is the one that you have."}
    return {
        "tags": ["items"],
        "response_class": _nothing(),
        "responses": {200: found, 304: same, **_refusals(404)},
    }


def remove() -> dict[str, Any]:
    """Of DELETE /items/{id}."""
    return {"tags": ["items"], "responses": {**_example({"removed": 1}), **_refusals(404, 507)}}


def compact() -> dict[str, Any]:
    """Of POST /compact."""
    done = {"before": 3, "after": 1, "dropped": 20}
    content = {"application/json": {"schema": CompactRequest.model_json_schema(), "example": {}}}
    return {
        "tags": ["items"],
        "responses": {**_example(done), **_refusals(415, 507)},
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
    }


def plain(tag: str) -> dict[str, Any]:
    """Of what takes nothing."""
    return {"tags": [tag], "responses": _refusals()}


def metrics() -> dict[str, Any]:
    """Of GET /metrics."""
    found = {"description": "The counters.", "content": {"text/plain": {}}}
    return {"tags": ["facts"], "response_class": _nothing(), "responses": {200: found, **_refusals()}}


def _nothing() -> Any:
    from fastapi.responses import Response

    return Response


def _example(value: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    return {200: {"description": "Done.", "content": {"application/json": {"example": value}}}}


def _refusals(*more: int) -> dict[int | str, dict[str, Any]]:
    return {
        status: {"model": ErrorAnswer, "description": _MEANINGS[status]}
        for status in sorted({*_ALWAYS, *more})
    }
