"""Image decoding: any of the usual formats to upright RGB, with a size limit checked before decoding."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

from genius.data.records import ImageBytes, ImageFile, ImageSource
from genius.errors import InputError

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
MAX_PIXELS = 50_000_000
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
_TOO_LARGE = f"more than {MAX_PIXELS // 10**6} million pixels are not decoded, make it smaller"


def load(source: ImageSource) -> Image.Image:
    """Decode an image to upright RGB; transparent parts become white, an animation its first frame.

    Raises InputError (naming the image) if it can't be read, is no image, is damaged, or has more than
    50 megapixels, which is checked before decoding.
    """
    content = source.read()
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise InputError(f"image {source.name} has {width:,} × {height:,} pixels: {_TOO_LARGE}")
            image.load()
            return _rgb(_upright(image))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InputError(f"image {source.name}: {_TOO_LARGE}") from error
    except UnidentifiedImageError:
        raise InputError(f"image {source.name} is none of {', '.join(FORMATS)}{_guess(content)}") from None
    except _FAILURES as error:
        raise InputError(f"image {source.name} is damaged: {error}") from error


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


def _eight_bits(image: Image.Image) -> Image.Image:
    """Scale 16-bit grey to 8 bits; wider integers and floats are scaled by their own range."""
    values = np.asarray(image)
    sixteen = values.dtype.kind == "u" and values.dtype.itemsize == 2  # of either byte order
    if sixteen or (image.mode == "I" and values.min() >= 0 and values.max() <= 65535):
        return Image.fromarray((values >> 8).astype(np.uint8))
    values = np.nan_to_num(values.astype(np.float64))
    low, high = values.min(), values.max()
    return Image.fromarray(((values - low) * (255 / max(high - low, 1e-12))).astype(np.uint8))
