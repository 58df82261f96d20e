"""What the fusion looks at: each record's picture part and text part, and the two joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class FusionInputs:
    """Parts of n records [n, width] in float16 or float32.

    A record with one part is that part joined, so only records with both have rows of their own for parts:
    `both` is a record's row in `images` and `texts`, or -1.
    """

    embeddings: np.ndarray
    has_image: np.ndarray
    has_text: np.ndarray
    both: np.ndarray
    images: np.ndarray
    texts: np.ndarray

    def __len__(self) -> int:
        return len(self.embeddings)

    @property
    def width(self) -> int:
        """Of every part."""
        return int(self.embeddings.shape[1])

    def __getitem__(self, rows: np.ndarray | slice) -> dict[str, np.ndarray]:
        """The inputs of the fusion for these records, by name."""
        embeddings = self.embeddings[rows].astype(np.float32)
        both = self.both[rows]
        own = both >= 0
        image, text = embeddings.copy(), embeddings.copy()
        image[own], text[own] = self.images[both[own]], self.texts[both[own]]
        return {
            "embeddings": embeddings,
            "image": image,
            "has_image": self.has_image[rows],
            "text": text,
            "has_text": self.has_text[rows],
        }


def gather(
    embeddings: np.ndarray, image: tuple[np.ndarray, np.ndarray], text: tuple[np.ndarray, np.ndarray]
) -> FusionInputs:
    """Parts from rows of joined embeddings, and of both parts with which of them are there."""
    both = image[1] & text[1]
    numbers = np.where(both, np.cumsum(both) - 1, -1)
    return FusionInputs(embeddings, image[1], text[1], numbers, image[0][both], text[0][both])


def concatenate(blocks: Sequence[FusionInputs]) -> FusionInputs:
    """Parts of several blocks of records, one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    before = np.cumsum([0, *(len(block.images) for block in blocks)])
    both = [np.where(block.both >= 0, block.both + n, -1) for block, n in zip(blocks, before, strict=False)]
    return FusionInputs(
        np.concatenate([block.embeddings for block in blocks]),
        np.concatenate([block.has_image for block in blocks]),
        np.concatenate([block.has_text for block in blocks]),
        np.concatenate(both),
        np.concatenate([block.images for block in blocks]),
        np.concatenate([block.texts for block in blocks]),
    )
