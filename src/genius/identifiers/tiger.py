"""TIGER's semantic ids: residual codes of an item's embedding, then a number that separates collisions.

Paper: https://arxiv.org/abs/2305.05065 (TIGER; NeurIPS 2023), a recommender.
Known (from what others write of it, not from its code): the embedding of an item's content by a frozen text
encoder; an RQ-VAE with three levels of 256 codes over it; a fourth number where items have the same codes; an
encoder-decoder that reads the ids of the items before and generates that of the next one.
Ours: residual k-means over embeddings of stage 0 instead of an RQ-VAE (no encoder below the codes, no loss);
the number is there for every item; the decoder reads a query's embedding, as there is no history.
Size: 3 levels of 256 and one of 256 or more, 32 to 40 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from genius.identifiers.residual_codes import ResidualCodes
from genius.identifiers.scheme import ItemContents, SingleSymbolNumbers, TrainingTexts, room_for

LEVELS, SIZE = 3, 256


@dataclass(frozen=True)
class Tiger(SingleSymbolNumbers):
    """Residual codes of an item's embedding, and a number."""

    residual: ResidualCodes

    @classmethod
    def fit(cls, items: ItemContents, texts: TrainingTexts, seed: int) -> Self:
        """Fit codebooks to the embeddings of all items."""
        embeddings = items.inputs.embeddings
        residual = ResidualCodes.fit(embeddings, levels=LEVELS, size=SIZE, seed=seed)
        return cls(room_for(residual.codes(embeddings)), residual)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """From what `arrays` returned."""
        return cls(int(arrays["room"][0]), ResidualCodes.from_arrays(arrays))

    def arrays(self) -> dict[str, np.ndarray]:
        """The codebooks."""
        return self.residual.arrays() | {"room": np.array([self.room])}

    @property
    def stem_sizes(self) -> tuple[int, ...]:
        """Codes by level."""
        return self.residual.sizes

    def stems(self, items: ItemContents) -> np.ndarray:
        """The codes of items, uint16 [n, levels]."""
        return self.residual.codes(items.inputs.embeddings)
