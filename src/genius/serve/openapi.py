"""What the OpenAPI description says beside the schemas: examples, request bodies, and each route's errors."""

from __future__ import annotations

from typing import Any

from fastapi.responses import Response
from pydantic import BaseModel

from genius.serve.answer_schemas import ErrorAnswer
from genius.serve.schemas import AddRequest, ChangeRequest, CompactRequest, SearchRequest

Responses = dict[int | str, dict[str, Any]]

ABOUT = (
    "One search over images, texts and both together. Every error is an object with `kind` and `message` "
    "under `error`; after a 503 try again as `Retry-After` says."
)

_ERRORS = {
    400: "The request is wrong; the message says what.",
    401: "The token is missing or wrong.",
    403: "The service is read-only, or does not answer to this host name.",
    404: "It does not exist.",
    408: "The request came too slowly.",
    413: "The request is too large.",
    415: "The body has the wrong media type.",
    422: "A field is wrong; the message says which.",
    503: "The service is overloaded, or this takes too long.",
    507: "The disk is full, or may not be written to.",
}
_COMMON_ERRORS = (400, 401, 403, 408, 413, 422, 503)

_SEARCH_EXAMPLES = {
    "by text": {"value": {"text": "a dog on the beach", "want": "image", "k": 5}},
    "with a filter": {"value": {"text": "running shoes", "filter": {"price": {"$lt": 50}}}},
    "more and less": {
        "value": {"text": "sunset", "plus": [{"text": "dog", "weight": 2}], "minus": [{"text": "people"}]}
    },
    "only what matches": {"value": {"text": "an old aeroplane", "at_least": "likely"}},
    "more like this": {"value": {"near": "42"}},
    "the next page": {"value": {"text": "running shoes", "k": 24, "offset": 24}},
    "without a query": {"value": {"filter": {"price": {"$lt": 50}}, "sort": ["price"]}},
}
_ADD_EXAMPLE = {"items": [{"id": "42", "text": "A red shoe.", "metadata": {"price": 30}}]}
_FAILURE = {"id": "43", "message": "the picture is none of JPEG, PNG"}
_ADDED = {"added": 1, "replaced": 0, "known": 0, "failed": 1, "failures": [_FAILURE]}
_CHANGED = {"added": 0, "replaced": 1, "known": 0, "failed": 0, "failures": []}
_ITEM = {"id": "42", "modality": "text", "text": "A red shoe.", "has_image": False, "metadata": {"price": 30}}
_HIT = {"rank": 1, "score": 0.71, "cosine": 0.68, "confidence": 0.97, "item": _ITEM, "code": [1, 17, 3]}
_HITS = {
    "hits": [_HIT],
    "notes": [],
    "mode": "safe",
    "decoder": "geometry",
    "num_candidates": 3,
    "total": None,
    "nearest": None,
    "partial": False,
    "missing_shards": [],
    "model": "5f3a",
}
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
_PRICE = {"key": "price", "kind": "number", "count": 9, "minimum": 20, "maximum": 90.5, "values": []}
_BRAND = {"key": "brand", "kind": "value", "count": 8, "minimum": None, "maximum": None}
_FACETS = {"facets": [_PRICE, {**_BRAND, "values": [{"value": "acme", "count": 7}]}]}


def search() -> dict[str, Any]:
    """POST /search, which takes JSON or a form."""
    schema = _without_references(SearchRequest.model_json_schema())
    file = {"type": "string", "format": "binary"}
    files = {"type": "array", "items": file}
    form = {**schema, "properties": {**schema["properties"], "image": file}}
    form["properties"] |= {"plus_image": files, "minus_image": files}
    form["properties"]["filter"] = {"type": "string", "description": "As JSON."}
    content = {
        "application/json": {"schema": schema, "examples": _SEARCH_EXAMPLES},
        "multipart/form-data": {"schema": form},
    }
    return _route("search", {**_example(_HITS), **_errors(415)}, content)


def facets() -> dict[str, Any]:
    """GET /facets."""
    return _route("search", {**_example(_FACETS), **_errors()})


def codes(*, root: bool) -> dict[str, Any]:
    """GET /codes, with a prefix or without."""
    route = _route("search", {**_example(_CELL), **_errors(404)})
    return {**route, "operation_id": "root" if root else "cell"}


def add() -> dict[str, Any]:
    """POST /items."""
    schema = AddRequest.model_json_schema(ref_template="#/components/schemas/{model}")
    schema["properties"]["items"]["items"] = schema.pop("$defs")["NewItem"]
    content = {"application/json": {"schema": schema, "example": _ADD_EXAMPLE}}
    return _route("items", {**_example(_ADDED), **_errors(415, 507)}, content)


def change() -> dict[str, Any]:
    """PATCH /items/{id}."""
    content = _json_content(ChangeRequest, {"metadata": {"price": 25}})
    return _route("items", {**_example(_CHANGED), **_errors(404, 415, 507)}, content)


def item() -> dict[str, Any]:
    """GET /items/{id}."""
    return _route("items", {**_example({**_ITEM, "code": [1, 17, 3]}), **_errors(404)})


def image() -> dict[str, Any]:
    """GET /items/{id}/image."""
    answer = {"description": "The image.", "content": {"image/webp": {}}}
    unchanged = {"description": "The image that you have is current."}
    route = _route("items", {200: answer, 304: unchanged, **_errors(404)})
    return {**route, "response_class": Response}


def remove() -> dict[str, Any]:
    """DELETE /items/{id}."""
    return _route("items", {**_example({"removed": 1}), **_errors(404, 507)})


def compact() -> dict[str, Any]:
    """POST /compact."""
    answer = {"before": 3, "after": 1, "dropped": 20}
    content = _json_content(CompactRequest, {})
    return _route("items", {**_example(answer), **_errors(415, 507)}, content)


def plain(tag: str) -> dict[str, Any]:
    """A route without a body and with the common errors."""
    return _route(tag, _errors())


def album() -> dict[str, Any]:
    """GET /albums/{id}."""
    return _route("collection", _errors(404))


def metrics() -> dict[str, Any]:
    """GET /metrics."""
    answer = {"description": "The metrics.", "content": {"text/plain": {}}}
    return {**_route("status", {200: answer, **_errors()}), "response_class": Response}


def _route(tag: str, responses: Responses, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """The arguments of a FastAPI route; `body` is the content of its request body by media type."""
    route: dict[str, Any] = {"tags": [tag], "responses": responses}
    if body is not None:
        route["openapi_extra"] = {"requestBody": {"required": True, "content": body}}
    return route


def _without_references(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with what it refers to written out."""
    definitions = schema.pop("$defs", {})

    def resolved(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return resolved(definitions[value["$ref"].rpartition("/")[2]])
            return {key: resolved(inner) for key, inner in value.items()}
        return [resolved(inner) for inner in value] if isinstance(value, list) else value

    return {key: resolved(value) for key, value in schema.items()}


def _json_content(schema: type[BaseModel], example: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema.model_json_schema(), "example": example}}


def _example(answer: dict[str, Any]) -> Responses:
    return {200: {"description": "Done.", "content": {"application/json": {"example": answer}}}}


def _errors(*more: int) -> Responses:
    return {
        status: {"model": ErrorAnswer, "description": _ERRORS[status]}
        for status in sorted({*_COMMON_ERRORS, *more})
    }
