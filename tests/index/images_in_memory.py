"""How many images are in memory at a time, and an encoder that needs only their colours."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from genius.data.images import load
from genius.data.records import ImageBytes, ImageSource
from genius.encode import direct
from tests.pictures import encoded

SIDE = 20


def watch_images(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> list[int]:
    """How many of the images that `modules` load are in memory after each one; there is room for two."""
    alive: list[weakref.ref[Image.Image]] = []
    counts: list[int] = []

    def watched(source: ImageSource) -> Image.Image:
        alive.append(weakref.ref(image := load(source)))
        gc.collect()
        counts.append(sum(reference() is not None for reference in alive))
        return image

    monkeypatch.setattr(direct, "MAX_PIXELS", 2 * SIDE * SIDE)
    for module in modules:
        monkeypatch.setattr(module, "load", watched)
    return counts


def coloured_images(count: int) -> list[ImageBytes]:
    """Images of different colours, named by their numbers."""
    return [ImageBytes(encoded(Image.new("RGB", (SIDE, SIDE), (n, 2 * n, 9))), f"{n}") for n in range(count)]


def colours(images: Sequence[Image.Image]) -> np.ndarray:
    """The colour of each image, float32 [n, 3]; the first number is that of the image."""
    return np.array([image.getpixel((0, 0)) for image in images], np.float32).reshape(-1, 3)


ENCODER: Any = SimpleNamespace(
    image_width=3, text_width=1, encode_images=colours, encode_texts=lambda texts: np.ones((len(texts), 1))
)
