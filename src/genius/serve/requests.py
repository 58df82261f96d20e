"""From the bodies of requests to what they ask for."""

from __future__ import annotations

from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.requests import Request

from genius.serve.config import MOST_EXCLUDED
from genius.serve.errors import Refusal
from genius.serve.schemas import SearchRequest

T = TypeVar("T", bound=BaseModel)

FORM = "multipart/form-data"
JSON = "application/json"
_LISTS = ("exclude",)


async def read_search(request: Request) -> tuple[SearchRequest, bytes | None]:
    """What a search asks for, from JSON or from a form, and its picture's bytes. Raises Refusal."""
    if _media_type(request) != FORM:
        asked = await read_json(request, SearchRequest)
        try:
            return asked, asked.picture()
        except ValueError as error:
            raise Refusal(422, f"image: {error}") from None
    fields, picture = await _form(request)
    if "filter" in fields:
        fields["filter"] = _json(fields["filter"].encode("utf-8", "surrogatepass"))
    if picture:
        fields["image"] = "uploaded"
    elif "image" in fields:
        raise Refusal(422, "image: in a form it is a file")
    return _valid(SearchRequest, fields), picture or None


async def _form(request: Request) -> tuple[dict[str, Any], bytes | None]:
    """The fields of a form, without empty ones, and its file."""
    fields: dict[str, Any] = {}
    picture: bytes | None = None
    async with request.form(max_files=1, max_fields=MOST_EXCLUDED + 20) as form:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                if name != "image":
                    raise Refusal(422, f"{name}: only the field image can be a file")
                picture = await value.read()
            elif value and name in _LISTS:
                fields.setdefault(name, []).append(value)
            elif value:
                fields[name] = value
    return fields, picture


async def read_json(request: Request, model: type[T]) -> T:
    """A JSON body as what it should be. Raises Refusal."""
    if _media_type(request) != JSON:
        raise Refusal(415, f"the body should be {JSON}" + (f" or {FORM}" if model is SearchRequest else ""))
    return _valid(model, _json(await request.body()))


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refusal(400, f"this is not JSON: {error}") from None


def _valid(model: type[T], fields: Any) -> T:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise Refusal(422, said(error.errors(include_url=False, include_input=False))) from None


def said(errors: Any) -> str:
    """The first of several faults, in a line: where it is, and what."""
    first = errors[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    what = str(first["msg"]).removeprefix("Value error, ")
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return (f"{where}: {what}" if where else what) + more
