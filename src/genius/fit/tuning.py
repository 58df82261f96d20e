"""What training chooses by validation queries, chosen by self-retrieval: items ask for their neighbours.

How long a query's vector is: the code score v·q - ½‖q‖² ranks by distance, and quantized vectors q are
shorter the worse they fit, which has little to do with the query. A longer query lets directions count more.
The temperature: codes of a query's exact neighbours should be likely.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genius.decode.geometry import fit_temperature
from genius.fit.overlap import TOP, Neighbours, best_columns, exact_neighbours, mean_overlap, overlaps
from genius.quantize.quantizer import Quantizer

POOL = 16_384
"""Items, at most, that are searched."""
QUERIES = 1000
"""Items that are queries, at most."""
SCALES = (1.0, 1.5, 2.0, 3.0, 4.0)
"""Lengths of a query's vector that are tried."""
AS_GOOD = 0.01
"""An overlap that is lower by less than this is as good: then the shorter query is taken, since what queries
ask for is found a little better by it (hits @5 of codes as a ratio to exact search on emoji at 1, 1.5, 2, 3,
4: 0.94, 0.99, 1.00, 1.00, 0.98)."""
FLATTER = 2.5
"""Beams find most at this multiple of the likeliest temperature, as after training."""


@dataclass(frozen=True)
class Tuning:
    """What was chosen, and how much of exact search codes alone keep with it, by modality."""

    query_scale: float
    temperature: float
    codes_overlap: dict[str, float]


def tune(
    quantizer: Quantizer,
    vectors: np.ndarray,
    modality: np.ndarray,
    *,
    random: np.random.Generator,
) -> Tuning:
    """Choose by items' vectors [n, width] and modality [n]."""
    pool = np.sort(random.choice(len(vectors), min(POOL, len(vectors)), replace=False))
    vectors, modality = vectors[pool], modality[pool]
    codes = quantizer.codes(vectors, modality)
    queries = np.sort(random.choice(len(vectors), min(QUERIES, len(vectors)), replace=False))
    neighbours = exact_neighbours(vectors, modality, queries)
    quantized = quantizer.reconstruct(codes)
    tried = {scale: _codes_overlap(neighbours, vectors, modality, quantized, scale) for scale in SCALES}
    best = max(map(mean_overlap, tried.values()))
    scale = next(scale for scale in SCALES if mean_overlap(tried[scale]) > best - AS_GOOD)
    temperature = _temperature(quantizer, neighbours, vectors * np.float32(scale), codes, random)
    return Tuning(scale, temperature, tried[scale])


def _codes_overlap(
    neighbours: Neighbours, vectors: np.ndarray, modality: np.ndarray, quantized: np.ndarray, scale: float
) -> dict[str, float]:
    """The overlap of exhaustive search by codes, at one length of queries."""
    half_sq_norms = 0.5 * np.einsum("ij,ij->i", quantized, quantized)

    def search(queries: np.ndarray, kind: int) -> np.ndarray:
        members = np.flatnonzero(modality == kind)
        scores = scale * (vectors[queries] @ quantized[members].T) - half_sq_norms[members]
        return np.asarray(members[best_columns(scores, min(len(members), TOP + 1))])

    return overlaps(neighbours, search)


def _temperature(
    quantizer: Quantizer,
    neighbours: Neighbours,
    vectors: np.ndarray,
    codes: np.ndarray,
    random: np.random.Generator,
) -> float:
    """The temperature under which the codes of exact neighbours are likeliest, made flatter."""
    pairs = [
        (query, int(random.choice(best)))
        for exact in neighbours.exact.values()
        for query, best in zip(neighbours.queries, exact, strict=True)
    ]
    if not pairs:
        return 1.0
    queries, answers = np.array(pairs).T
    semantic = quantizer.codebooks[quantizer.semantic :]
    residuals = vectors[queries] - quantizer.codebooks[0][codes[answers, 0]]
    return FLATTER * fit_temperature(semantic, residuals, codes[answers, 1:].astype(np.int64))
