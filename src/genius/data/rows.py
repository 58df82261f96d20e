"""Rows of a table (JSONL, CSV, Parquet) as items: which column is what, and what a safe path is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import orjson

from genius.data.records import ImageBytes, ImageFile, ImageSource, Item, Scalar
from genius.errors import InputError

ID_NAMES = ("id", "_id", "did", "key")
TEXT_NAMES = ("text", "txt", "caption", "description", "title")
IMAGE_NAMES = ("image", "img_path", "image_path", "file_name", "filename", "path", "file")

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


@lru_cache(maxsize=256)
def columns_of(names: tuple[str, ...]) -> tuple[str | None, str | None, str | None]:
    """Which of a row's column names hold the id, the text and the image: the first known one of each."""
    present = set(names)

    def first(known: tuple[str, ...]) -> str | None:
        return next((name for name in known if name in present), None)

    return first(ID_NAMES), first(TEXT_NAMES), first(IMAGE_NAMES)


def item_of(row: Mapping[str, Any], root: str, fallback_id: str) -> Item:
    """The item that a row describes.

    Columns that are neither id, text nor image are metadata; so is what a column `metadata` holds.
    Without an id the image's path is the id, else `fallback_id`. Raises InputError without a place.
    """
    id_column, text_column, image_column = columns_of(tuple(row))
    if text_column is None and image_column is None:
        raise InputError(
            f"no column for a text or an image among {', '.join(map(repr, row)) or 'none'}: "
            f"name them {TEXT_NAMES[0]!r} and {IMAGE_NAMES[0]!r}"
        )
    text = _text(row, text_column)
    image = image_of(row[image_column], root) if image_column is not None else None
    identifier = _id(row, id_column)
    if identifier is None:
        identifier = image.path if isinstance(image, ImageFile) else fallback_id
    named = (id_column, text_column, image_column, "metadata")
    metadata = scalars((key, value) for key, value in row.items() if key not in named)
    metadata |= _inner_metadata(row.get("metadata"))
    return Item(identifier, text, image, metadata)


def _text(row: Mapping[str, Any], column: str | None) -> str | None:
    value = row[column] if column is not None else None
    if value is not None and not isinstance(value, str):
        raise InputError(f"field {column!r} should be text, but is a {type(value).__name__}")
    return value or None


def _id(row: Mapping[str, Any], column: str | None) -> str | None:
    value = row[column] if column is not None else None
    if value is None or value == "":
        if column is not None:
            raise InputError(f"field {column!r} is empty: every item needs an id")
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(
            f"field {column!r} should be text or a whole number, but is a {type(value).__name__}"
        )
    return str(value)


def image_of(value: Any, root: str) -> ImageSource | None:
    """The picture that a field names: a path, bytes, or Hugging Face's `{bytes, path}`; None if empty."""
    if value is None or value in ("", b""):
        return None
    if isinstance(value, str):
        return ImageFile(root, safe_path(value))
    if isinstance(value, bytes):
        return ImageBytes(value)
    if isinstance(value, Mapping) and value.keys() <= {"bytes", "path"}:
        content, path = value.get("bytes"), value.get("path")
        return ImageBytes(content, path or "(bytes)") if content else image_of(path, root)
    raise InputError(f"an image should be a path, but is a {type(value).__name__}")


def safe_path(path: str) -> str:
    """A path that stays below its root, with forward slashes and no detours.

    Raises InputError for an absolute path, one that climbs out, or the address of a web page.
    """
    if path[0] not in "/." and "\\" not in path and ":" not in path and "/." not in path and "//" not in path:
        if "\0" in path:
            raise InputError(f"path {path!r} holds a zero byte")
        return path  # the usual case, quickly
    if _URL.match(path):
        raise InputError(
            f"image {path!r} is an address: nothing is fetched, so download it and give its path"
        )
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    if path.startswith(("/", "\\")) or _DRIVE.match(path) or ".." in parts or "\0" in path or not parts:
        raise InputError(f"path {path!r} leaves the folder: give paths below it, or name another root")
    return "/".join(parts)


def scalars(pairs: Iterable[tuple[str, Any]]) -> dict[str, Scalar]:
    """Metadata from a row's other fields: scalars as they are, lists and objects as their JSON text."""
    return {
        key: value
        if isinstance(value, str | int | float | bool | None)
        else orjson.dumps(value, default=str).decode()
        for key, value in pairs
    }


def _inner_metadata(value: Any) -> dict[str, Scalar]:
    if value is None or value == "":
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"field 'metadata' should be an object, but is a {type(value).__name__}")
    return scalars(value.items())
