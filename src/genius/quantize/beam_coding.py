"""Codes of vectors by beam search: the nearest sum of code vectors among more than the greedy one.

Greedy coding takes the nearest code vector at each level, which need not lead to the nearest sum. Here
several partial sums are kept at each level; codebooks whose levels overlap, as fitted ones do, gain most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genius.jit import compiled, frozen

BLOCK = 64
"""Vectors that are coded at once, always so many: results don't depend on others."""


class BeamCoding:
    """Codes vectors by `beams` partial sums at each level.

    Args:
        codebooks: the vectors of each level, float32 [codes, width].
        beams: how many partial sums are kept.
    """

    def __init__(self, codebooks: Sequence[np.ndarray], beams: int) -> None:
        self.beams = beams
        books = [np.ascontiguousarray(book, np.float32) for book in codebooks]
        self._books = books
        self._transposed = [np.ascontiguousarray(book.T) for book in books]
        self._half_sq_norms = [(0.5 * np.einsum("ij,ij->i", book, book)).astype(np.float32) for book in books]

    def codes(self, vectors: np.ndarray) -> np.ndarray:
        """Codes [n, levels] of vectors float32 [n, width]."""
        codes = np.zeros((len(vectors), len(self._books)), np.int64)
        padded = np.zeros((BLOCK, self._books[0].shape[1]), np.float32)
        for start in range(0, len(vectors), BLOCK):
            block = vectors[start : start + BLOCK]
            padded[: len(block)] = block
            codes[start : start + len(block)] = self._block_codes(padded)[: len(block)]
        return codes

    def _block_codes(self, vectors: np.ndarray) -> np.ndarray:
        """The codes [BLOCK, levels] of a block.

        The score of a partial sum s of a vector v is v · s - ½‖s‖²: the larger, the nearer. A code vector e
        adds (v - s) · e - ½‖e‖² to it.
        """
        width = vectors.shape[1]
        residuals, scores = vectors[:, None], np.zeros((BLOCK, 1), np.float32)
        kept = np.zeros((BLOCK, 1, 0), np.int64)
        for book, transposed, half_sq_norms in zip(
            self._books, self._transposed, self._half_sq_norms, strict=True
        ):
            beams = residuals.shape[1]
            gained = (residuals.reshape(-1, width) @ transposed).reshape(BLOCK, beams, len(book))
            count = min(self.beams, beams * len(book))
            parents, own = np.zeros((BLOCK, count), np.int64), np.zeros((BLOCK, count), np.int64)
            best = np.zeros((BLOCK, count), np.float32)
            _take_best(frozen(gained), half_sq_norms, scores, best, parents, own)
            scores = best
            residuals = np.take_along_axis(residuals, parents[:, :, None], 1) - book[own]
            kept = np.concatenate([np.take_along_axis(kept, parents[:, :, None], 1), own[:, :, None]], 2)
        return kept[:, 0]


@compiled
def _take_best(
    gained: np.ndarray,
    half_sq_norms: np.ndarray,
    scores: np.ndarray,
    best: np.ndarray,
    parents: np.ndarray,
    own: np.ndarray,
) -> None:
    """Write the best continuations of each vector's partial sums: score, partial sum and code, best first.

    Of equal ones the first stays in front.
    """
    vectors, beams, codes = gained.shape
    room = best.shape[1]
    for number in range(vectors):
        filled = 0
        for beam in range(beams):
            for code in range(codes):
                score = scores[number, beam] + gained[number, beam, code] - half_sq_norms[code]
                if filled == room and score <= best[number, room - 1]:
                    continue
                place = filled if filled < room else room - 1
                while place > 0 and best[number, place - 1] < score:
                    best[number, place] = best[number, place - 1]
                    parents[number, place] = parents[number, place - 1]
                    own[number, place] = own[number, place - 1]
                    place -= 1
                best[number, place], parents[number, place], own[number, place] = score, beam, code
                filled = min(filled + 1, room)
