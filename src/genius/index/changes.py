"""Changes to items that are in an index: what is given changes, the rest stays.

An `Item` changes what it has: its text, its image, and the metadata it has values for. To change metadata
alone, or to take something away, a mapping says exactly what is meant: `{"id": "42", "metadata": {"price":
30}}`, `{"id": "42", "text": None}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genius.data.images import image_source
from genius.data.records import Item
from genius.errors import InputError

Change = Item | Mapping[str, Any]

FIELDS = ("id", "text", "image", "metadata")


def id_of(change: Change) -> str:
    """Whose change it is. Raises InputError for what is no change."""
    if isinstance(change, Item):
        return change.id
    if not isinstance(change, Mapping):
        raise InputError(f"an index takes items, and this is a {type(change).__name__}")
    id = change.get("id")
    if not isinstance(id, str) or not id:
        raise InputError(f"a change needs the id of an item, a text, and this has {id!r}")
    return id


def changed(old: Item, change: Change) -> Item:
    """The item after a change. Raises InputError for a change that can't be made."""
    if isinstance(change, Item):
        text, image = change.text or old.text, change.image or old.image
        return Item(old.id, text, image, {**old.metadata, **change.metadata})
    unknown = sorted(set(change) - set(FIELDS), key=str)
    if unknown:
        raise InputError(f"unknown field {unknown[0]!r}: a change has {', '.join(FIELDS)}")
    text = change.get("text", old.text)
    if text is not None and not isinstance(text, str):
        raise InputError(f"a text should be a text, and is a {type(text).__name__}")
    image = old.image
    if "image" in change:
        image = None if change["image"] is None else image_source(change["image"])
    metadata = change.get("metadata", {})
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InputError(f"metadata should be a mapping or None, and is a {type(metadata).__name__}")
    return Item(old.id, text, image, {} if metadata is None else {**old.metadata, **metadata})
