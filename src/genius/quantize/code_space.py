"""What a search needs to know of codes, wherever they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class CodeSpace(Protocol):
    """Codes of so many levels: of a quantizer, whose codes have vectors, or identifiers that have none."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Codes by level."""

    @property
    def semantic(self) -> int:
        """The first semantic level: 1 behind a modality code, else 0."""

    @property
    def width(self) -> int:
        """Of the vectors that a decoder reads."""

    @property
    def modality_code(self) -> str:
        """Where the first code comes from (`quantizer.ModalityCode`)."""

    @property
    def codebooks(self) -> Sequence[np.ndarray] | None:
        """The vectors of each level, [codes, width]; None if codes have none."""

    def reconstruct(self, codes: np.ndarray, levels: int | None = None) -> np.ndarray:
        """Quantized vectors float32 [n, width]. Raises MissingError if codes have no vectors."""

    def units(self, codes: np.ndarray) -> np.ndarray:
        """The same at unit length."""

    def half_sq_norms(self, codes: np.ndarray) -> np.ndarray:
        """Half the squared norms of quantized vectors, float32 [n]; zeros if there are none."""
