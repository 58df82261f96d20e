"""Features of the images and texts of a few records, computed directly, without the cache.

They are rounded to float16 as the cache stores them, so a record gets the same features either way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image

from genius.data.images import load, pixel_count
from genius.data.records import ImageSource
from genius.encode.encoder import Encoder
from genius.errors import InputError

MaskedFeatures = tuple[np.ndarray, np.ndarray]
"""Features float32 [n, width], zeros for what is absent, and which of the n are present, bool [n]."""

MAX_PIXELS = 1 << 24
"""Pixels of the images that are in memory at a time, unless a single image has more; 64 MB."""


def image_features(encoder: Encoder, images: Sequence[ImageSource | None]) -> MaskedFeatures:
    """Features of images, loaded a few at a time; None is absent.

    Raises InputError for an image that can't be read.
    """
    features = np.zeros((len(images), encoder.image_width), np.float32)
    present = np.array([image is not None for image in images], bool)
    for batch in pixel_batches(images):
        # no name keeps these images in memory while the next ones are loaded
        features[batch] = loaded_image_features(encoder, load_images(images[batch]))[0]
    return features, present


def loaded_image_features(encoder: Encoder, images: Sequence[Image.Image | None]) -> MaskedFeatures:
    """Features of images that are in memory; None is absent."""
    features = np.zeros((len(images), encoder.image_width), np.float32)
    present = np.array([image is not None for image in images], bool)
    if present.any():
        features[present] = as_stored(encoder.encode_images([image for image in images if image is not None]))
    return features, present


def text_features(encoder: Encoder, texts: Sequence[str]) -> MaskedFeatures:
    """Features of texts; an empty text is absent."""
    features = np.zeros((len(texts), encoder.text_width), np.float32)
    present = np.array([bool(text) for text in texts], bool)
    if present.any():
        features[present] = as_stored(encoder.encode_texts([text for text in texts if text]))
    return features, present


def load_images(images: Sequence[ImageSource | None]) -> list[Image.Image | None]:
    """The images, decoded; None stays None. Raises InputError for one that can't be read."""
    return [None if image is None else load(image) for image in images]


def pixel_batches(images: Sequence[ImageSource | None], limit: int | None = None) -> Iterator[slice]:
    """Consecutive slices of at most `limit` images that fit into memory together; None takes no memory.

    Encoders resize an image from its full size, so images can't be made smaller beforehand; but 32 images of
    50 megapixels would take gigabytes.
    """
    start = pixels = 0
    for place, image in enumerate(images):
        more = 0 if image is None else pixel_count(image)
        if place > start and (pixels + more > MAX_PIXELS or place - start == limit):
            yield slice(start, place)
            start, pixels = place, 0
        pixels += more
    if start < len(images):
        yield slice(start, len(images))


def as_stored(features: np.ndarray) -> np.ndarray:
    """Features as the cache stores them, in float16. Raises InputError for NaN and for too large numbers."""
    with np.errstate(over="ignore"):
        stored = features.astype(np.float16)
    if not np.isfinite(stored).all():
        raise InputError("some features are NaN or too large for 16 bits: this encoder can't be used")
    return stored
