"""Residual quantization by k-means alone: no contrast, no instruction, no modality code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from genius.quantize.quantizer import Quantizer

ITERATIONS = 25
"""Of k-means for a level, at most."""
MOST = 100_000
"""Vectors that codebooks are fitted to, at most."""


@dataclass(frozen=True, eq=False)
class ResidualCodes:
    """Codebooks, each fitted to what the ones before it left: the vectors of a level, [codes, width]."""

    codebooks: Sequence[np.ndarray]

    @classmethod
    def fit(cls, vectors: np.ndarray, *, levels: int, size: int, seed: int) -> Self:
        """Fit so many levels of so many codes to vectors [n, width], of fewer codes if these are fewer."""
        import torch

        from genius.quantize.kmeans import kmeans

        random = np.random.default_rng([seed, 31])
        rows = np.sort(random.choice(len(vectors), min(MOST, len(vectors)), replace=False))
        residuals = torch.from_numpy(np.asarray(vectors[rows], np.float32))
        generator, codebooks = torch.Generator().manual_seed(seed), []
        for _ in range(levels):
            count = min(size, len(residuals))
            centres, own = kmeans(residuals, count, iterations=ITERATIONS, generator=generator)
            codebooks.append(centres.numpy())
            residuals = residuals - centres[own]
        return cls(codebooks)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """From what `arrays` returned."""
        names = [name for name in arrays if name.startswith("level_")]
        return cls([arrays[f"level_{level}"] for level in range(len(names))])

    def arrays(self) -> dict[str, np.ndarray]:
        """The codebooks by level."""
        return {f"level_{level}": codebook for level, codebook in enumerate(self.codebooks)}

    @property
    def sizes(self) -> tuple[int, ...]:
        """Codes by level."""
        return tuple(map(len, self.codebooks))

    @cached_property
    def _quantizer(self) -> Quantizer:
        return Quantizer(self.codebooks, modality_code="none")

    def codes(self, vectors: np.ndarray) -> np.ndarray:
        """The nearest codes of vectors [n, width], level by level: uint16 [n, levels]."""
        return self._quantizer.codes(vectors)
