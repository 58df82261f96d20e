"""From the bodies of requests to their schemas."""

from __future__ import annotations

from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.requests import Request

from genius.index.query import MAX_EXCLUDED
from genius.serve.errors import ApiError
from genius.serve.schemas import SearchRequest

T = TypeVar("T", bound=BaseModel)

FORM = "multipart/form-data"
JSON = "application/json"
_LIST_FIELDS = ("exclude", "want", "only", "sort")


async def read_search(request: Request) -> tuple[SearchRequest, bytes | None]:
    """A search, from JSON or from a form, and the bytes of its image. Raises ApiError."""
    if _media_type(request) != FORM:
        search = await read_json(request, SearchRequest)
        try:
            return search, search.image_bytes()
        except ValueError as error:
            raise ApiError(422, f"image: {error}") from None
    fields, image = await _read_form(request)
    for name in {"filter", "vector"} & fields.keys():
        fields[name] = _parse_json(fields[name].encode("utf-8", "surrogatepass"))
    if image:
        fields["image"] = "uploaded"
    elif "image" in fields:
        raise ApiError(422, "image: in a form it is a file")
    return _validate(SearchRequest, fields), image or None


async def _read_form(request: Request) -> tuple[dict[str, Any], bytes | None]:
    """The fields of a form, without empty ones, and its file."""
    fields: dict[str, Any] = {}
    image: bytes | None = None
    async with request.form(max_files=1, max_fields=MAX_EXCLUDED + 20) as form:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                if name != "image":
                    raise ApiError(422, f"{name}: only the field image can be a file")
                image = await value.read()
            elif value and name in _LIST_FIELDS:
                fields.setdefault(name, []).append(value)
            elif value:
                fields[name] = value
    return fields, image


async def read_json(request: Request, schema: type[T]) -> T:
    """A JSON body, validated by a schema. Raises ApiError."""
    if _media_type(request) != JSON:
        raise ApiError(415, f"the body should be {JSON}" + (f" or {FORM}" if schema is SearchRequest else ""))
    return _validate(schema, _parse_json(await request.body()))


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _parse_json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ApiError(400, f"this is not JSON: {error}") from None


def _validate(schema: type[T], fields: Any) -> T:
    try:
        return schema.model_validate(fields)
    except ValidationError as error:
        raise validation_error(error.errors(include_url=False, include_input=False)) from None


def validation_error(errors: Any) -> ApiError:
    """The first of several validation errors in one line: which field, and what is wrong with it."""
    first = errors[0]
    field = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    problem = str(first["msg"]).removeprefix("Value error, ")
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return ApiError(422, (f"{field}: {problem}" if field else problem) + more)
