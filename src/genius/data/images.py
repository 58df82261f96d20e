"""Pictures: from any of the usual formats to upright RGB, with a limit before anything large is decoded."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from genius.data.records import ImageBytes, ImageFile, ImageSource
from genius.errors import InputError

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
MAX_PIXELS = 50_000_000
_TOO_LARGE = f"more than {MAX_PIXELS // 10**6} million pixels are not decoded, make it smaller"


def load(source: ImageSource) -> Image.Image:
    """The picture, upright, in RGB; transparent parts are white, of an animation the first frame.

    Raises InputError (naming the picture) if it can't be had, is no picture, is damaged, or has more than
    50 megapixels, which is noticed before decoding.
    """
    content = source.read()
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise InputError(f"image {source.name} has {width:,} × {height:,} pixels: {_TOO_LARGE}")
            image.load()
            return _rgb(ImageOps.exif_transpose(image))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InputError(f"image {source.name}: {_TOO_LARGE}") from error
    except UnidentifiedImageError:
        raise InputError(f"image {source.name} is none of {', '.join(FORMATS)}{_look(content)}") from None
    except (OSError, SyntaxError, ValueError, EOFError, MemoryError) as error:  # Pillow's many ways to fail
        raise InputError(f"image {source.name} is damaged: {error}") from error


def image_source(image: Path | str | bytes | Image.Image | ImageSource) -> ImageSource:
    """A user's picture (path, bytes, Pillow image) as something that `load` takes."""
    if isinstance(image, bytes):
        return ImageBytes(image)
    if isinstance(image, str | Path):
        path = Path(image)
        if not path.is_file():
            raise InputError("there is no such image", path=path)
        return ImageFile(str(path.parent.resolve()), path.name)
    if isinstance(image, Image.Image):
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        return ImageBytes(buffer.getvalue(), "(a Pillow image)")
    return image


def _look(content: bytes) -> str:
    """What an unknown file seems to be, for the message."""
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
    """Grey of 16 bits scaled to 8; wider integers and floats from their own range."""
    values = np.asarray(image)
    if values.dtype == np.uint16 or (image.mode == "I" and values.min() >= 0 and values.max() <= 65535):
        return Image.fromarray((values >> 8).astype(np.uint8))
    values = np.nan_to_num(values.astype(np.float64))
    low, high = values.min(), values.max()
    return Image.fromarray(((values - low) * (255 / max(high - low, 1e-12))).astype(np.uint8))
