"""Image decoding: any of the usual formats to upright RGB, with a size limit checked before decoding."""

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import ExifTags, Image, JpegImagePlugin, UnidentifiedImageError

from genius.data.records import ImageBytes, ImageFile, ImageSource
from genius.errors import InputError

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
MAX_PIXELS = 50_000_000
"""Pixels of an image in memory."""
MAX_JPEG_PIXELS = 500_000_000
"""Pixels of a JPEG file, which can be decoded at a half, a quarter or an eighth of its size;"""
MAX_PROGRESSIVE_PIXELS = 150_000_000
"""of a progressive one, for which all coefficients are in memory, 6 bytes a pixel."""
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""The transposition that makes an image upright, by its EXIF orientation."""
_FAILURES = (OSError, SyntaxError, ValueError, EOFError, MemoryError)  # Pillow's many ways to fail
_TOO_LARGE = "more than {} million pixels are not decoded, make it smaller"
_JPEG_START = b"\xff\xd8\xff"
_HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1")


def load(source: ImageSource) -> Image.Image:
    """Decode an image to upright RGB; transparent parts become white, an animation its first frame.

    A JPEG of more than 50 megapixels, such as a panorama, is decoded at a half or a quarter of its size.
    Raises InputError (naming the image) if it can't be read, is no image, is damaged, or is too large (a JPEG
    from 500 megapixels on, others from 50), which is checked before decoding.
    """
    with _opened(source) as image:
        image.load()
        return _rgb(_upright(image))


def check(source: ImageSource) -> None:
    """Decode an image as coarsely as its format allows. Raises the InputError that `load` would raise."""
    with _opened(source) as image:
        image.draft(None, (1, 1))
        image.load()


def pixel_count(source: ImageSource) -> int:
    """The pixels that `load` would have in memory, by the header; 0 if it would raise InputError."""
    try:
        with open_header(io.BytesIO(source.read())) as image:
            _limit_size(image)
            return image.width * image.height
    except (InputError, Image.DecompressionBombError, Image.DecompressionBombWarning, *_FAILURES):
        return 0


def open_header(file: BinaryIO) -> Image.Image:
    """An image of which only the header is read. Raises what Pillow raises."""
    start = file.read(12)
    file.seek(0)
    if start.startswith(_JPEG_START):
        try:
            # Image.open refuses what has many pixels, and here they are not going to be decoded in full.
            return JpegImagePlugin.JpegImageFile(file)
        except SyntaxError as error:
            raise UnidentifiedImageError(str(error)) from error
    return Image.open(file, formats=(*FORMATS, "HEIF") if _is_heif(start) else FORMATS)


@cache
def heif_is_readable() -> bool:
    """Whether the user has pillow-heif, which reads HEIC photos; it is used where it is, and never needed."""
    try:
        importlib.import_module("pillow_heif").register_heif_opener()
    except (ImportError, AttributeError):
        return False
    return True


def _is_heif(start: bytes) -> bool:
    return start[4:8] == b"ftyp" and start[8:12] in _HEIF_BRANDS and heif_is_readable()


@contextlib.contextmanager
def _opened(source: ImageSource) -> Iterator[Image.Image]:
    """An image that is about to be decoded; what Pillow raises within becomes an InputError that names it."""
    content = source.read()
    try:
        with open_header(io.BytesIO(content)) as image:
            _limit_size(image)
            yield image
    except InputError as error:
        raise InputError(f"image {source.name} {error}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InputError(f"image {source.name}: {_TOO_LARGE.format(MAX_PIXELS // 10**6)}") from error
    except UnidentifiedImageError:
        raise InputError(f"image {source.name} is none of {', '.join(FORMATS)}{_guess(content)}") from None
    except _FAILURES as error:
        raise InputError(f"image {source.name} is damaged: {error}") from error


def _limit_size(image: Image.Image) -> None:
    """Have a large JPEG decoded at a part of its size. Raises InputError for what is larger than may be."""
    (width, height), limit = image.size, MAX_PIXELS
    if isinstance(image, JpegImagePlugin.JpegImageFile):
        limit = MAX_PROGRESSIVE_PIXELS if image.info.get("progressive") else MAX_JPEG_PIXELS
    if width * height > limit:
        raise InputError(f"has {width:,} × {height:,} pixels: {_TOO_LARGE.format(limit // 10**6)}")
    divisor = next(part for part in (1, 2, 4, 8) if width * height <= MAX_PIXELS * part**2)
    if divisor > 1:
        image.draft(None, (max(1, width // divisor), max(1, height // divisor)))


def image_source(image: Path | str | bytes | Image.Image | ImageSource) -> ImageSource:
    """The source of an image that a user gave as a path, bytes or a Pillow image.

    Raises InputError if it is none of these, or a path without a file.
    """
    if isinstance(image, bytes):
        return ImageBytes(image)
    if isinstance(image, str | Path):
        return _file(Path(image))
    if isinstance(image, Image.Image):
        return ImageBytes(_png(image), "(a Pillow image)")
    if not callable(getattr(image, "read", None)):
        raise InputError(f"an image is a path, bytes or a Pillow image, not a {type(image).__name__}")
    return image


def _file(path: Path) -> ImageFile:
    try:
        exists = path.is_file()
    except (OSError, ValueError):  # not a valid file name, such as an image in base64
        raise InputError(f"an image is a path or bytes, and {str(path)[:40]!r}… is no path") from None
    if not exists:
        raise InputError("there is no such image", path=path)
    return ImageFile(str(path.parent.resolve()), path.name)


def _png(image: Image.Image) -> bytes:
    """A Pillow image, upright and in RGB, as the bytes of a PNG file."""
    buffer = io.BytesIO()
    try:
        _rgb(_upright(image)).save(buffer, "PNG")
    except _FAILURES as error:
        raise InputError(f"a Pillow image of mode {image.mode} can't be used: {error}") from error
    return buffer.getvalue()


def _upright(image: Image.Image) -> Image.Image:
    """The image turned by its EXIF orientation.

    No other tag is parsed: many cameras write some that can't be read.
    """
    try:
        turn = _TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # broken tags are no reason to refuse the image
        turn = None
    return image.copy() if turn is None else image.transpose(turn)


def _guess(content: bytes) -> str:
    """A guess at what an unknown file is, to end the error message."""
    if not content:
        return ": the file is empty"
    if content[4:8] == b"ftyp" and content[8:12] in _HEIF_BRANDS:
        return ": it is a HEIC photo, which is read after pip install pillow-heif"
    if content[:512].isascii() and b"\0" not in content[:512]:
        return ": it holds text"
    return ""


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return _eight_bits(image).convert("RGB")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, layer).convert("RGB")
    return image.convert("RGB")


_LARGEST = float(np.finfo(np.float32).max)


def _eight_bits(image: Image.Image) -> Image.Image:
    """Scale 16-bit grey to 8 bits; wider integers and floats are scaled by their own range."""
    values = np.asarray(image)
    sixteen = values.dtype.kind == "u" and values.dtype.itemsize == 2  # of either byte order
    if sixteen or (image.mode == "I" and values.min() >= 0 and values.max() <= 65535):
        return Image.fromarray((values >> 8).astype(np.uint8))
    with np.errstate(invalid="ignore"):  # of a damaged file, numbers may be none
        values = np.nan_to_num(values.astype(np.float64)).clip(-_LARGEST, _LARGEST)
    low, high = values.min(), values.max()
    return Image.fromarray(((values - low) * (255 / max(high - low, 1e-12))).astype(np.uint8))
