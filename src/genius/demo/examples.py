"""Example searches for people to look at: a query of each kind, printed, and the pictures on one sheet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from genius.data import contact_sheet as sheet
from genius.data.contact_sheet import Tile, contact_sheet, tile_of
from genius.data.images import load
from genius.data.mbeir import Tree
from genius.data.records import Item, Query
from genius.data.tasks import Task
from genius.index.hits import Hit
from genius.index.index import Index

FOUND = 5


def show_examples(index: Index, tree: Tree, tasks: Sequence[Task], path: Path) -> None:
    """Search by the first test query of each task; a sheet with their pictures goes to `path`.

    Right answers are marked: the searches are not chosen for being good ones.
    """
    rows = []
    for task in tasks:
        query = next(iter(tree.queries("test", task)))
        # Its negatives are left out: whoever wants a heart in purple knows the red one.
        hits = index.search(query, want=task.target, k=FOUND, exclude=query.negatives)
        kind = f"{task.query.value} to {task.target.value}"
        typer.echo(f"{kind}: {_written(query)}")
        for hit in hits:
            typer.echo(f"  {hit.rank}. {_mark(hit, query):2}{_written(hit.item)}")
        tiles = [_asked(query), *(tile_of(hit.item, _caption(hit, query)) for hit in hits)]
        rows.append(contact_sheet(tiles, columns=1 + FOUND, title=kind))
    sheet.save(sheet.stacked(rows), path)


def _written(record: Item | Query) -> str:
    picture = record.image.name if record.image else ""
    return f"{record.text} ({picture})" if record.text and picture else record.text or picture


def _mark(hit: Hit, query: Query) -> str:
    return "✓" if hit.item.id in query.positives else ""


def _caption(hit: Hit, query: Query) -> str:
    text = hit.item.text if hit.item.image else ""
    return " ".join(part for part in (f"{hit.rank}.", "right:" if _mark(hit, query) else "", text) if part)


def _asked(query: Query) -> Tile:
    if query.image is None:
        return Tile(None, "asked", query.text or "")
    return Tile(load(query.image), f"asked: {query.text}" if query.text else "asked")
