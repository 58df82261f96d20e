"""The rows of M-BEIR's files: candidates, and what queries share with them."""

from __future__ import annotations

from typing import Any

from genius.data.records import ImageFile, Item, Modality
from genius.data.rows import safe_path
from genius.errors import InputError


def candidate(row: dict[str, Any], root: str) -> Item:
    """The item of a candidate row."""
    did = identifier(row, "did")
    text, image = content(row, "txt", "img_path", "modality", root)
    source = row.get("src_content")
    return Item(did, text, image, {"src_content": source} if source else {})


def identifier(row: dict[str, Any], field: str) -> str:
    """The id in a field."""
    value = row.get(field)
    if not isinstance(value, str) or not value:
        raise InputError(f"field {field!r} should be an id, but is {value!r}")
    return value


def content(
    row: dict[str, Any], text: str, image: str, modality: str, root: str
) -> tuple[str | None, ImageFile | None]:
    """Text and picture of a row. What is there decides; the declared modality only has to be a known one."""
    if modality in row:
        Modality.parse(row[modality])
    for field in (text, image):
        if not isinstance(row.get(field), str | None):
            raise InputError(f"field {field!r} should be text or null, but is {row[field]!r}")
    path = row.get(image)
    return row.get(text) or None, ImageFile(root, safe_path(path)) if path else None


def candidate_ids(row: dict[str, Any], field: str) -> tuple[str, ...]:
    """A list of ids, written plainly (as the files do) or as objects with a `did` (as the data card says)."""
    value = row.get(field) or []
    ids = []
    for entry in value if isinstance(value, list) else [value]:
        did = entry.get("did") if isinstance(entry, dict) else entry
        if not isinstance(did, str) or not did or not isinstance(value, list):
            raise InputError(f"field {field!r} should be a list of ids, but is {value!r}")
        ids.append(did)
    return tuple(ids)
