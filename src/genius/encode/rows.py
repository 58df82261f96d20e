"""Features of the pictures and texts of a few records, here and now, without a cache."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from genius.data.images import load
from genius.data.records import ImageSource
from genius.encode.encoder import Encoder

Rows = tuple[np.ndarray, np.ndarray]
"""Features [n, width], and which of them are there [n]."""


def loaded(images: Sequence[ImageSource | None]) -> list[Image.Image | None]:
    """The pictures, None where there is none. Raises InputError for one that can't be read."""
    return [None if image is None else load(image) for image in images]


def image_rows(encoder: Encoder, images: Sequence[ImageSource | None]) -> Rows:
    """Features of pictures; None is absent. Raises InputError for one that can't be read."""
    present = np.array([image is not None for image in images])
    rows = np.zeros((len(images), encoder.image_width), np.float32)
    if present.any():
        rows[present] = encoder.images([load(image) for image in images if image is not None])
    return rows, present


def text_rows(encoder: Encoder, texts: Sequence[str]) -> Rows:
    """Features of texts; an empty one is absent."""
    present = np.array([bool(text) for text in texts])
    rows = np.zeros((len(texts), encoder.text_width), np.float32)
    if present.any():
        rows[present] = encoder.texts([text for text in texts if text])
    return rows, present
