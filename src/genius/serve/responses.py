"""From what an index gives to the fields of answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from genius.data.records import Item
from genius.index.hits import Hit
from genius.index.ingest import Added
from genius.serve.atlas import LabelledCell, written
from genius.serve.errors import Refusal


def item_fields(item: Item) -> dict[str, Any]:
    """An item, without where its picture is on this machine."""
    return {
        "id": item.id,
        "modality": item.modality.value,
        "text": item.text,
        "has_image": item.image is not None,
        "metadata": dict(item.metadata),
    }


def hit_fields(hit: Hit, *, explain: bool) -> dict[str, Any]:
    """A hit, if it is wanted with the path that led to it."""
    fields = {
        "rank": hit.rank,
        "score": hit.score,
        "cosine": hit.cosine,
        "item": item_fields(hit.item),
        "code": hit.code,
    }
    if explain:
        fields |= {"log_probabilities": hit.log_probabilities, "below": hit.below}
    return fields


def cell_fields(found: LabelledCell, levels: int) -> dict[str, Any]:
    """A cell with its children."""
    cell = found.cell
    return {
        "prefix": written(cell.prefix),
        "depth": len(cell.prefix),
        "levels": levels,
        "count": cell.count,
        "label": found.label,
        "items": [item_fields(item) for item in cell.items],
        "children": [_child_fields(child) for child in found.children],
        "children_total": len(cell.children),
    }


def _child_fields(child: LabelledCell) -> dict[str, Any]:
    prefix = child.cell.prefix
    return {
        "code": prefix[-1],
        "prefix": written(prefix),
        "count": child.cell.count,
        "label": child.label,
        "items": [item_fields(item) for item in child.cell.items],
    }


def page_fields(rows: Sequence[tuple[int, Item]], most: int) -> dict[str, Any]:
    """Some items, and where the next ones begin."""
    last = rows[-1][0] if len(rows) == most else None
    return {"items": [item_fields(item) for _, item in rows], "next": last}


def added_fields(report: Added) -> dict[str, Any]:
    """What became of items."""
    return {
        "added": report.added,
        "replaced": report.replaced,
        "known": report.known,
        "failed": report.failures.count,
        "failures": [
            {"id": getattr(error, "id", ""), "message": getattr(error, "why", error.reason)}
            for error in report.failures.first
        ],
    }


def nothing_added(report: Added) -> Refusal:
    """What is answered where all items failed: an error that says why, and the report."""
    first, more = report.failures.first[0], report.failures.count - 1
    said = f"nothing could be added: {first.reason}" + (f" (and {more} more)" if more else "")
    return Refusal(400, said, more=added_fields(report))
