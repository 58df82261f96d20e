"""A decoder for tests of beam search: its scores are made up, and many of them are equal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Prefix = tuple[int, ...]


class TableDecoder:
    """Looks scores up, in one table for each query and prefix. A query's vector is its number."""

    def __init__(self, sizes: list[int], seed: int) -> None:
        self.sizes, self.seed = sizes, seed

    def begin(self, vectors: np.ndarray, modality_codes: np.ndarray | None = None) -> TableState:
        prefixes: list[Prefix] = [()] * len(vectors)
        if modality_codes is not None:
            prefixes = [(int(code),) for code in modality_codes]
        return TableState(self, list(zip(vectors[:, 0].astype(int).tolist(), prefixes, strict=True)))

    def scores(self, query: int, prefix: Prefix) -> np.ndarray:
        """What each code that follows a prefix adds for a query, float32 [codes]."""
        rng = np.random.default_rng([self.seed, query, *prefix])
        return (-rng.integers(1, 5, self.sizes[len(prefix)]) / 2).astype(np.float32)

    def path_scores(self, query: int, code: Prefix, modality_code: int = -1) -> list[float]:
        """What each code of a prefix adds for a query; -inf for another modality code than the given one."""
        added = [float(self.scores(query, code[:level])[code[level]]) for level in range(len(code))]
        if modality_code >= 0:
            added[0] = 0.0 if code[0] == modality_code else -np.inf
        return added


@dataclass
class TableState:
    """One search: the query and the prefix of each row."""

    decoder: TableDecoder
    rows: list[tuple[int, Prefix]]

    def scores(self) -> np.ndarray:
        return np.array([self.decoder.scores(*row) for row in self.rows])

    def advance(self, rows: np.ndarray, codes: np.ndarray) -> None:
        assert len(rows), "a decoder is not asked to go on with nothing"
        kept = [self.rows[row] for row in rows]
        self.rows = [(query, (*prefix, int(code))) for (query, prefix), code in zip(kept, codes, strict=True)]
