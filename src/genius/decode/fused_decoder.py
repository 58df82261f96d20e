"""The learned decoder with geometry added to its logits: geometric score fusion.

    logit_j += w · standardised_j(2 (z_q − r̂)·e_j − ‖e_j‖²)

over the codes j of a level, with r̂ the sum of the prefix's code vectors: −‖z_q − r̂ − e_j‖² but for what all
codes share, so what `geometry` scores by. Nothing is trained for it. An idea of PRO
(https://arxiv.org/abs/2606.09241), of which we have a summary and not the paper. Known from that: the formula
and w of about 10. Our choices: mean and standard deviation are taken over all codes of the level, whether
items have them or not; log-probabilities are normalised over the level's codes after the addition; and the
modality's level, which PRO does not have, is the network's alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genius.decode.decoder import Decoder, DecodingState, log_softmax
from genius.decode.geometry import BLOCK, Geometry, GeometryState
from genius.errors import InputError, MismatchError


@dataclass(frozen=True)
class GeometricFusionSettings:
    """Geometric score fusion, an idea of PRO (arXiv 2606.09241): geometry's scores are added to the learned
    decoder's logits when codes are searched. Training does not know of it, so a trained model is changed at
    once. Off by default; see `recipes/rivals/pro-fusion.toml`."""

    weight: float = 0.0
    """Of geometry's scores, which are standardised over the codes of a level; 0 is off, PRO has about 10."""

    def __post_init__(self) -> None:
        if not (np.isfinite(self.weight) and self.weight >= 0):
            raise InputError(f"the weight of geometric fusion should be at least 0, not {self.weight}")


def fusion_settings(described: Mapping[str, Any]) -> GeometricFusionSettings:
    """How geometry is added to a learned decoder that a model's settings describe."""
    return GeometricFusionSettings(**described.get("geometric_fusion", {}))


class FusedDecoder:
    """A `Decoder` that adds geometry's scores to those of another one.

    Args:
        learned: the decoder whose log-probabilities they are added to, by torch or ONNX Runtime.
        geometry: has the code vectors; its temperature does not matter.
        weight: of the standardised scores.
        semantic: the first level that they are added to.

    Raises MismatchError if the two don't have the same codes, and InputError if there are no code vectors.
    """

    def __init__(self, learned: Decoder, geometry: Geometry, weight: float, semantic: int = 0) -> None:
        if list(learned.sizes) != list(geometry.sizes):
            raise MismatchError(
                f"the learned decoder knows levels of {list(learned.sizes)} codes, and the code vectors have "
                f"{list(geometry.sizes)}: they were made by different models"
            )
        if not any(book.any() for book in geometry.codebooks[semantic:]):
            raise InputError(
                "geometric fusion scores codes by their vectors, and this model's codes have none: "
                "search without it (weight = 0)"
            )
        self.learned, self.geometry = learned, geometry
        self.weight, self.semantic = GeometricFusionSettings(weight).weight, semantic

    @property
    def sizes(self) -> Sequence[int]:
        """How many codes each level has."""
        return self.learned.sizes

    def begin(self, vectors: np.ndarray, modality_codes: np.ndarray | None = None) -> FusedState:
        """Start with one row for each query vector [n, width], behind its modality code if that is given."""
        learned, geometry = (
            decoder.begin(vectors) if modality_codes is None else decoder.begin(vectors, modality_codes)
            for decoder in (self.learned, self.geometry)
        )
        assert isinstance(geometry, GeometryState)
        return FusedState(self, learned, geometry)


class FusedState:
    """A `DecodingState` by both decoders."""

    def __init__(self, decoder: FusedDecoder, learned: DecodingState, geometry: GeometryState) -> None:
        self._decoder, self._learned, self._geometry = decoder, learned, geometry

    def scores(self) -> np.ndarray:
        """Log-probabilities float32 [rows, codes of the next level]."""
        log_probs = self._learned.scores()
        if self._geometry.level < self._decoder.semantic:
            return log_probs
        logits = self._geometry.scores_by(standardise)
        for start in range(0, len(logits), BLOCK):
            block = slice(start, start + BLOCK)
            logits[block] *= np.float32(self._decoder.weight)
            logits[block] += log_probs[block]  # logits but for what all codes of a row share
            log_softmax(logits[block])
        return logits

    def advance(self, rows: np.ndarray, codes: np.ndarray) -> None:
        """Go one level down: keep these rows, each extended by its code."""
        self._learned.advance(rows, codes)
        self._geometry.advance(rows, codes)


def standardise(logits: np.ndarray) -> np.ndarray:
    """Logits [rows, codes] less their row's mean, in units of its standard deviation, in place.

    A row whose logits are all the same, but for rounding, becomes zeros: it says nothing about its codes.
    """
    sizes = np.abs(logits).max(axis=1, keepdims=True)
    logits -= logits.mean(axis=1, keepdims=True, dtype=np.float64).astype(np.float32)
    deviations = np.sqrt(np.square(logits, dtype=np.float64).mean(axis=1, keepdims=True)).astype(np.float32)
    flat = deviations <= 4 * np.finfo(np.float32).eps * sizes
    logits /= np.where(flat, np.float32(1), deviations)
    logits *= ~flat
    return logits
