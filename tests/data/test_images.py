from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from genius.data.images import MAX_PIXELS, image_source, load
from genius.data.records import ImageBytes
from genius.errors import InputError
from tests.pictures import encoded, png_header, square

RED = (255, 0, 0)
WHITE = (255, 255, 255)


def corner(content: bytes, place: tuple[int, int] = (0, 0)) -> tuple[int, ...]:
    image = load(ImageBytes(content))
    assert image.mode == "RGB"
    pixel = image.getpixel(place)
    assert isinstance(pixel, tuple)
    return pixel


def near(pixel: tuple[int, ...], expected: tuple[int, ...], tolerance: int = 4) -> bool:
    return all(abs(one - other) <= tolerance for one, other in zip(pixel, expected, strict=True))


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
def test_formats(format: str) -> None:
    assert near(corner(square("red", format)), RED)


def test_of_an_animation_the_first_frame() -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    content = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert near(corner(content), RED)


def test_exif_orientation() -> None:
    image = Image.new("RGB", (40, 20), "red")
    image.paste("blue", (20, 0, 40, 20))
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: to be shown a quarter clockwise
    shown = load(ImageBytes(encoded(image, "PNG", exif=exif)))
    assert shown.size == (20, 40)
    assert (shown.getpixel((10, 5)), shown.getpixel((10, 35))) == (RED, (0, 0, 255))


def palette() -> Image.Image:
    return Image.new("RGB", (8, 8), "red").convert("P")


MODES: dict[str, tuple[Image.Image, str, dict[str, Any], tuple[int, ...]]] = {
    "grey": (Image.new("L", (8, 8), 100), "PNG", {}, (100, 100, 100)),
    "black and white": (Image.new("1", (8, 8), 1), "PNG", {}, WHITE),
    "palette": (palette(), "PNG", {}, RED),
    "palette with a transparent colour": (
        palette(),
        "PNG",
        {"transparency": palette().getpixel((0, 0))},
        WHITE,
    ),
    "CMYK": (Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", {}, (254, 0, 0)),
    "alpha": (Image.new("RGBA", (8, 8), (255, 0, 0, 0)), "PNG", {}, WHITE),
    "half alpha": (Image.new("RGBA", (8, 8), (255, 0, 0, 128)), "PNG", {}, (255, 127, 127)),
    "grey with alpha": (Image.new("LA", (8, 8), (0, 0)), "PNG", {}, WHITE),
    "RGB with a transparent colour": (Image.new("RGB", (8, 8), RED), "PNG", {"transparency": RED}, WHITE),
    "16 bits of grey": (Image.fromarray(np.full((8, 8), 0x80FF, np.uint16)), "PNG", {}, (0x80,) * 3),
    "16 bits in TIFF": (Image.fromarray(np.full((8, 8), 0xFF00, np.uint16)), "TIFF", {}, WHITE),
    "floats": (Image.fromarray(np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)), "TIFF", {}, (0, 0, 0)),
}


@pytest.mark.parametrize("name", MODES)
def test_modes_become_rgb_on_white(name: str) -> None:
    image, format, options, expected = MODES[name]
    assert near(corner(encoded(image, format, **options)), expected)


def test_a_truncated_jpeg() -> None:
    content = encoded(Image.effect_noise((64, 64), 90).convert("RGB"), "JPEG")
    with pytest.raises(InputError, match=r"image cut.jpg is damaged: .*truncated"):
        load(ImageBytes(content[: len(content) // 2], "cut.jpg"))


def test_an_image_too_large_is_refused_before_decoding() -> None:
    with pytest.raises(InputError, match=r"image bomb.png: more than 50 million pixels are not decoded"):
        load(ImageBytes(png_header(60_000, 60_000), "bomb.png"))
    width = MAX_PIXELS // 5000 + 1
    with pytest.raises(InputError, match=r"image wide.png has 10,001 × 5,000 pixels: more than 50 million"):
        load(ImageBytes(png_header(width, 5000), "wide.png"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"Dear diary, today", ": it holds text"),
        (b"", ": the file is empty"),
        (b"\x00\x01\x02\xff", "TIFF"),
        (b"%PDF-1.7\n\xff\xfe", "TIFF"),
    ],
)
def test_files_that_are_no_image(content: bytes, message: str) -> None:
    with pytest.raises(
        InputError, match=r"image notes.jpg is none of JPEG, PNG, WEBP, GIF, BMP, TIFF"
    ) as caught:
        load(ImageBytes(content, "notes.jpg"))
    assert str(caught.value).endswith(message)


def test_formats_that_are_not_on_the_list_are_not_even_tried() -> None:
    with pytest.raises(InputError, match="is none of JPEG"):
        load(ImageBytes(encoded(Image.new("RGB", (8, 8)), "PPM")))


def test_a_users_image_may_be_a_path_bytes_or_a_pillow_image(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(square("red", "PNG"))
    for given in (path, str(path), path.read_bytes(), Image.open(path), ImageBytes(path.read_bytes())):
        assert load(image_source(given)).getpixel((0, 0)) == RED
    with pytest.raises(InputError, match=r"b.png: there is no such image"):
        image_source(tmp_path / "b.png")


def phone_photo() -> Image.Image:
    """Wider than high, and no two corners alike."""
    return Image.fromarray(np.arange(6 * 9 * 3, dtype=np.uint8).reshape(6, 9, 3))


@pytest.mark.parametrize("orientation", range(10))
def test_every_orientation_is_turned_as_pillow_turns_it(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = encoded(phone_photo(), "PNG", exif=exif)
    with Image.open(io.BytesIO(content)) as image:
        expected = ImageOps.exif_transpose(image)
        by_hand = image_source(image)
    for shown in (load(ImageBytes(content)), load(by_hand)):
        np.testing.assert_array_equal(np.asarray(shown), np.asarray(expected))


def test_a_tag_that_cannot_be_read_is_ignored() -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x0128] = 6, 2
    content = encoded(phone_photo(), "JPEG", exif=exif)
    tag = b"\x01\x28\x00\x03"  # the unit of its resolution is a number …
    assert content.count(tag) == 1
    broken = content.replace(tag, b"\x01\x28\x00\x02")  # … and here a text
    assert load(ImageBytes(broken)).size == (6, 9)


@pytest.mark.parametrize(
    "mode", ["1", "L", "P", "CMYK", "YCbCr", "HSV", "I", "F", "LA", "RGBA", "RGBa", "I;16"]
)
def test_pillow_images_of_any_mode(mode: str) -> None:
    image = Image.new(mode, (5, 4))
    assert load(image_source(image)).size == (5, 4)


def test_a_pillow_image_that_has_no_colours_is_named() -> None:
    with pytest.raises(InputError, match="a Pillow image of mode La can't be used"):
        image_source(Image.new("La", (5, 4)))


def test_sixteen_bits_in_either_order_of_bytes() -> None:
    values = np.linspace(0, 12_000, 48).reshape(6, 8).astype(np.uint16)
    little, big = (
        encoded(Image.frombytes(mode, (8, 6), values.astype(kind).tobytes()), "TIFF")
        for mode, kind in (("I;16", "<u2"), ("I;16B", ">u2"))
    )
    expected = np.asarray(load(ImageBytes(little)))
    assert expected.max() == 12_000 >> 8
    np.testing.assert_array_equal(np.asarray(load(ImageBytes(big))), expected)


@pytest.mark.parametrize(
    ("image", "message"),
    [("iVBOR" * 2000, "is no path"), (5, "not a int"), (None, "not a NoneType")],
)
def test_arguments_that_are_no_image(image: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        image_source(image)
