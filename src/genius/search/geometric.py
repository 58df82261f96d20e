"""Geometry as a decoder at speed: the same scores as `decode.geometry`, mostly by looking them up.

What a code e adds depends on r·e for the residual r = z_q − Σ_{i<k} e_i of a query and a prefix. That is
z_q·e, once for a query and not for each of its beams, less Σ e_i·e, which does not depend on the query:
products between code vectors are kept in tables, made when they are first needed. At 4096 codes a level a
table takes 64 MB, so only the first levels have them, within a limit; those behind are scored by residuals.
"""

from __future__ import annotations

import numpy as np

from genius.decode.decoder import check_queries, log_softmax
from genius.decode.geometry import Geometry
from genius.search.scoring import row_by_row_products as one_by_one

MEMORY = 1 << 27
"""How many bytes of tables there may be: all levels at 1024 codes, the second semantic one at 4096."""

TRIALS = 3
BLOCK = 32  # rows at a time: half a megabyte at 4096 codes, which stays near the processor
ROWS = (64, 8)
"""Of a matrix product: the first of these that rounds a row alike wherever it stands. Which one does depends
on the processor, whose library cuts matrices into pieces of its own."""


class QuickGeometry:
    """A decoder with the scores of a geometry, to within rounding.

    Args:
        geometry: the decoder to be like.
        memory: how many bytes its tables may take.
    """

    def __init__(self, geometry: Geometry, memory: int = MEMORY) -> None:
        self.codebooks = geometry.codebooks
        self.sizes = geometry.sizes
        self.temperature = geometry.temperature
        factor = np.float32(2 / geometry.temperature)
        self._scaled = [np.ascontiguousarray(book * factor) for book in geometry.codebooks]
        self._lengths = [
            np.einsum("ij,ij->i", book, book) / np.float32(geometry.temperature) for book in self.codebooks
        ]
        self._tables: dict[tuple[int, int], np.ndarray] = {}
        self._rows: dict[int, int] = {}
        sizes = np.array(self.sizes, np.int64)
        needed = np.cumsum([4 * sizes[:level].sum() * sizes[level] for level in range(len(sizes))])
        self.tabled = int(np.searchsorted(needed, memory, side="right"))
        """How many levels have tables."""

    def begin(self, vectors: np.ndarray, first: np.ndarray | None = None) -> QuickDecoding:
        """Start with one row for each query vector [n, width], behind its first code if that is given."""
        check_queries(vectors, first, self.codebooks[0].shape[1], self.sizes[0])
        decoding = QuickDecoding(self, np.ascontiguousarray(vectors, np.float32))
        if first is not None:
            decoding.advance(np.arange(len(vectors)), first)
        return decoding

    def warm_up(self) -> None:
        """Make all tables that there may be."""
        for level in range(self.tabled):
            for above in range(level):
                self.table(above, level)

    def table(self, above: int, level: int) -> np.ndarray:
        """2 e_i·e_k / τ of all codes of a level above and those of `level`, float32 [codes, codes]."""
        if (above, level) not in self._tables:
            self._tables[above, level] = self.codebooks[above] @ self._scaled[level].T
        return self._tables[above, level]

    def _rows_of(self, level: int) -> int:
        """How many rows are multiplied at once with a level's vectors; found by trial, once."""
        if level not in self._rows:
            self._rows[level] = next((rows for rows in ROWS if _alike(self._scaled[level], rows)), 1)
        return self._rows[level]

    def logits(self, level: int, residuals: np.ndarray) -> np.ndarray:
        """−‖r − e‖² / τ but for what all codes share, float32 [n, codes], of residuals r [n, width].

        A row's result does not depend on its company: few rows, the queries', are multiplied one by one, and
        many, the beams', in matrix products of one size.
        """
        rows = 1 if level < self.tabled else self._rows_of(level)
        scaled = self._scaled[level]
        logits = one_by_one(residuals, scaled) if rows == 1 else _in_blocks(residuals, scaled, rows)
        logits -= self._lengths[level]
        return logits


class QuickDecoding:
    """One search by geometry: it remembers the codes of each row, and below the tables what remains."""

    def __init__(self, geometry: QuickGeometry, vectors: np.ndarray) -> None:
        self._geometry = geometry
        self._vectors = vectors
        self._queries = np.arange(len(vectors))
        self._codes = np.empty((0, len(vectors)), np.int64)
        self._residuals: np.ndarray | None = None

    def scores(self) -> np.ndarray:
        """Log-probabilities float32 [rows, codes of the next level]."""
        geometry, level = self._geometry, len(self._codes)
        if level >= geometry.tabled:
            if self._residuals is None:
                self._residuals = self._remaining()
            logits = geometry.logits(level, self._residuals)
            for start in range(0, len(logits), BLOCK):
                log_softmax(logits[start : start + BLOCK])
            return logits
        asked, places = np.unique(self._queries, return_inverse=True)
        products = geometry.logits(level, self._vectors[asked])
        logits = np.empty((len(places), geometry.sizes[level]), np.float32)
        for start in range(0, len(logits), BLOCK):
            some = slice(start, start + BLOCK)
            logits[some] = products[places[some]]
            for above, codes in enumerate(self._codes):
                logits[some] -= geometry.table(above, level)[codes[some]]
            log_softmax(logits[some])
        return logits

    def advance(self, rows: np.ndarray, codes: np.ndarray) -> None:
        """Go one level down: keep these rows, each extended by its code."""
        level = len(self._codes)
        if self._residuals is not None:
            self._residuals = self._residuals[rows] - self._geometry.codebooks[level][codes]
        self._queries = self._queries[rows]
        self._codes = np.concatenate([self._codes[:, rows], np.asarray(codes, np.int64)[None]])

    def _remaining(self) -> np.ndarray:
        """What remains of each row's query: its vector less those of its codes."""
        residuals = self._vectors[self._queries]
        for book, codes in zip(self._geometry.codebooks, self._codes, strict=False):
            residuals -= book[codes]
        return residuals


def _in_blocks(rows: np.ndarray, book: np.ndarray, block: int) -> np.ndarray:
    """The inner products [n, codes] of rows with the vectors of a codebook, so many rows at a time."""
    padded = np.zeros((-(-len(rows) // block) * block, rows.shape[1]), np.float32)
    padded[: len(rows)] = rows
    products = np.empty((len(padded), len(book)), np.float32)
    for start in range(0, len(padded), block):
        np.matmul(padded[start : start + block], book.T, out=products[start : start + block])
    return products[: len(rows)]


def _alike(book: np.ndarray, rows: int) -> bool:
    """Whether a row's products are the same at all places of a block."""
    trials = np.random.default_rng(0).normal(size=(TRIALS, book.shape[1])).astype(np.float32)
    for one in trials:
        products = _in_blocks(np.tile(one, (rows, 1)), book, rows)
        if (products != products[0]).any():
            return False
    return True
