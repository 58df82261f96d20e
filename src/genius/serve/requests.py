"""From the bodies of requests to their schemas."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.requests import Request

from genius.data.records import MAX_PARTS
from genius.index.query import MAX_EXCLUDED
from genius.serve.errors import ApiError
from genius.serve.schemas import SearchRequest

T = TypeVar("T", bound=BaseModel)

FORM = "multipart/form-data"
JSON = "application/json"
_LIST_FIELDS = ("exclude", "want", "only", "sort", "plus_image_weight", "minus_image_weight")
_PART_FIELDS = ("plus", "minus")


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
        fields[name] = _parse_form_json(fields[name])
    if image:
        fields["image"] = "uploaded"
    elif "image" in fields:
        raise ApiError(422, "image: in a form it is a file")
    return _validate(SearchRequest, fields), image or None


async def _read_form(request: Request) -> tuple[dict[str, Any], bytes | None]:
    """The fields of a form, without empty ones, and its file; files of parts are among the fields, as JSON
    has them."""
    fields: dict[str, Any] = {}
    files: dict[str, list[bytes]] = {}
    async with request.form(max_files=1 + MAX_PARTS, max_fields=MAX_EXCLUDED + 100) as form:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                files.setdefault(name, []).append(await value.read())
            elif value and name in _PART_FIELDS:
                fields.setdefault(name, []).extend(_parse_parts(value))
            elif value and name in _LIST_FIELDS:
                fields.setdefault(name, []).append(value)
            elif value:
                fields[name] = value
    for name in _PART_FIELDS:
        weights = fields.pop(f"{name}_image_weight", [])
        if parts := _part_images(name, files.pop(f"{name}_image", []), weights):
            fields.setdefault(name, []).extend(parts)
    images = files.pop("image", [])
    if files or len(images) > 1:
        wrong = min(files, default="image")
        raise ApiError(422, f"{wrong}: one file can be called image, others plus_image and minus_image")
    return fields, images[0] if images else None


def _part_images(name: str, images: Sequence[bytes], weights: Sequence[str]) -> list[dict[str, Any]]:
    """The parts that files are; the first weights are theirs, in order."""
    if len(weights) > len(images):
        raise ApiError(422, f"{name}_image_weight: there are more weights than files")
    parts: list[dict[str, Any]] = [{"image": base64.b64encode(image).decode()} for image in images]
    for part, weight in zip(parts, weights, strict=False):
        part["weight"] = weight
    return parts


def _parse_parts(value: str) -> list[Any]:
    """Parts of a query from a form's field: JSON, one or several, or a text."""
    if not value.lstrip().startswith(("{", "[")):
        return [{"text": value}]
    parsed = _parse_form_json(value)
    return parsed if isinstance(parsed, list) else [parsed]


def _parse_form_json(value: str) -> Any:
    return _parse_json(value.encode("utf-8", "surrogatepass"))


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
