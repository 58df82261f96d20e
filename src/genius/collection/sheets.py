"""Contact sheets of what was found in a collection."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image

from genius.collection.albums import Albums
from genius.collection.drift import Drift, cell_name
from genius.collection.duplicates import Duplicates
from genius.collection.outliers import Outliers
from genius.data.contact_sheet import Tile, contact_sheet, stack, tile_of
from genius.data.records import Item
from genius.display import numbered, shortened

GROUPS = 40
"""How many groups a sheet shows."""
COLUMNS = 6
"""How many items of a group it shows."""
TITLE = 100
"""How many letters of a title fit."""


def duplicates_sheet(duplicates: Duplicates) -> Image.Image:
    """A line for each group, the largest first; the first item is the one to keep."""
    sheets = []
    for group in duplicates.groups[:GROUPS]:
        items = duplicates.by_worth(group)
        captions = [f"{'keep' if not place else 'also'}: {item.id}" for place, item in enumerate(items)]
        more = f", {len(items) - COLUMNS} more" if len(items) > COLUMNS else ""
        title = f"{group.level}, similarity {group.similarity:.3f}: {len(items)} items{more}"
        sheets.append(_line(items, captions, title))
    return stack(sheets)


def _line(items: Sequence[Item], captions: Sequence[str], title: str) -> Image.Image:
    tiles = [tile_of(item, caption) for item, caption in zip(items, captions, strict=True)]
    return contact_sheet(_filled(tiles[:COLUMNS]), columns=COLUMNS, title=title)


def _filled(tiles: list[Tile]) -> list[Tile]:
    """The tiles of a line, which is as wide as others: what is missing is blank."""
    blank = Image.new("RGB", (8, 8), "white")
    return [*tiles, *[Tile(blank, "")] * (COLUMNS - len(tiles))]


def albums_sheet(albums: Albums) -> Image.Image:
    """A line for each album: its name, its size, its cover."""
    sheets = []
    for number, album in enumerate(albums[:GROUPS], 1):
        captions = [item.text if item.text and item.image else item.id for item in album.covers]
        within = ", ".join(inner.label for inner in album.albums if inner.label)
        title = f"{album.label or f'Album {number}'}: {numbered(len(album), 'item')}" + (
            f" ({within})" if within else ""
        )
        sheets.append(_line(album.covers, captions, shortened(title, TITLE)))
    return stack(sheets)


def drift_sheet(drift: Drift) -> Image.Image:
    """A line for each cell that has drifted: its name, what became of it, and some of its items."""
    sheets = []
    for cell in drift.cells[:GROUPS]:
        captions = [item.text if item.text and item.image else item.id for item in cell.items]
        name = cell.label or f"Cell {cell_name(cell.prefix)}"
        title = f"{name} {cell.kind}: {cell.old:,} old, {cell.new:,} new items"
        sheets.append(_line(cell.items, captions, title[:TITLE]))
    return stack(sheets)


def outliers_sheet(outliers: Outliers) -> Image.Image:
    """The odd items, each with its reason."""
    shown = list(outliers)[: GROUPS * COLUMNS]
    return contact_sheet([tile_of(odd.item, odd.says) for odd in shown], columns=COLUMNS)


def sample_sheet(items: Sequence[Item]) -> Image.Image:
    """The items of a sample."""
    return contact_sheet([tile_of(item) for item in items[: GROUPS * COLUMNS]], columns=2 * COLUMNS)
