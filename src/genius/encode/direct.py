"""Features of the pictures and texts of a few records, here and now, without a cache."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image

from genius.data.images import FORMATS, load
from genius.data.records import ImageSource
from genius.encode.encoder import Encoder
from genius.errors import InputError

Rows = tuple[np.ndarray, np.ndarray]
"""Features [n, width], and which of them are there [n]."""

PIXELS = 1 << 24
"""How many pixels of pictures are in memory at a time, unless one picture alone has more; 64 MB."""


def portions(images: Sequence[ImageSource | None], most: int | None = None) -> Iterator[slice]:
    """Runs of pictures, at `most` so many, that can be in memory at the same time; None weighs nothing.

    Encoders resize a picture from its full size, so what they take can't be made smaller beforehand; but
    32 pictures of 50 megapixels would be gigabytes.
    """
    start = pixels = 0
    for place, image in enumerate(images):
        more = 0 if image is None else _pixels(image)
        if place > start and (pixels + more > PIXELS or place - start == most):
            yield slice(start, place)
            start, pixels = place, 0
        pixels += more
    if start < len(images):
        yield slice(start, len(images))


def _pixels(image: ImageSource) -> int:
    """By the picture's head; 0 for one that can't be read, as to load it will say why."""
    try:
        with Image.open(io.BytesIO(image.read()), formats=FORMATS) as opened:
            return opened.width * opened.height
    except (InputError, Image.DecompressionBombError, OSError, SyntaxError, ValueError, EOFError):
        return 0


def loaded(images: Sequence[ImageSource | None]) -> list[Image.Image | None]:
    """The pictures, None where there is none. Raises InputError for one that can't be read."""
    return [None if image is None else load(image) for image in images]


def image_rows(encoder: Encoder, images: Sequence[ImageSource | None]) -> Rows:
    """Features of pictures; None is absent. Raises InputError for one that can't be read."""
    present = np.array([image is not None for image in images])
    rows = np.zeros((len(images), encoder.image_width), np.float32)
    for part in portions(images):
        if present[part].any():  # and no name keeps these pictures while the next are loaded
            rows[part][present[part]] = encoder.images([load(one) for one in images[part] if one is not None])
    return rows, present


def text_rows(encoder: Encoder, texts: Sequence[str]) -> Rows:
    """Features of texts; an empty one is absent."""
    present = np.array([bool(text) for text in texts])
    rows = np.zeros((len(texts), encoder.text_width), np.float32)
    if present.any():
        rows[present] = encoder.texts([text for text in texts if text])
    return rows, present
