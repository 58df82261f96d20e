"""Codebooks fitted to a collection: residual k-means, refined by beams.

Each level is first fitted to what the levels before it leave over. Then all items are coded anew by a beam,
and each level's vectors move to the mean of what the other levels leave over, in turns: the sum of all levels
comes nearer to the items than greedy fitting brings it, while the levels stay ordered from coarse to fine.
Means of few items are drawn towards zero, or towards where they were: items that codebooks were not fitted
to are told better by it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from genius.data.records import MODALITIES
from genius.fit.kmeans import kmeans, means_by
from genius.progress import bar
from genius.quantize.quantizer import Quantizer

LEVELS = 8
"""Semantic levels of a code."""
LARGEST = 4096
"""Codes of a level, at most: twelve bits each."""
ITEMS_PER_CODE = 16
"""With fewer items for each code of a level, k-means would only remember them."""
BEAMS = 4
ITERATIONS = 6
SHRINKAGE = 2.0
"""Residuals of zero that count beside those that a code's vector is the mean of."""
ROUNDS = 2
"""How often codes and codebooks are refined in turns."""
REFINED = 16_384
"""Items that they are refined by, at most."""


def codes_per_level(items: int) -> int:
    """How many codes a level has, by the number of items: a power of two.

    >>> [codes_per_level(items) for items in (1, 10, 100, 1_000, 10_000, 100_000)]
    [1, 2, 8, 64, 512, 4096]
    """
    if items < 2:
        return 1
    return min(LARGEST, 1 << round(math.log2(max(2, items / ITEMS_PER_CODE))))


def fit_quantizer(
    vectors: np.ndarray,
    modality: np.ndarray,
    *,
    random: np.random.Generator,
    rounds: int = ROUNDS,
    beams: int = BEAMS,
    sizes: Sequence[int] | None = None,
) -> Quantizer:
    """A quantizer for items by their vectors [n, width] and modality [n]; the modality is the first code.

    `rounds` is how often codes and codebooks are refined, `beams` how many partial sums coding keeps, and
    `sizes` how many codes each semantic level has; by default the number of items decides.
    """
    sizes = sizes or [codes_per_level(len(vectors))] * LEVELS
    centres = np.tile(vectors.mean(0, dtype=np.float64), (len(MODALITIES), 1)).astype(np.float32)
    centres = means_by(vectors, modality, centres)
    residuals = vectors - centres[modality]
    books = _residual_kmeans(residuals, sizes, random)
    residuals = residuals[np.sort(random.choice(len(residuals), min(REFINED, len(residuals)), replace=False))]
    with bar("refining codebooks", total=rounds, unit="rounds") as shown:
        for _ in range(rounds):
            codes = Quantizer(books, modality_code="none", beams=beams).codes(residuals)
            books = _refined(residuals, books, codes)
            shown.advance(1)
    return Quantizer([centres, *books], modality_code="given", beams=beams)


def _residual_kmeans(
    residuals: np.ndarray, sizes: Sequence[int], random: np.random.Generator
) -> list[np.ndarray]:
    left, books = residuals.copy(), []
    with bar("fitting codebooks", total=len(sizes), unit="levels") as shown:
        for size in sizes:
            book, own = kmeans(left, size, iterations=ITERATIONS, random=random)
            counts = np.bincount(own, minlength=size)
            book *= (counts / (counts + SHRINKAGE)).astype(np.float32)[:, None]
            # By the code of the last iteration: to look for nearer ones costs a third of the time, and
            # refining codes them anew.
            left -= book[own]
            books.append(book)
            shown.advance(1)
    return books


def _refined(residuals: np.ndarray, books: list[np.ndarray], codes: np.ndarray) -> list[np.ndarray]:
    """Each level's vectors at the mean of what the other levels leave over, level after level, and of where
    they were as often as shrinkage says."""
    refined = list(books)
    left = residuals - sum(book[codes[:, level]] for level, book in enumerate(books))
    for level, book in enumerate(books):
        own = codes[:, level]
        left += book[own]
        counts = np.bincount(own, minlength=len(book)).astype(np.float32)[:, None]
        means = means_by(left, own, book)
        refined[level] = (counts * means + SHRINKAGE * book) / (counts + SHRINKAGE)
        left -= refined[level][own]
    return refined
