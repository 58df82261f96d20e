"""Fingerprints: copies of an image have about the same, other shots of it have not."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageEnhance

from genius.collection.fingerprint import FINE, Fingerprint, copies, fingerprint, fingerprint_of
from genius.data.records import ImageBytes
from tests.collection.world import scene
from tests.pictures import encoded


def read(content: bytes) -> Fingerprint | None:
    return fingerprint(ImageBytes(content))


def turned(image: Image.Image) -> bytes:
    """Stored on its side, with the tag that sets it upright."""
    exif = Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    image.transpose(Image.Transpose.ROTATE_90).save(buffer, "JPEG", exif=exif, quality=90)
    return buffer.getvalue()


@pytest.mark.parametrize("seed", range(6))
def test_copies_are_recognised(seed: int) -> None:
    image = scene(seed, 240, 180)
    changed = {
        "format": encoded(image, "JPEG", quality=40),
        "size": encoded(image.resize((96, 72), Image.Resampling.LANCZOS), "JPEG"),
        "crop": encoded(image.crop((7, 5, 7 + 228, 5 + 171))),
        "other crop": encoded(image.crop((12, 0, 240, 171))),
        "turned": turned(image),
        "brighter": encoded(ImageEnhance.Brightness(image).enhance(1.25)),
    }
    pairs = copies([read(encoded(image)), *map(read, changed.values())])
    missed = [name for place, name in enumerate(changed, 1) if [0, place] not in pairs.tolist()]
    assert not missed


@pytest.mark.parametrize("seed", range(6))
def test_other_shots_and_other_colours_are_no_copies(seed: int) -> None:
    image = scene(seed, 300, 200)
    green, blue, red = image.split()
    shots = [
        image.crop((0, 0, 240, 160)),
        image.crop((60, 40, 300, 200)),
        Image.merge("RGB", (red, green, blue)),
        image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        scene(seed + 100, 300, 200),
    ]
    assert not len(copies([fingerprint_of(shot) for shot in shots]))


@pytest.mark.parametrize(("altered", "copy"), [(0, True), (30, False)])
def test_a_window_that_is_all_but_equal_is_a_crop_though_its_bits_differ_more(
    altered: int, copy: bool
) -> None:
    random = np.random.default_rng(0)

    def differing(bits: np.ndarray, by: int) -> np.ndarray:
        flips = np.zeros(128, np.uint8)
        flips[random.choice(128, by, replace=False)] = 1
        return np.asarray(bits ^ np.packbits(flips).view(np.uint64))

    whole = random.integers(0, 2**63, 2, dtype=np.uint64)
    shades = random.integers(40, 200, (2, 6, FINE, FINE)).astype(np.uint8)
    shades[1, 3] = shades[0, 0]  # of the other image, the third window is this one
    shades[1, 3].ravel()[:altered] = 255 - shades[0, 0].ravel()[:altered]
    bits = [np.stack([whole] * 6), np.stack([differing(whole, by) for by in (5, 40, 40, 14, 40, 40)])]
    bits[0][1:] = differing(whole, 50)
    colours = np.zeros(32, np.float32)
    prints = [
        Fingerprint(own, colours, 128, 120.0, False, cells) for own, cells in zip(bits, shades, strict=True)
    ]
    assert bool(len(copies(list(prints)))) == copy


def face(mouth: str) -> Image.Image:
    """A drawing on white; faces differ in the mouth alone."""
    image = Image.new("RGB", (240, 240), "white")
    draw = ImageDraw.Draw(image)
    draw.ellipse((20, 20, 220, 220), fill="#ffcc4d")
    for left in (75, 140):
        draw.ellipse((left, 80, left + 25, 120), fill="#664500")
    if mouth == "open":
        draw.ellipse((70, 130, 170, 210), fill="#664500")
    else:
        draw.line((90, 170, 150, 170), fill="#664500", width=8)
    return image


def test_drawings_that_differ_in_a_detail_are_no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    drawings = [face("open"), face("closed"), face("open").resize((72, 72))]
    prints = [*map(fingerprint_of, drawings), read(encoded(face("closed"), "JPEG", quality=40))]
    assert copies(prints).tolist() == [[0, 2], [1, 3]]
    for name in ("DIFFERING_CELLS", "DIFFERING_IN_CROPS"):
        monkeypatch.setattr(f"genius.collection.fingerprint.{name}", 1.0)
    assert len(copies(prints)) == 6, "on the coarse grid all are alike"


def clock(hour: int) -> Image.Image:
    """A drawing with much white around it; clocks differ in the hand alone."""
    drawing = Image.new("RGB", (192, 192), "white")
    pen = ImageDraw.Draw(drawing)
    pen.ellipse((40, 40, 152, 152), fill="lightgrey", outline="black", width=6)
    x, y = 96 + 40 * math.sin(math.pi * hour / 6), 96 - 40 * math.cos(math.pi * hour / 6)
    pen.line((96, 96, x, y), fill="black", width=6)
    return drawing


def test_the_white_around_a_drawing_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    prints: list[Fingerprint | None] = [fingerprint_of(clock(hour)) for hour in (1, 2, 4)]
    again = read(encoded(clock(1), "JPEG", quality=60))
    assert copies([*prints, again]).tolist() == [[0, 3]]
    monkeypatch.setattr("genius.collection.fingerprint.MIN_DRAWN", FINE**2)  # as if all of it counted
    assert len(copies(prints))


def test_flat_images_are_compared_by_their_colour() -> None:
    shades = [Image.new("RGB", (40, 40), colour) for colour in ("white", "white", "black", "red", "#fdfdfd")]
    assert copies([fingerprint_of(shade) for shade in shades]).tolist() == [[0, 1], [0, 4], [1, 4]]


def test_what_cannot_be_read_is_no_copy() -> None:
    broken = read(b"no image")
    assert broken is None
    assert copies([broken, broken]).shape == (0, 2)
    whole = fingerprint_of(scene(1))
    assert copies([whole, broken, whole]).tolist() == [[0, 2]]
    assert isinstance(np.asarray(whole.bits), np.ndarray)
