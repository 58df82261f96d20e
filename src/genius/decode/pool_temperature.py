"""A temperature for the geometry where there are no queries to fit it to: items ask for their neighbours."""

from __future__ import annotations

import math

import numpy as np

from genius.decode.geometry import fit_temperature
from genius.quantize.quantizer import Quantizer, unit_length

POOL, QUERIES, NEIGHBOURS = 20_000, 500, 10
"""Items that are looked at, items that ask, and how many neighbours they ask for."""
FLATTER = 2.5
"""Beams find most at this multiple of the likeliest temperature, as after training."""
STEPS_PER_DOUBLING = 4
"""Temperatures are rounded to so many steps: a few more items change nothing, and what beams find hardly
depends on it."""


def pool_rows(count: int) -> np.ndarray:
    """The numbers of the items, of `count`, that are looked at: all, or evenly spaced ones."""
    return np.arange(count)[:: max(1, -(-count // POOL))]


def pool_temperature(quantizer: Quantizer, embeddings: np.ndarray, codes: np.ndarray) -> float:
    """The temperature under which the codes of items' neighbours are likely.

    `codes` [n, levels] are those of the items of `pool_rows`, and `embeddings` [n, width] tell which of them
    are neighbours; without any (of width 0) quantized vectors do. An item asks by its quantized vector.
    """
    if len(codes) < 2:
        return 1.0
    quantized = quantizer.reconstruct(codes)
    directions = np.asarray(embeddings, np.float32) if embeddings.shape[1] else unit_length(quantized)
    askers = np.arange(len(codes))[:: max(1, len(codes) // QUERIES)]
    products = directions[askers] @ directions.T
    products[np.arange(len(askers)), askers] = -np.inf
    count = min(NEIGHBOURS, len(codes) - 1)
    nearest = np.argpartition(-products, count - 1, axis=1)[:, :count]
    # One neighbour each, the first of one item, the second of the next, and so on.
    answers = nearest[np.arange(len(askers)), np.arange(len(askers)) % count]
    vectors, levels = quantized[askers], slice(None)
    if quantizer.modality_code == "given":  # it is known, and never scored
        vectors, levels = vectors - quantizer.codebooks[0][codes[answers, 0]], slice(1, None)
    books, targets = quantizer.codebooks[levels], codes[answers][:, levels].astype(np.int64)
    temperature = FLATTER * fit_temperature(books, vectors, targets)
    return float(2 ** (round(STEPS_PER_DOUBLING * math.log2(temperature)) / STEPS_PER_DOUBLING))
