"""An encoder whose features can be read off an image or a text, and which notes what it encodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from genius.data.mbeir import Tree
from genius.encode.inputs import EncoderInputs


@dataclass(frozen=True)
class ToyEncoder:
    """Features are an image's mean colour, and a text's numbers of letters and words."""

    diary: Path
    fingerprint: str = "toy"
    image_width: int = 3
    text_width: int = 2

    @property
    def image_parts(self) -> dict[str, int]:
        return {"colour": 3}

    @property
    def text_parts(self) -> dict[str, int]:
        return {"length": 2}

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        self._note(*("x".join(map(str, np.asarray(image)[0, 0])) for image in images))
        return np.array([np.asarray(image, np.float32).mean((0, 1)) for image in images], np.float32)

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        self._note(*texts)
        return np.array([[len(text), len(text.split())] for text in texts], np.float32)

    def too_long(self, texts: Sequence[str]) -> list[bool]:
        return [False] * len(texts)

    def _note(self, *names: str) -> None:
        with self.diary.open("a") as file:
            file.writelines(f"{name}\n" for name in names)


@dataclass(frozen=True)
class ToyLoader:
    diary: Path
    fingerprint: str = "toy"

    def __call__(self, threads: int) -> ToyEncoder:
        return ToyEncoder(self.diary, self.fingerprint)


def inputs_of(tree: Path) -> EncoderInputs:
    """All images and texts of an M-BEIR tree."""
    inputs = EncoderInputs()
    inputs.add_tree(Tree(tree))
    return inputs
