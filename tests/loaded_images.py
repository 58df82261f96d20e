"""Images of one colour, an encoder that tells their colour, and a count of the images that are in memory."""

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


def coloured(count: int) -> list[ImageBytes]:
    """Images of the colours (n, 2n, 9)."""
    return [ImageBytes(encoded(Image.new("RGB", (SIDE, SIDE), (n, 2 * n, 9))), f"{n}") for n in range(count)]


def colours(images: Sequence[Image.Image]) -> np.ndarray:
    return np.array([image.getpixel((0, 0)) for image in images], np.float32).reshape(-1, 3)


ENCODER: Any = SimpleNamespace(
    image_width=3, text_width=1, encode_images=colours, encode_texts=lambda texts: np.ones((len(texts), 1))
)


def watch_loading(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> list[int]:
    """How many images are in memory after each one that these modules load; two of them fit."""
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
