"""Codes of vectors by beam search: the nearest sum of code vectors among more than the greedy one.

Greedy coding takes the nearest code vector at each level, which need not lead to the nearest sum. Here
several partial sums are kept at each level; codebooks whose levels overlap, as fitted ones do, gain most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from genius.jit import compiled, frozen

BLOCK = 64
"""Vectors that are multiplied with the codebooks at once, always so many: results don't depend on others."""


class BeamCoding:
    """Codes vectors by `beams` partial sums at each level.

    Args:
        codebooks: the vectors of each level, float32 [codes, width].
        beams: how many partial sums are kept.
    """

    def __init__(self, codebooks: Sequence[np.ndarray], beams: int) -> None:
        self.beams = beams
        self._books = [np.ascontiguousarray(book, np.float32) for book in codebooks]
        self._sizes = np.array([len(book) for book in self._books], np.int64)
        self._all = np.concatenate(self._books)
        self._starts = np.concatenate([[0], np.cumsum(self._sizes)]).astype(np.int64)
        self._half_sq_norms = (0.5 * np.einsum("ij,ij->i", self._all, self._all)).astype(np.float32)
        # Σ e_i·e for all codes of the levels above: what a partial sum takes from the product with a vector
        self._products = frozen(self._all @ self._all.T)

    def codes(self, vectors: np.ndarray) -> np.ndarray:
        """Codes [n, levels] of vectors float32 [n, width]."""
        codes = np.zeros((len(vectors), len(self._books)), np.int64)
        padded = np.zeros((BLOCK, self._all.shape[1]), np.float32)
        for start in range(0, len(vectors), BLOCK):
            block = vectors[start : start + BLOCK]
            padded[: len(block)] = block
            products = padded @ self._all.T
            _search(
                frozen(products[: len(block)]),
                self._half_sq_norms,
                self._products,
                self._starts,
                self.beams,
                codes[start : start + len(block)],
            )
        return codes


@compiled
def _search(
    products: np.ndarray,
    half_sq_norms: np.ndarray,
    between: np.ndarray,
    starts: np.ndarray,
    beams: int,
    codes: np.ndarray,
) -> None:
    """Write the best codes of each row, by the products of rows and of code vectors with code vectors.

    The score of a partial sum s is row · s - ½‖s‖²: the larger, the nearer.
    """
    levels = len(starts) - 1
    kept = np.zeros((beams, levels), np.int64)
    taken = np.zeros((beams, levels), np.int64)
    scores, new_scores = np.zeros(beams, np.float32), np.zeros(beams, np.float32)
    parents, own = np.zeros(beams, np.int64), np.zeros(beams, np.int64)
    for number in range(len(products)):
        count = 1
        scores[0] = 0.0
        for level in range(levels):
            first, size = starts[level], starts[level + 1] - starts[level]
            row = products[number, first : first + size] - half_sq_norms[first : first + size]
            filled = 0
            for beam in range(count):
                gained = row + scores[beam]
                for above in range(level):
                    gained = gained - between[starts[above] + kept[beam, above], first : first + size]
                filled = _take(gained, beam, filled, beams, new_scores, parents, own)
            for place in range(filled):
                taken[place, :level] = kept[parents[place], :level]
                taken[place, level] = own[place]
                scores[place] = new_scores[place]
            kept, taken, count = taken, kept, filled
        codes[number] = kept[0]


@compiled
def _take(
    gained: np.ndarray,
    beam: int,
    filled: int,
    beams: int,
    scores: np.ndarray,
    parents: np.ndarray,
    own: np.ndarray,
) -> Any:
    """Insert a partial sum's continuations into the best so far, which are sorted; returns their number.

    Of equal ones the first stays in front.
    """
    for code in range(len(gained)):
        score = gained[code]
        if filled == beams and score <= scores[filled - 1]:
            continue
        place = filled if filled < beams else filled - 1
        while place > 0 and scores[place - 1] < score:
            scores[place], parents[place], own[place] = scores[place - 1], parents[place - 1], own[place - 1]
            place -= 1
        scores[place], parents[place], own[place] = score, beam, code
        filled = min(filled + 1, beams)
    return filled
