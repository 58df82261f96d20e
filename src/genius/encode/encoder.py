"""What every encoder can do: turn pictures and texts into features, apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from PIL import Image
from pathlib import Path
from typing import Literal

from genius.encode import lite
from genius.errors import InputError


class Encoder(Protocol):
    """Frozen towers for pictures and for texts.

    The fingerprint changes with anything that changes a feature: weights, preprocessing, tokenizer.
    """

    @property
    def fingerprint(self) -> str:
        """What identifies these towers."""

    @property
    def image_width(self) -> int:
        """How many numbers a picture becomes."""

    @property
    def text_width(self) -> int:
        """How many numbers a text becomes."""

    @property
    def image_parts(self) -> Mapping[str, int]:
        """What a picture's features are made of: names and widths of parts that stand side by side."""

    @property
    def text_parts(self) -> Mapping[str, int]:
        """What a text's features are made of."""

    def images(self, pictures: Sequence[Image.Image]) -> np.ndarray:
        """Features [n, image_width] of upright RGB pictures, not normalised."""

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Features [n, text_width] of texts, not normalised; what is too long is cut."""

    def too_long(self, texts: Sequence[str]) -> list[bool]:
        """Which of the texts are cut."""


class EncoderLoader(Protocol):
    """Something small that can be sent to a worker process and opens the encoder there."""

    def __call__(self, threads: int) -> Encoder:
        """The encoder, using this many threads."""


Towers = Literal["lite", "clip"]


def encoder_loader(towers: Towers, source: str = "") -> tuple[EncoderLoader, Path | None]:
    """What opens an encoder, here or in a worker, and the folder of towers that a model is to carry."""
    if towers == "lite":
        folder = lite.build()
        return lite.loader(folder), folder
    if not source:
        raise InputError("clip needs a source: the folder or the hub name of a CLIP or SigLIP model")
    from genius.encode.clip import ClipLoader
    from genius.encode.clip_folder import model_folder

    return ClipLoader(str(model_folder(source))), None
