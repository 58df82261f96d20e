"""Encoders: what each of them can do, and how one is opened by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from genius.encode import lite
from genius.errors import InputError

if TYPE_CHECKING:
    from PIL import Image

Towers = Literal["lite", "clip"]
"""The embedded encoder, or a CLIP or SigLIP model."""


class Encoder(Protocol):
    """A frozen image tower and a frozen text tower.

    The fingerprint changes with anything that changes a feature: weights, preprocessing, tokenizer.
    """

    @property
    def fingerprint(self) -> str:
        """Identifies these towers."""

    @property
    def image_width(self) -> int:
        """Width of an image's features."""

    @property
    def text_width(self) -> int:
        """Width of a text's features."""

    @property
    def image_parts(self) -> Mapping[str, int]:
        """Names and widths of the parts that an image's features are concatenated from."""

    @property
    def text_parts(self) -> Mapping[str, int]:
        """Names and widths of the parts that a text's features are concatenated from."""

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """Features float32 [n, image_width] of upright RGB images, not normalised."""

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Features float32 [n, text_width] of texts, not normalised; long texts are truncated."""

    def too_long(self, texts: Sequence[str]) -> list[bool]:
        """Which of the texts are truncated."""


class EncoderLoader(Protocol):
    """Opens an encoder; small enough to be pickled and sent to a worker process."""

    def __call__(self, threads: int) -> Encoder:
        """The encoder, using this many threads."""


def encoder_loader(towers: Towers, source: str = "") -> tuple[EncoderLoader, Path | None]:
    """A loader of the encoder, and the folder of towers to copy into a model (None for a CLIP).

    `source` is the folder or the hub name of a CLIP or SigLIP model. Raises InputError if it is missing.
    """
    if towers == "lite":
        folder = lite.build()
        return lite.loader(folder), folder
    if not source:
        raise InputError("clip needs a source: the folder or the hub name of a CLIP or SigLIP model")
    from genius.encode.clip import ClipLoader
    from genius.encode.clip_folder import model_folder

    return ClipLoader(str(model_folder(source))), None
