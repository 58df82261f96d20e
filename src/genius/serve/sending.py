"""Items and changes as they are sent to a service."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from genius.data.images import image_source
from genius.data.records import ImageSource, Item
from genius.errors import InputError
from genius.index.changes import Change
from genius.serve.settings import MEGABYTE, MOST_ITEMS

BODY = 16 * MEGABYTE
"""How many bytes of items are sent at a time, about."""


def in_base64(image: ImageSource) -> str:
    """A picture's bytes. Raises InputError if they can't be had."""
    return base64.b64encode(image.read()).decode()


def change_fields(change: Change) -> dict[str, Any]:
    """A change, without its id. Raises InputError for a picture that can't be had."""
    if isinstance(change, Item):
        fields: dict[str, Any] = {"text": change.text, "image": change.image, "metadata": change.metadata}
        fields = {name: value for name, value in fields.items() if value}
    else:
        fields = {name: value for name, value in change.items() if name != "id"}
    if fields.get("image") is not None:
        fields["image"] = in_base64(image_source(fields["image"]))
    if fields.get("metadata") is not None:
        fields["metadata"] = dict(fields["metadata"])
    return fields


def requests_of(
    items: Iterable[Item], fail: Callable[[str, InputError], None]
) -> Iterator[list[dict[str, Any]]]:
    """Items, in requests that are not too large; one whose picture can't be had goes to `fail`."""
    chunk: list[dict[str, Any]] = []
    size = 0
    for item in items:
        if not isinstance(item, Item):
            raise InputError(f"an index takes items, and this is a {type(item).__name__}")
        fields: dict[str, Any] = {"id": item.id, "text": item.text, "metadata": dict(item.metadata)}
        try:
            fields |= {} if item.image is None else {"image": in_base64(item.image)}
        except InputError as error:
            fail(item.id, error)
            continue
        bytes_of = len(fields.get("image", "")) + len(item.text or "")
        if chunk and (len(chunk) == MOST_ITEMS or size + bytes_of > BODY):
            yield chunk
            chunk, size = [], 0
        chunk.append(fields)
        size += bytes_of
    if chunk:
        yield chunk
