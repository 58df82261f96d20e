"""Contact sheets: many images with captions on one page."""

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
    """A cell of a sheet: an image, or a text where there is none, above a caption."""

    image: Image.Image | None
    caption: str
    text: str = ""


def tile_of(item: Item, caption: str | None = None) -> Tile:
    """The tile of an item; an image that can't be read is replaced by the reason."""
    caption = caption if caption is not None else (item.text if item.text and item.image else item.id)
    if item.image is None:
        return Tile(None, caption, item.text or "")
    try:
        return Tile(load(item.image), caption)
    except InputError as error:
        return Tile(None, caption, error.reason)


def contact_sheet(tiles: Iterable[Tile], *, columns: int = 6, title: str = "") -> Image.Image:
    """Draw the tiles in rows on white, under a title if there is one."""
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
        if tile.image is not None:
            image = _fit(tile.image)
            sheet.paste(image, (x + (TILE - image.width) // 2, y + (TILE - image.height) // 2))
        else:
            draw.rectangle((x, y, x + TILE, y + TILE), fill=_FAINT)
            _write(draw, (x + 8, y + 8), tile.text, font, TILE // line - 1, TILE - 16)
        _write(draw, (x, y + TILE + 4), tile.caption, font, LINES, TILE)
    return sheet


def stack(sheets: Sequence[Image.Image]) -> Image.Image:
    """Join sheets into one, each below the one before."""
    size = max(sheet.width for sheet in sheets), sum(sheet.height for sheet in sheets)
    stacked = Image.new("RGB", size, "white")
    top = 0
    for sheet in sheets:
        stacked.paste(sheet, (0, top))
        top += sheet.height
    return stacked


def save(sheet: Image.Image, path: Path | str) -> None:
    """Write a sheet as PNG."""
    with atomic.write_file(path) as file:
        sheet.save(file, "PNG")


def _fit(image: Image.Image) -> Image.Image:
    """The image scaled, up or down, to fill a tile."""
    scale = TILE / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.LANCZOS)


def _write(
    draw: ImageDraw.ImageDraw,
    place: tuple[int, int],
    text: str,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
    lines: int,
    width: int,
) -> None:
    """Write a text in at most `lines` lines of at most `width` pixels."""
    wrapped: list[str] = []
    for letters in range(_LETTERS_A_LINE, 7, -1):
        wrapped = textwrap.wrap(text, letters, max_lines=lines, placeholder=" …")
        if all(font.getlength(line) <= width for line in wrapped):
            break
    draw.multiline_text(place, "\n".join(wrapped), fill=_INK, font=font, spacing=4)
