"""What the fusion reads of records: their image part, their text part, and their joined embedding φ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from genius.encode.direct import MaskedFeatures

KINDS = 3
IMAGE_QUERY, TEXT_QUERY, BOTH_QUERY = range(KINDS)
"""Kinds of query, by what they have: settings that validation chooses may differ between them."""


def query_kinds(has_image: np.ndarray, has_text: np.ndarray) -> np.ndarray:
    """The kinds [n] of queries by what they have, bool [n]; one that has nothing counts as a text."""
    return np.where(has_image, np.where(has_text, BOTH_QUERY, IMAGE_QUERY), TEXT_QUERY)


@dataclass(frozen=True)
class FusionInputs:
    """The parts of n records, in float16 or float32.

    The image part is the embedding of a record's image alone, the text part that of its text alone. A record
    with only one of them has it as its joined embedding, so parts are stored for records with both only.

    Attributes:
        embeddings: joined embeddings φ (of image and text together), [n, width].
        has_image: whether a record has an image, bool [n].
        has_text: whether it has a text, bool [n].
        part_rows: the row of a record with both in the two arrays below, or -1, [n].
        image_parts: [records with both, width].
        text_parts: [records with both, width].
        lengths: of the features that the image part and the text part were before they got unit length,
            float32 [n, 2]; None where the encoder gives unit length.
    """

    embeddings: np.ndarray
    has_image: np.ndarray
    has_text: np.ndarray
    part_rows: np.ndarray
    image_parts: np.ndarray
    text_parts: np.ndarray
    lengths: np.ndarray | None = None

    @classmethod
    def from_parts(
        cls,
        embeddings: np.ndarray,
        image: tuple[np.ndarray, np.ndarray],
        text: tuple[np.ndarray, np.ndarray],
        lengths: np.ndarray | None = None,
    ) -> FusionInputs:
        """From joined embeddings [n, width] and both parts: rows [n, width], and which are present [n]."""
        (image_parts, has_image), (text_parts, has_text) = image, text
        both = has_image & has_text
        part_rows = np.where(both, np.cumsum(both) - 1, -1)
        return cls(embeddings, has_image, has_text, part_rows, image_parts[both], text_parts[both], lengths)

    def __len__(self) -> int:
        return len(self.embeddings)

    @property
    def width(self) -> int:
        """Of every part."""
        return int(self.embeddings.shape[1])

    @property
    def kinds(self) -> np.ndarray:
        """The kind of query [n] that each record is."""
        return query_kinds(self.has_image, self.has_text)

    def __getitem__(self, rows: np.ndarray | slice) -> dict[str, np.ndarray]:
        """The inputs of the fusion for these records by name, float32 or bool."""
        embeddings = self.embeddings[rows].astype(np.float32)
        part_rows = self.part_rows[rows]
        both = part_rows >= 0
        image, text = embeddings.copy(), embeddings.copy()
        image[both], text[both] = self.image_parts[part_rows[both]], self.text_parts[part_rows[both]]
        lengths = self.feature_lengths[rows]
        return {
            "embeddings": embeddings,
            "image": image,
            "has_image": self.has_image[rows],
            "text": text,
            "has_text": self.has_text[rows],
            "image_length": lengths[:, 0].copy(),
            "text_length": lengths[:, 1].copy(),
        }

    @property
    def feature_lengths(self) -> np.ndarray:
        """How long the features of image and text were, float32 [n, 2]."""
        return np.ones((len(self), 2), np.float32) if self.lengths is None else self.lengths


def concatenate(blocks: Sequence[FusionInputs]) -> FusionInputs:
    """The parts of several blocks of records, one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    starts = np.cumsum([0, *(len(block.image_parts) for block in blocks)])
    part_rows = [
        np.where(block.part_rows >= 0, block.part_rows + start, -1)
        for block, start in zip(blocks, starts, strict=False)
    ]
    return FusionInputs(
        np.concatenate([block.embeddings for block in blocks]),
        np.concatenate([block.has_image for block in blocks]),
        np.concatenate([block.has_text for block in blocks]),
        np.concatenate(part_rows),
        np.concatenate([block.image_parts for block in blocks]),
        np.concatenate([block.text_parts for block in blocks]),
        None
        if all(block.lengths is None for block in blocks)
        else np.concatenate([block.feature_lengths for block in blocks]),
    )


def embedded_parts(
    embed: Callable[[MaskedFeatures, MaskedFeatures, np.ndarray], np.ndarray],
    image: MaskedFeatures,
    text: MaskedFeatures,
    lengths: np.ndarray | None = None,
) -> FusionInputs:
    """Embeddings of records, and for those with an image and a text also of each of the two alone.

    `embed` takes features of image and text, and the numbers [n] of the records that these are of.
    """
    embeddings = embed(image, text, np.arange(len(image[1])))
    both = np.flatnonzero(image[1] & text[1])
    if not len(both):
        return FusionInputs.from_parts(embeddings, (embeddings, image[1]), (embeddings, text[1]), lengths)
    images, texts = (image[0][both], image[1][both]), (text[0][both], text[1][both])
    absent = np.zeros(len(both), bool)
    image_alone, text_alone = np.zeros_like(embeddings), np.zeros_like(embeddings)
    image_alone[both] = embed(images, (texts[0], absent), both)
    text_alone[both] = embed((images[0], absent), texts, both)
    return FusionInputs.from_parts(embeddings, (image_alone, image[1]), (text_alone, text[1]), lengths)


def feature_lengths(image: MaskedFeatures, text: MaskedFeatures) -> np.ndarray:
    """How long the features of images and texts are, float32 [n, 2]."""
    lengths = [np.linalg.norm(features.astype(np.float64), axis=1) for features, _ in (image, text)]
    return np.stack(lengths, axis=1).astype(np.float32)
