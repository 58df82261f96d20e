"""From a row of a table to the item that it describes, or to a change of one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from genius.data.columns import Columns, ContentColumns
from genius.data.records import ImageBytes, ImageFile, ImageSource, Item, Scalar
from genius.data.vectors import row_vectors
from genius.errors import InputError
from genius.paths import safe_path

Row = dict[str, Any]
"""Values by column name."""


def row_to_item(row: Mapping[str, Any], columns: Columns, root: str, fallback_id: str) -> Item:
    """The item that a row describes.

    Columns other than id, texts and image are metadata; so are the entries of a column `metadata`. Without an
    id the image's path is the id, else `fallback_id`. Raises InputError, without a place.
    """
    content = columns.locate(tuple(row))
    vector, vector_columns = row_vectors(row)
    if not content.texts and content.image is None and vector is None:
        columns.check_content(tuple(row))
    image = _image(row[content.image], root) if content.image is not None else None
    identifier = _id(row, content.id)
    if identifier is None:
        identifier = image.path if isinstance(image, ImageFile) else fallback_id
    if vector_columns:
        row = {name: value for name, value in row.items() if name not in vector_columns}
    return Item(identifier, _text(row, content.texts), image, _metadata(row, content), vector)


def row_to_change(row: Mapping[str, Any], columns: Columns, root: str) -> Row:
    """The change of an item that a row describes, as `Index.update` takes it."""
    content = columns.locate(tuple(row))
    columns.check_id(tuple(row))
    text = _text(row, content.texts)
    image = _image(row[content.image], root) if content.image is not None else None
    identifier = _id(row, content.id)
    if identifier is None:
        if not isinstance(image, ImageFile):
            raise InputError(f"field {content.image!r} names no image, and so no item")
        identifier, image = image.path, None
    given = {"text": text, "image": image, "metadata": _metadata(row, content) or None}
    return {"id": identifier, **{name: value for name, value in given.items() if value is not None}}


def _metadata(row: Mapping[str, Any], content: ContentColumns) -> dict[str, Scalar]:
    others = content.no_metadata
    metadata = scalars((key, value) for key, value in row.items() if key not in others)
    return metadata | _nested_metadata(row.get("metadata"))


def _text(row: Mapping[str, Any], columns: Sequence[str]) -> str | None:
    """The texts of some columns, on lines of their own."""
    for column in columns:
        if not isinstance(row[column], str | None):
            raise InputError(f"field {column!r} should be text, but is a {type(row[column]).__name__}")
    return "\n".join(row[column] for column in columns if row[column]) or None


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


def _image(value: Any, root: str) -> ImageSource | None:
    """The image that a field holds: a path, bytes, or Hugging Face's `{bytes, path}`; None if empty."""
    if value is None or value in ("", b""):
        return None
    if isinstance(value, str):
        return ImageFile(root, _path_below(root, value))
    if isinstance(value, bytes):
        return ImageBytes(value)
    if isinstance(value, Mapping) and value.keys() <= {"bytes", "path"}:
        content, path = value.get("bytes"), value.get("path")
        return ImageBytes(content, path or "(bytes)") if content else _image(path, root)
    raise InputError(f"an image should be a path, but is a {type(value).__name__}")


def _path_below(root: str, path: str) -> str:
    """An image's path relative to `root`; an absolute one must lie below it. Raises InputError."""
    if not path.startswith("/"):
        return safe_path(path)
    plain = Path(os.path.normpath(path))
    for folder in (Path(root).absolute(), Path(root).resolve()):
        if plain.is_relative_to(folder):
            return safe_path(plain.relative_to(folder).as_posix())
    raise InputError(f"path {path!r} is not below {root}: name another root (--root / allows every path)")


def _nested_metadata(value: Any) -> dict[str, Scalar]:
    if value is None or value == "":
        return {}
    if isinstance(value, str) and value.startswith("{"):  # where columns have types, as in Parquet
        with contextlib.suppress(orjson.JSONDecodeError):
            value = orjson.loads(value)
    if not isinstance(value, Mapping):
        raise InputError(f"field 'metadata' should be an object, but is a {type(value).__name__}")
    return scalars(value.items())


def scalars(pairs: Iterable[tuple[str, Any]]) -> dict[str, Scalar]:
    """Metadata from a row's other fields: scalars as they are, lists and objects as their JSON text."""
    return {
        key: value
        if isinstance(value, str | int | float | bool | None)
        else orjson.dumps(value, default=str).decode()
        for key, value in pairs
    }
