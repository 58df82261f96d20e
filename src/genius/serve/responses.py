"""From what an index returns to the JSON fields of answers; `schemas` describes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from genius.data.records import Item
from genius.errors import InputError, ItemError
from genius.index.hits import Hit, Hits
from genius.index.ingest import Added
from genius.serve.atlas import LabelledCell, format_prefix
from genius.serve.errors import ApiError


def item_fields(item: Item) -> dict[str, Any]:
    """An item, without the path of its image on this machine."""
    return {
        "id": item.id,
        "modality": item.modality.value,
        "text": item.text,
        "has_image": item.image is not None,
        "metadata": dict(item.metadata),
    }


def search_fields(hits: Hits, model: str, *, explain: bool) -> dict[str, Any]:
    """The hits of a search by the model with this fingerprint."""
    return {
        "hits": [_hit_fields(hit, explain=explain) for hit in hits],
        "notes": hits.notes,
        "mode": hits.mode,
        "decoder": hits.decoder,
        "num_candidates": hits.under,
        "model": model,
    }


def _hit_fields(hit: Hit, *, explain: bool) -> dict[str, Any]:
    fields = {
        "rank": hit.rank,
        "score": hit.score,
        "cosine": hit.cosine,
        "item": item_fields(hit.item),
        "code": hit.code,
    }
    return {**fields, **path_fields(hit)} if explain else fields


def path_fields(hit: Hit) -> dict[str, Any]:
    """The path of codes that led to a hit; it is computed when it is first read."""
    return {"log_probabilities": hit.log_probabilities, "prefix_counts": hit.below}


def cell_fields(labelled: LabelledCell, num_levels: int) -> dict[str, Any]:
    """A cell with its children."""
    cell = labelled.cell
    return {
        "prefix": format_prefix(cell.prefix),
        "depth": len(cell.prefix),
        "levels": num_levels,
        "count": cell.count,
        "label": labelled.label,
        "items": [item_fields(item) for item in cell.items],
        "children": [_child_fields(child) for child in labelled.children],
        "children_total": len(cell.children),
    }


def _child_fields(child: LabelledCell) -> dict[str, Any]:
    prefix = child.cell.prefix
    return {
        "code": prefix[-1],
        "prefix": format_prefix(prefix),
        "count": child.cell.count,
        "label": child.label,
        "items": [item_fields(item) for item in child.cell.items],
    }


def page_fields(page: Sequence[tuple[int, Item]], limit: int) -> dict[str, Any]:
    """A page of items with their catalogue keys, and the key after which the next page begins."""
    last = page[-1][0] if len(page) == limit else None
    return {"items": [item_fields(item) for _, item in page], "next": last}


def added_fields(report: Added) -> dict[str, Any]:
    """How many items were added, and which failed."""
    return {
        "added": report.added,
        "replaced": report.replaced,
        "known": report.known,
        "failed": report.failures.count,
        "failures": [_failure_fields(error) for error in report.failures.first],
    }


def _failure_fields(error: InputError) -> dict[str, str]:
    if isinstance(error, ItemError):
        return {"id": error.id, "message": error.why}
    return {"id": "", "message": error.reason}


def nothing_added(report: Added) -> ApiError:
    """The error for a request whose items all failed: it says why, and includes the report."""
    first, more = report.failures.first[0], report.failures.count - 1
    message = f"nothing could be added: {first.reason}" + (f" (and {more} more)" if more else "")
    return ApiError(400, message, extra=added_fields(report))
