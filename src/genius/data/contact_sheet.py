"""Contact sheets: many pictures with their captions on one."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from genius import atomic
from genius.data.images import load
from genius.data.records import Item
from genius.errors import InputError

TILE = 144
GAP = 12
FONT_SIZE = 13
TITLE_SIZE = 18
LINES = 3
_LETTERS_A_LINE = 24  # at most; capitals are wider
_INK = "#1b1b1f"
_FAINT = "#f1f1f4"


@dataclass(frozen=True)
class Tile:
    """One place on a sheet: a picture, or a text where there is none, over a caption."""

    picture: Image.Image | None
    caption: str
    text: str = ""


def tile_of(item: Item, caption: str | None = None) -> Tile:
    """An item as a tile; a picture that can't be read is an empty one that says so."""
    caption = caption if caption is not None else (item.text if item.text and item.image else item.id)
    if item.image is None:
        return Tile(None, caption, item.text or "")
    try:
        return Tile(load(item.image), caption)
    except InputError as error:
        return Tile(None, caption, error.reason)


def contact_sheet(tiles: Iterable[Tile], *, columns: int = 6, title: str = "") -> Image.Image:
    """The tiles in rows on white, under a title if there is one."""
    placed = list(tiles)
    font = ImageFont.load_default(FONT_SIZE)
    line = FONT_SIZE + 4
    width, height = TILE + GAP, TILE + LINES * line + 2 * GAP
    rows = max(1, -(-len(placed) // columns))
    top = TITLE_SIZE + 2 * GAP if title else GAP
    sheet = Image.new("RGB", (columns * width + GAP, top + rows * height), "white")
    draw = ImageDraw.Draw(sheet)
    draw.text((GAP, GAP), title, fill=_INK, font=ImageFont.load_default(TITLE_SIZE))
    for place, tile in enumerate(placed):
        x, y = GAP + place % columns * width, top + place // columns * height
        if tile.picture is not None:
            picture = fitted(tile.picture)
            sheet.paste(picture, (x + (TILE - picture.width) // 2, y + (TILE - picture.height) // 2))
        else:
            draw.rectangle((x, y, x + TILE, y + TILE), fill=_FAINT)
            _write(draw, (x + 8, y + 8), tile.text, font, TILE // line - 1, TILE - 16)
        _write(draw, (x, y + TILE + 4), tile.caption, font, LINES, TILE)
    return sheet


def stacked(sheets: Sequence[Image.Image]) -> Image.Image:
    """Sheets, one under the other."""
    whole = Image.new("RGB", (max(one.width for one in sheets), sum(one.height for one in sheets)), "white")
    top = 0
    for one in sheets:
        whole.paste(one, (0, top))
        top += one.height
    return whole


def save(sheet: Image.Image, path: Path | str) -> None:
    """Write a sheet as PNG."""
    with atomic.write_file(path) as file:
        sheet.save(file, "PNG")


def fitted(picture: Image.Image) -> Image.Image:
    """The picture made as large as a tile holds, small ones enlarged."""
    scale = TILE / max(picture.size)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    return picture.resize(size, Image.Resampling.LANCZOS)


def _write(
    draw: ImageDraw.ImageDraw,
    place: tuple[int, int],
    text: str,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
    lines: int,
    width: int,
) -> None:
    """Write a text in at most so many lines that are not wider than `width`."""
    wrapped: list[str] = []
    for letters in range(_LETTERS_A_LINE, 7, -1):
        wrapped = textwrap.wrap(text, letters, max_lines=lines, placeholder=" …")
        if all(font.getlength(line) <= width for line in wrapped):
            break
    draw.multiline_text(place, "\n".join(wrapped), fill=_INK, font=font, spacing=4)
