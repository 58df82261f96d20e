"""IRGen's identifiers: residual codes of images alone.

Paper: https://arxiv.org/abs/2303.10126 (IRGen; ECCV 2024). Its figures for text → image (images replaced by
texts as queries): GENIUS's Table 3. Published is image → image.
Known (from the paper and the authors' code, github.com/yakt00/IRGen): one feature of an image, by a ViT that
was tuned to classify, before and after quantization; four codes of 256 by residual quantization, which is
k-means level by level over the features; images of the same codes are all returned; an encoder-decoder (12
layers each, a ViT and a transformer) is trained to generate the codes of an image of the same class, with
label smoothing 0.1, and searched with 30 beams over the tree of codes that exist.
Ours: the feature is the image's embedding by stage 0, since there are no classes to tune on; codebooks are
fitted to images alone (of a pair, to its image); texts, which IRGen does not have, are coded by the same
codebooks, so that every pool has all its items. No instruction reaches the decoder or the embeddings of
queries, and no modality code is there. The decoder is the T5-style one of GENIUS over the query's embedding,
an image's or a text's; there is no encoder of patches that is trained with it.
Size: 4 levels of 256, 32 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from genius.errors import InputError
from genius.identifiers.residual_codes import ResidualCodes
from genius.identifiers.scheme import ItemContents, TrainingTexts

LEVELS, SIZE = 4, 256


@dataclass(frozen=True, eq=False)
class IrGen:
    """Residual codes of an item's image."""

    reads_instructions: ClassVar[bool] = False

    residual: ResidualCodes

    @classmethod
    def fit(cls, items: ItemContents, texts: TrainingTexts, seed: int) -> Self:
        """Fit codebooks to the images among the items. Raises InputError if there are none."""
        images = image_vectors(items)[items.inputs.has_image]
        if not len(images):
            raise InputError("irgen identifiers are codes of images, and no item has one")
        return cls(ResidualCodes.fit(images, levels=LEVELS, size=SIZE, seed=seed))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """From what `arrays` returned."""
        return cls(ResidualCodes.from_arrays(arrays))

    def arrays(self) -> dict[str, np.ndarray]:
        """The codebooks."""
        return self.residual.arrays()

    @property
    def stem_sizes(self) -> tuple[int, ...]:
        """Codes by level."""
        return self.residual.sizes

    def stems(self, items: ItemContents) -> np.ndarray:
        """The codes of items, uint16 [n, levels]."""
        return self.residual.codes(image_vectors(items))

    @property
    def number_sizes(self) -> tuple[int, ...]:
        """None: items of the same codes share their identifier."""
        return ()

    @property
    def room(self) -> int:
        """There are no numbers."""
        return 0

    def write_numbers(self, numbers: np.ndarray) -> np.ndarray:
        """Empty, uint16 [n, 0]."""
        return np.zeros((len(numbers), 0), np.uint16)


def image_vectors(items: ItemContents) -> np.ndarray:
    """The embedding of each item's image, float32 [n, width], or of its text if it has no image."""
    inputs = items.inputs
    vectors = inputs.embeddings.astype(np.float32)
    both = inputs.part_rows >= 0
    vectors[both] = inputs.image_parts[inputs.part_rows[both]]
    return vectors
