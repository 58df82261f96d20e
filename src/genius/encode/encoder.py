"""Encoders: what each of them can do, and how one is opened by its name.

There are two sorts. The *towers* of `lite` make features of images and of texts in two spaces: trained heads
bring them together. A *joint* encoder (CLIP, SigLIP, sentence-transformers, vectors of one's own) has both in
one space already, so that a collection can be searched by it as it is (`genius fit`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

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


@runtime_checkable
class QueryEncoder(Protocol):
    """A joint encoder that encodes queries unlike items, by a prompt or by other weights."""

    def encode_queries(
        self, images: Sequence[Image.Image | None], texts: Sequence[str], instructions: Sequence[str]
    ) -> np.ndarray:
        """Features float32 [n, text_width] of queries: of an image, a text, or (a PairEncoder) of both.

        What is absent is None or empty; an instruction takes the place of the encoder's own prompt.
        """


@runtime_checkable
class PairEncoder(Protocol):
    """A joint encoder that encodes an image and its text together."""

    def encode_pairs(self, images: Sequence[Image.Image], texts: Sequence[str]) -> np.ndarray:
        """Features float32 [n, text_width] of images with their texts."""


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


def saved_encoder_loader(
    described: Mapping[str, Any], towers: Path, device: str | None = None
) -> EncoderLoader:
    """A loader of the joint encoder that a model's settings describe; `towers` are those inside the model.

    A CLIP, SigLIP or BLIP is opened on the `device`, if one is given.
    """
    kind, source = described["kind"], described["source"]
    if kind == "precomputed":
        from genius.encode.precomputed import PrecomputedLoader

        return PrecomputedLoader(int(described["width"]))
    if kind == "sentence-transformers":
        from genius.encode.sentence_transformers import SentenceTransformersLoader

        return SentenceTransformersLoader(source, bool(described.get("trust_remote_code")))
    if kind == "blip":
        from genius.encode.blip import BlipLoader

        return BlipLoader(str(towers), device or "cpu")
    from genius.encode.clip import ClipLoader

    return ClipLoader(source or str(towers), device or "cpu")
