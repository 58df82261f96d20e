"""From what an index returns to the JSON fields of answers; `schemas` describes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from genius.data.records import Item
from genius.errors import InputError, ItemError
from genius.index.facets import Facet
from genius.index.hits import Hits, hits_to_dict, item_to_dict
from genius.index.ingest import Added
from genius.serve.atlas import LabelledCell, format_prefix
from genius.serve.errors import ApiError


def search_fields(hits: Hits, model: str, *, explain: bool) -> dict[str, Any]:
    """The hits of a search by the model with this fingerprint."""
    return {**hits_to_dict(hits, explain=explain), "model": model}


def cell_fields(labelled: LabelledCell, num_levels: int) -> dict[str, Any]:
    """A cell with its children."""
    cell = labelled.cell
    return {
        "prefix": format_prefix(cell.prefix),
        "depth": len(cell.prefix),
        "levels": num_levels,
        "count": cell.count,
        "label": labelled.label,
        "items": [item_to_dict(item) for item in cell.items],
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
        "items": [item_to_dict(item) for item in child.cell.items],
    }


def page_fields(page: Sequence[tuple[int, Item]], limit: int) -> dict[str, Any]:
    """A page of items with their catalogue keys, and the key after which the next page begins."""
    last = page[-1][0] if len(page) == limit else None
    return {"items": [item_to_dict(item) for _, item in page], "next": last}


def facets_fields(facets: Sequence[Facet]) -> dict[str, Any]:
    """Facets with their ranges and values."""
    return {
        "facets": [
            {**vars(facet), "values": [{"value": value, "count": count} for value, count in facet.values]}
            for facet in facets
        ]
    }


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
