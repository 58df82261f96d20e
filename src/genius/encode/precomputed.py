"""Vectors of one's own instead of an encoder: items and queries bring them along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from genius.errors import InputError

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True)
class Precomputed:
    """Stands where an encoder would be; it can't encode anything."""

    width: int

    @property
    def fingerprint(self) -> str:
        """The same for all vectors of one width: only the user knows which encoder made them."""
        return f"precomputed-{self.width}"

    @property
    def image_width(self) -> int:
        """Width of an image's vector."""
        return self.width

    @property
    def text_width(self) -> int:
        """Width of a text's vector."""
        return self.width

    @property
    def image_parts(self) -> Mapping[str, int]:
        """One part."""
        return {"features": self.width}

    @property
    def text_parts(self) -> Mapping[str, int]:
        """One part."""
        return {"features": self.width}

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """Raises InputError."""
        self._refuse("an image")

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Raises InputError."""
        self._refuse("a text")

    def too_long(self, texts: Sequence[str]) -> list[bool]:
        """No text is read, so none is truncated."""
        return [False] * len(texts)

    def _refuse(self, what: str) -> NoReturn:
        raise InputError(
            f"this model was fitted on vectors that were given, so it can't embed {what}: "
            f"give a vector of the same encoder, {self.width} numbers (vector=…, --vector FILE)"
        )


@dataclass(frozen=True)
class PrecomputedLoader:
    """Opens `Precomputed` in a worker process."""

    width: int

    def __call__(self, threads: int) -> Precomputed:
        """What stands where an encoder would be."""
        return Precomputed(self.width)
