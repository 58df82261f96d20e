from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFile, ImageOps

from genius.data import images
from genius.data.file_kinds import is_image
from genius.data.images import MAX_PIXELS, check, image_source, load, pixel_count
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


def jpeg_of(width: int, height: int, **options: Any) -> bytes:
    """A JPEG that is red on its left half."""
    image = Image.new("RGB", (width, height), "blue")
    image.paste("red", (0, 0, width // 2, height))
    return encoded(image, "JPEG", **options)


@pytest.mark.parametrize(("limit", "size"), [(20_000, (200, 100)), (5_000, (100, 50)), (1_999, (50, 25))])
def test_a_large_jpeg_is_decoded_at_a_part_of_its_size(
    limit: int, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "MAX_PIXELS", limit)
    panorama = ImageBytes(jpeg_of(200, 100))
    image = load(panorama)
    assert image.size == size
    assert pixel_count(panorama) == image.width * image.height <= limit
    left, right = (image.getpixel((image.width * part // 4, image.height // 2)) for part in (1, 3))
    assert isinstance(left, tuple) and isinstance(right, tuple)
    assert near(left, RED) and near(right, (0, 0, 255))


def test_a_panorama_of_sixty_megapixels() -> None:
    """As a phone takes it: larger than Pillow itself warns of, and than fits into memory."""
    content = encoded(Image.new("L", (15_000, 6_100), 200), "JPEG")
    image = load(ImageBytes(content))
    assert image.size == (7_500, 3_050)
    assert image.getpixel((0, 0)) == (200, 200, 200)


def test_limits_of_large_jpegs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in (
        ("MAX_PIXELS", 10_000),
        ("MAX_JPEG_PIXELS", 60_000),
        ("MAX_PROGRESSIVE_PIXELS", 15_000),
    ):
        monkeypatch.setattr(images, name, limit)
    assert load(ImageBytes(jpeg_of(300, 200))).size == (75, 50)
    with pytest.raises(InputError, match=r"image wide.jpg has 301 × 200 pixels: more than 0 million pixels"):
        load(ImageBytes(jpeg_of(301, 200), "wide.jpg"))
    with pytest.raises(InputError, match=r"has 200 × 100 pixels"):
        load(ImageBytes(jpeg_of(200, 100, progressive=True)))
    with pytest.raises(InputError, match=r"has 200 × 100 pixels"):
        load(ImageBytes(encoded(Image.new("RGB", (200, 100)), "PNG")))
    assert pixel_count(ImageBytes(jpeg_of(301, 200))) == 0


@pytest.mark.parametrize(
    "content",
    [
        jpeg_of(64, 48)[:-200],
        jpeg_of(64, 48),
        square("red", "PNG"),
        square("red", "PNG")[:60],
        b"\xff\xd8\xff\xe0 and then nothing of a JPEG",
        b"plain words",
    ],
)
def test_a_check_finds_what_loading_would(content: bytes) -> None:
    def outcome(read: Callable[[ImageBytes], object]) -> str:
        try:
            read(ImageBytes(content, "a.jpg"))
        except InputError as error:
            return str(error)
        return "whole"

    assert outcome(check) == outcome(load)


class FakeHeif(ImageFile.ImageFile):
    """What pillow-heif adds to Pillow, for a format of our own: every photo is one red pixel."""

    format = "HEIF"

    def _open(self) -> None:
        self._size, self._mode = (1, 1), "RGB"
        self.tile = [ImageFile._Tile("raw", (0, 0, 1, 1), 12, "RGB")]


HEIC = b"\0\0\0\x18ftypheic\xff\0\0"


@pytest.fixture
def without_heif() -> Iterator[None]:
    """What is known of pillow-heif is forgotten, before and after."""
    images.heif_is_readable.cache_clear()
    yield
    for table in (Image.OPEN, Image.ID):
        with contextlib.suppress(KeyError, ValueError):
            table.remove("HEIF") if isinstance(table, list) else table.pop("HEIF")
    images.heif_is_readable.cache_clear()


@pytest.mark.usefixtures("without_heif")
def test_heic_is_read_where_the_user_has_pillow_heif(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(InputError, match=r"image a.heic is none of .*: it is a HEIC photo, .*pillow-heif"):
        load(ImageBytes(HEIC, "a.heic"))
    assert not is_image("a.HEIC")
    images.heif_is_readable.cache_clear()
    reader = ModuleType("pillow_heif")
    reader.register_heif_opener = lambda: Image.register_open("HEIF", FakeHeif)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pillow_heif", reader)
    assert load(ImageBytes(HEIC)).getpixel((0, 0)) == RED
    assert is_image("a.HEIC") and not is_image("a.mov")


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


@pytest.mark.filterwarnings("error")
def test_numbers_of_a_damaged_image_that_are_none_give_no_warning() -> None:
    values = np.zeros((4, 4), np.float32)
    values.view(np.uint32)[0] = [
        0x7FA00000,
        0x7FC00000,
        0x7F800000,
        0xFF800000,
    ]  # signalling, quiet, infinite
    values[1] = np.finfo(np.float32).max
    image = load(ImageBytes(encoded(Image.fromarray(values), "TIFF")))
    assert image.getpixel((2, 0)) == image.getpixel((0, 1)) == (255, 255, 255)
    assert image.getpixel((3, 0)) == (0, 0, 0)
