"""Contact sheets: many images with captions on one page."""

from __future__ import annotations

import contextlib
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
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
_FONTS = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf", "Arial.ttf")
_STANDS_FOR = dict(zip("ßæÆœŒøØłŁđ", ("ss", "ae", "AE", "oe", "OE", "o", "O", "l", "L", "d"), strict=True))
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
    line = FONT_SIZE + 4
    width, height = TILE + GAP, TILE + LINES * line + 2 * GAP
    rows = max(1, -(-len(placed) // columns))
    top = TITLE_SIZE + 2 * GAP if title else GAP
    sheet = Image.new("RGB", (columns * width + GAP, top + rows * height), "white")
    draw = ImageDraw.Draw(sheet)
    written, font = _drawable(title, TITLE_SIZE)
    draw.text((GAP, GAP), written, fill=_INK, font=font)
    for place, tile in enumerate(placed):
        x, y = GAP + place % columns * width, top + place // columns * height
        if tile.image is not None:
            image = _fit(tile.image)
            sheet.paste(image, (x + (TILE - image.width) // 2, y + (TILE - image.height) // 2))
        else:
            draw.rectangle((x, y, x + TILE, y + TILE), fill=_FAINT)
            _write(draw, (x + 8, y + 8), tile.text, TILE // line - 1, TILE - 16)
        _write(draw, (x, y + TILE + 4), tile.caption, LINES, TILE)
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


def _write(draw: ImageDraw.ImageDraw, place: tuple[int, int], text: str, lines: int, width: int) -> None:
    """Write a text in at most `lines` lines of at most `width` pixels."""
    text, font = _drawable(text, FONT_SIZE)
    wrapped: list[str] = []
    for letters in range(_LETTERS_A_LINE, 7, -1):
        wrapped = textwrap.wrap(text, letters, max_lines=lines, placeholder=" …")
        if all(font.getlength(line) <= width for line in wrapped):
            break
    draw.multiline_text(place, "\n".join(wrapped), fill=_INK, font=font, spacing=4)


# --- letters that a font has


def _drawable(text: str, size: int) -> tuple[str, ImageFont.FreeTypeFont | ImageFont.ImageFont]:
    """A text as it can be written, and the font for it.

    Pillow's own font has hardly more than ASCII. Other letters are written in a font of this machine that has
    them; where there is none, without their accents, and the last resort is a question mark.
    """
    own = ImageFont.load_default(size)
    if _has_letters(own, text):
        return text, own
    for font in _system_fonts(size):
        if _has_letters(font, text):
            return text, font
    return "".join(letter if _has_letters(own, letter) else _plain(letter, own) for letter in text), own


def _has_letters(font: ImageFont.FreeTypeFont | ImageFont.ImageFont, text: str) -> bool:
    """Whether a font has a glyph for each letter; for others it draws that of a code that no font has."""
    missing = _glyph(font, "\uffff")
    return not any(_glyph(font, letter) == missing for letter in set(text) if not letter.isspace())


@cache
def _glyph(font: ImageFont.FreeTypeFont | ImageFont.ImageFont, letter: str) -> tuple[tuple[int, int], bytes]:
    mask = font.getmask(letter)
    return mask.size, bytes(mask)


def _plain(letter: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> str:
    """A letter without accents, or as letters that stand for it."""
    bare = _STANDS_FOR.get(letter) or "".join(
        part for part in unicodedata.normalize("NFKD", letter) if not unicodedata.combining(part)
    )
    return bare if bare and _has_letters(font, bare) else "?"


@cache
def _system_fonts(size: int) -> tuple[ImageFont.FreeTypeFont, ...]:
    fonts = []
    for name in _FONTS:
        with contextlib.suppress(OSError):
            fonts.append(ImageFont.truetype(name, size))
    return tuple(fonts)
