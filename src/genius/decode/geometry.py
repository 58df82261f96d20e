"""A decoder without a network: the nearer a code's vector is to the query's residual, the likelier the code.

With the residual r = z_q − Σ_{i<k} e_i of a query and a prefix, p(t_k = j) = softmax_j(−‖r − e_k^j‖² / τ).
It has no symbols to memorise, so it treats new items like old ones.

Scores are mostly looked up. What a code e adds depends on r·e. That is z_q·e, computed once for a query and
not for each of its beams, less Σ e_i·e, which does not depend on the query: products between code vectors are
kept in tables, made when they are first needed. At 4096 codes a level a table takes 64 MB, so only the first
levels have them, within a limit; the levels behind are scored by residuals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from genius.decode.decoder import check_queries, log_softmax
from genius.decode.products import rounded_book
from genius.errors import InputError

MEMORY = 1 << 27
"""How many bytes of tables there may be: all levels at 1024 codes, the second semantic one at 4096."""
MAX_DISTANCES = 1 << 24
"""How many distances are computed to fit a temperature: 64 MB of them."""

TRIALS = 3
BLOCK = 32  # rows at a time: half a megabyte at 4096 codes, which stays in the processor's cache
MATRIX_ROWS = (64, 8)
"""Of a matrix product: the first of these that rounds a row alike wherever it stands. Which one does depends
on the processor, whose library cuts matrices into pieces of its own."""


class Geometry:
    """Scores codes by the distance of their vectors to the query's residual; batch-invariant.

    Args:
        codebooks: the vectors of each level, [codes, width].
        temperature: τ, of all levels; `fit_temperature` finds it.
        memory: how many bytes the tables of products may take.

    Raises InputError for codebooks that don't fit together, or a temperature that is not above zero.
    """

    def __init__(self, codebooks: Sequence[np.ndarray], temperature: float, memory: int = MEMORY) -> None:
        _check_codebooks(codebooks)
        if not (np.isfinite(temperature) and temperature > 0):
            raise InputError(f"a temperature must be above zero, not {temperature}")
        self.codebooks = [np.ascontiguousarray(codebook, np.float32) for codebook in codebooks]
        self.temperature = float(temperature)
        self.sizes = [len(codebook) for codebook in codebooks]
        factor = np.float32(2 / self.temperature)
        self._scaled = [np.ascontiguousarray(book * factor) for book in self.codebooks]
        self._sq_norms = [_sq_norms(book) / np.float32(self.temperature) for book in self.codebooks]
        self._tables: dict[tuple[int, int], np.ndarray] = {}
        self._matrix_rows: dict[int, int] = {}
        sizes = np.array(self.sizes, np.int64)
        needed = np.cumsum([4 * sizes[:level].sum() * sizes[level] for level in range(len(sizes))])
        self.tabled_levels = int(np.searchsorted(needed, memory, side="right"))
        """How many levels have tables."""

    def begin(self, vectors: np.ndarray, modality_codes: np.ndarray | None = None) -> GeometryState:
        """Start with one row for each query vector [n, width], behind its modality code if that is given.

        Raises InputError for vectors or codes that don't fit the codebooks.
        """
        check_queries(vectors, modality_codes, self.codebooks[0].shape[1], self.sizes[0])
        state = GeometryState(self, np.ascontiguousarray(vectors, np.float32))
        if modality_codes is not None:
            state.advance(np.arange(len(vectors)), modality_codes)
        return state

    def warm_up(self) -> None:
        """Make all tables now."""
        for level in range(self.tabled_levels):
            for above in range(level):
                self.table(above, level)

    def table(self, above: int, level: int) -> np.ndarray:
        """2 e_i·e_k / τ of all codes of a level above and those of `level`, float32 [codes, codes]."""
        if (above, level) not in self._tables:
            self._tables[above, level] = self.codebooks[above] @ self._scaled[level].T
        return self._tables[above, level]

    def logits(self, level: int, residuals: np.ndarray) -> np.ndarray:
        """−‖r − e‖² / τ but for what all codes share, float32 [n, codes], of residuals r [n, width].

        Batch-invariant: few rows, the queries', are multiplied in whole numbers, and many, the beams', in
        matrix products of one size.
        """
        rows = 1 if level < self.tabled_levels else self._rows_of_matrix(level)
        if rows == 1:
            logits = rounded_book(self.codebooks[level]).products(residuals)
            logits *= np.float32(2 / self.temperature)
        else:
            logits = _in_blocks(residuals, self._scaled[level], rows)
        logits -= self._sq_norms[level]
        return logits

    def _rows_of_matrix(self, level: int) -> int:
        """How many rows are multiplied at once with a level's vectors; determined by trial, once."""
        if level not in self._matrix_rows:
            book = self._scaled[level]
            self._matrix_rows[level] = next((rows for rows in MATRIX_ROWS if _rounds_alike(book, rows)), 1)
        return self._matrix_rows[level]


class GeometryState:
    """A `DecodingState` by geometry: the codes of each row, and below the tables its residual."""

    def __init__(self, geometry: Geometry, vectors: np.ndarray) -> None:
        self._geometry = geometry
        self._vectors = vectors
        self._query_ids = np.arange(len(vectors))
        self._codes = np.empty((0, len(vectors)), np.int64)
        self._residuals: np.ndarray | None = None

    @property
    def level(self) -> int:
        """The level whose codes are scored next."""
        return len(self._codes)

    def scores(self) -> np.ndarray:
        """Log-probabilities float32 [rows, codes of the next level]."""
        return self.scores_by(log_softmax)

    def scores_by(self, finish: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """What `finish` makes of −‖r − e‖² / τ, float32 [rows, codes of the next level].

        It changes a block of rows in place, each row by itself; what all codes of a row share is left out.
        """
        geometry, level = self._geometry, self.level
        if level >= geometry.tabled_levels and self._residuals is None:
            self._residuals = self._subtract_codes()
        rows = self._residuals if level else self._vectors
        if rows is not None:
            logits = geometry.logits(level, rows)
            for start in range(0, len(logits), BLOCK):
                finish(logits[start : start + BLOCK])
            return logits
        alive = np.bincount(self._query_ids, minlength=len(self._vectors)) > 0
        queries, places = np.flatnonzero(alive), (np.cumsum(alive) - 1)[self._query_ids]
        products = geometry.logits(level, self._vectors[queries])
        logits = np.empty((len(places), geometry.sizes[level]), np.float32)
        for start in range(0, len(logits), BLOCK):
            block = slice(start, start + BLOCK)
            logits[block] = products[places[block]]
            for above, codes in enumerate(self._codes):
                logits[block] -= geometry.table(above, level)[codes[block]]
            finish(logits[block])
        return logits

    def advance(self, rows: np.ndarray, codes: np.ndarray) -> None:
        """Go one level down: keep these rows, each extended by its code."""
        level = self.level
        if self._residuals is not None:
            self._residuals = self._residuals[rows] - self._geometry.codebooks[level][codes]
        self._query_ids = self._query_ids[rows]
        self._codes = np.concatenate([self._codes[:, rows], np.asarray(codes, np.int64)[None]])

    def _subtract_codes(self) -> np.ndarray:
        """The residual of each row: its query's vector less those of its codes."""
        residuals = self._vectors[self._query_ids]
        for book, codes in zip(self._geometry.codebooks, self._codes, strict=False):
            residuals -= book[codes]
        return residuals


def _in_blocks(rows: np.ndarray, book: np.ndarray, block: int) -> np.ndarray:
    """Inner products float32 [n, codes] of rows with vectors, by matrix products of `block` rows each."""
    padded = np.zeros((-(-len(rows) // block) * block, rows.shape[1]), np.float32)
    padded[: len(rows)] = rows
    products = np.empty((len(padded), len(book)), np.float32)
    for start in range(0, len(padded), block):
        np.matmul(padded[start : start + block], book.T, out=products[start : start + block])
    return products[: len(rows)]


def _rounds_alike(book: np.ndarray, rows: int) -> bool:
    """Whether a row's products are the same at all places of a block."""
    trials = np.random.default_rng(0).normal(size=(TRIALS, book.shape[1])).astype(np.float32)
    for row in trials:
        products = _in_blocks(np.tile(row, (rows, 1)), book, rows)
        if (products != products[0]).any():
            return False
    return True


def fit_temperature(codebooks: Sequence[np.ndarray], vectors: np.ndarray, codes: np.ndarray) -> float:
    """The one temperature of all levels under which `codes` are likeliest, given the codes before them.

    One for all levels, though each by itself would be likelier with its own: sums of scores on different
    scales order whole codes worse (hit rate @5 of beams 35.3 instead of 39.3; research/log.md).

    Args:
        codebooks: the vectors of each level, [codes, width].
        vectors: query vectors of validation pairs, [n, width].
        codes: the code of a positive item for each, [n, levels].

    A sample is enough to fit one number: of very many pairs, evenly spaced ones are used. If the pairs say
    nothing (one code a level, or vectors that are all the same), it is 1. Raises InputError for pairs that
    don't fit the codebooks.
    """
    _check_codebooks(codebooks)
    if not len(vectors) or codes.shape != (len(vectors), len(codebooks)):
        raise InputError(
            f"a temperature is fitted on pairs of a vector and a code of {len(codebooks)} levels, "
            f"not on shapes {vectors.shape} and {codes.shape}"
        )
    step = -(-len(vectors) * sum(map(len, codebooks)) // MAX_DISTANCES)
    residuals, codes = vectors[::step].astype(np.float32), codes[::step]
    level_logits = []
    for level, codebook in enumerate(codebooks):
        book = codebook.astype(np.float32, copy=False)
        logits = 2 * residuals @ book.T - _sq_norms(book)
        logits -= logits.max(axis=1, keepdims=True)
        level_logits.append(logits)
        residuals -= book[codes[:, level]]
    return _fit(level_logits, codes)


def _fit(level_logits: Sequence[np.ndarray], codes: np.ndarray) -> float:
    """The τ with the greatest likelihood of the codes [n, levels] under softmax(logits / τ) at every level.

    The log-likelihood is concave in 1/τ: its slope, the logit of the given codes less the expected one,
    changes its sign once at most, and bisection finds where. If every given code is the nearest, any small τ
    is as good; if they are worse than chance, it is the largest of the range.
    """
    scale = -float(np.mean([logits.mean(dtype=np.float64) for logits in level_logits]))
    if scale < np.finfo(np.float32).tiny:
        return 1.0
    numbers = np.arange(len(codes))
    target = sum(
        float(logits[numbers, codes[:, level]].mean(dtype=np.float64))
        for level, logits in enumerate(level_logits)
    )
    low, high = np.log(scale) - 9, np.log(scale) + 9
    for _ in range(15):  # 18 / 2¹⁵: τ to within a thousandth
        middle = (low + high) / 2
        if sum(_expected(logits, np.exp(middle)) for logits in level_logits) < target:
            high = middle
        else:
            low = middle
    return float(np.exp((low + high) / 2))


def _expected(logits: np.ndarray, temperature: float) -> float:
    """The mean logit of codes drawn by softmax(logits / τ)."""
    weights = np.exp(logits / np.float32(temperature))
    expected = np.einsum("ij,ij->i", weights, logits) / weights.sum(axis=1)
    return float(expected.mean(dtype=np.float64))


def _check_codebooks(codebooks: Sequence[np.ndarray]) -> None:
    if not len(codebooks) or any(book.ndim != 2 or not len(book) for book in codebooks):
        raise InputError(f"codebooks must be matrices, not the shapes {[book.shape for book in codebooks]}")
    if len({book.shape[1] for book in codebooks}) != 1:
        raise InputError(f"codebooks must be of one width, not {[book.shape[1] for book in codebooks]}")
    if not all(np.isfinite(book).all() for book in codebooks):
        raise InputError("codebooks must be finite, and some hold NaN or infinity")


def _sq_norms(codebook: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ij,ij->i", codebook, codebook))
