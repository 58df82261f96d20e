from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image, ImageFont

from genius.data import contact_sheet as sheets
from genius.data.contact_sheet import GAP, TILE, Tile, contact_sheet, save, stack, tile_of
from genius.data.records import ImageBytes, Item
from tests.pictures import square

RED, WHITE = (255, 0, 0), (255, 255, 255)


def middle(column: int) -> tuple[int, int]:
    """The middle of a tile in the first row of a sheet without a title."""
    return GAP + column * (TILE + GAP) + TILE // 2, GAP + TILE // 2


def colours(sheet: Image.Image) -> int:
    counts = sheet.getcolors(2**20)
    assert counts is not None
    return len(counts)


def test_tiles_stand_side_by_side_and_go_on_in_the_next_row() -> None:
    tiles = [Tile(Image.new("RGB", (8, 4), "red"), ""), Tile(Image.new("RGB", (400, 400), "blue"), "")]
    wide, high = contact_sheet(tiles, columns=2), contact_sheet(tiles, columns=1)
    assert wide.getpixel(middle(0)) == RED
    assert wide.getpixel(middle(1)) == (0, 0, 255)
    assert wide.width == 2 * (TILE + GAP) + GAP
    assert high.width == TILE + 2 * GAP
    assert high.height - GAP == 2 * (wide.height - GAP)


def test_an_image_fills_its_tile_in_its_own_proportions() -> None:
    sheet = contact_sheet([Tile(Image.new("RGB", (8, 4), "red"), "")], columns=1)
    box = sheet.point(lambda value: 255 - value).getbbox()
    assert box is not None
    left, top, right, bottom = box
    assert (right - left, bottom - top) == (TILE, TILE // 2)


def test_texts_captions_and_titles_are_drawn() -> None:
    plain = contact_sheet([Tile(None, "")], columns=1)
    assert colours(plain) == 2  # white, and the empty tile
    assert plain.size == contact_sheet([Tile(None, "a caption", "a text")], columns=1).size
    for tile in (Tile(None, "a caption"), Tile(None, "", "a text")):
        assert colours(contact_sheet([tile], columns=1)) > 2
    assert contact_sheet([Tile(None, "")], columns=1, title="a title").height > plain.height


def drawn(text: str) -> bytes:
    return contact_sheet([Tile(None, text)], columns=1).tobytes()


BOX = "\uffff"
"""A letter that no font has."""


@pytest.mark.parametrize("fonts", [True, False])
def test_letters_beyond_ascii_are_never_boxes(fonts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fonts:
        monkeypatch.setattr(sheets, "_system_fonts", lambda size: ())
    if not fonts or not sheets._system_fonts(13):
        assert drawn("Häuser, Straße, Łódź, œuvre") == drawn("Hauser, Strasse, Lodz, oeuvre")
    for text in ("Häuser", "ß", "日本", BOX, "Ω"):
        written, font = sheets._drawable(text, sheets.FONT_SIZE)
        box = bytes(font.getmask(BOX))
        assert not [letter for letter in written if bytes(font.getmask(letter)) == box], text
    own = ImageFont.load_default(sheets.FONT_SIZE)
    plain, font = sheets._drawable("plain ASCII", sheets.FONT_SIZE)
    assert plain == "plain ASCII" and bytes(font.getmask(plain)) == bytes(own.getmask(plain))
    assert drawn(BOX) == drawn("?")


@pytest.mark.parametrize(
    ("item", "caption", "text"),
    [
        (Item("a", "words"), "a", "words"),
        (Item("a", "words", ImageBytes(square("red", "PNG"))), "words", ""),
        (Item("a", None, ImageBytes(square("red", "PNG"))), "a", ""),
    ],
)
def test_the_tile_of_an_item(item: Item, caption: str, text: str) -> None:
    tile = tile_of(item)
    assert (tile.caption, tile.text) == (caption, text)
    assert (tile.image is None) == (item.image is None)
    assert tile_of(item, "another").caption == "another"


def test_an_image_that_cannot_be_read_is_replaced_by_the_reason() -> None:
    tile = tile_of(Item("a", None, ImageBytes(b"words", "a.jpg")))
    assert tile.image is None
    assert tile.text.startswith("image a.jpg is none of")


def test_sheets_are_stacked_and_saved(tmp_path: Path) -> None:
    sheets = [Image.new("RGB", (10, 5), "red"), Image.new("RGB", (20, 5), "blue")]
    save(stack(sheets), tmp_path / "out" / "sheet.png")
    with Image.open(tmp_path / "out" / "sheet.png") as saved:
        assert saved.size == (20, 10)
        assert saved.getpixel((0, 0)) == RED
        assert saved.getpixel((15, 0)) == WHITE
        assert saved.getpixel((15, 9)) == (0, 0, 255)
