"""One search by a network: which row of the tree each beam is, and what it sees.

Every query has a tree of its own. Level by level all its living rows are appended to it; what is above a row
is never copied, only pointed at. So that one call serves many queries, their rows stand in a grid
[queries, most rows of any query], of which some places may be empty. A query without a living row leaves the
grid: the network would work for it all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from genius.decode.decoder import check_queries

START = 0
"""The row of the start token in the table of embeddings; codes follow level by level."""
LOOK_AHEAD = 8
"""A first level of so few codes (modalities) is scored in the same call as what may follow it."""


class Engine(Protocol):
    """What runs the network: torch or ONNX Runtime."""

    @property
    def sizes(self) -> Sequence[int]:
        """How many codes each level has."""

    @property
    def vector_width(self) -> int:
        """Of queries' vectors."""

    def remember(self, vectors: np.ndarray) -> Any:
        """What cross-attention reads of query vectors [n, width]."""

    def step(self, tokens: np.ndarray, paths: np.ndarray, memory: Any, cache: Any) -> tuple[Any, Any]:
        """Append rows with these tokens [n, rows] to the queries' trees.

        `paths` [n, rows, depth] are the numbers of the rows that each sees, from the start down to itself,
        with -1 before a path that is shorter, and for places that are empty. Returns the hidden rows
        [n, rows, width], and the cache that has them; the first cache is None.
        """

    def only(self, kept: Any, queries: np.ndarray) -> Any:
        """A memory or a cache of these queries alone."""

    def scores(self, hidden: Any, places: np.ndarray, level: int) -> np.ndarray:
        """Log-probabilities [rows, codes] of a level, of the rows of the grid with these flat numbers."""


class TreeDecoding:
    """One search under way, as `Decoding` has it; `begin` starts one."""

    def __init__(self, engine: Engine, vectors: np.ndarray) -> None:
        self._engine = engine
        self._first_rows = np.array(offsets(engine.sizes))
        self._memory = engine.remember(vectors.astype(np.float32, copy=False))
        self._cache: Any = None
        self._hidden: Any = None
        self._count = len(vectors)
        self._rows = 0  # of each tree, so far
        self._level = 0
        self._owners = np.arange(len(vectors))
        self._paths = np.zeros((len(vectors), 0), np.int64)  # of each row: what is above it, and itself
        self._places = self._owners
        self._ahead = False

    def scores(self) -> np.ndarray:
        """Log-probabilities float32 [rows, codes of the next level]."""
        return self._engine.scores(self._hidden, self._places, self._level)

    def advance(self, rows: np.ndarray, codes: np.ndarray) -> None:
        """Go one level down: keep these rows, each extended by its code."""
        codes = np.asarray(codes, np.int64)
        self._owners, self._paths = self._owners[rows], self._paths[rows]
        if self._ahead:
            # The start's tree is [start, first codes …]: these rows are there already.
            self._paths = np.concatenate([self._paths, 1 + codes[:, None]], axis=1)
            self._places = self._owners * self._rows + 1 + codes
            self._ahead = False
        else:
            self._append(self._first_rows[self._level] + codes)
        self._level += 1

    def start(self, first: np.ndarray | None) -> None:
        """The first call: the start token, and behind it the known first code, or all if they are few."""
        size = self._engine.sizes[0]
        self._ahead = first is None and size <= LOOK_AHEAD and len(self._engine.sizes) > 1
        if first is not None:
            behind = self._first_rows[0] + np.asarray(first, np.int64)[:, None]
        else:
            behind = np.tile(np.arange(1, 1 + size if self._ahead else 1), (self._count, 1))
        tokens = np.concatenate([np.full((self._count, 1), START), behind], axis=1)
        count = tokens.shape[1]
        paths = np.stack([np.zeros(count, np.int64), np.arange(count)], axis=1)
        paths[0, 0] = -1  # above the start is nothing
        self._run(tokens, np.tile(paths[:, 2 - min(count, 2) :], (self._count, 1, 1)))
        self._level = 0 if first is None else 1
        self._paths = np.tile(np.arange(1 + self._level), (self._count, 1))
        self._places = self._owners * count + self._level

    def _append(self, tokens: np.ndarray) -> None:
        """Put a token below each row."""
        self._leave_out_finished()
        order = np.argsort(self._owners, kind="stable")
        ranks = np.empty_like(order)
        ranked = self._owners[order]
        ranks[order] = np.arange(len(order)) - np.searchsorted(ranked, ranked)
        width = int(ranks.max(initial=-1)) + 1
        self._paths = np.concatenate([self._paths, self._rows + ranks[:, None]], axis=1)
        self._places = self._owners * width + ranks
        grid = np.full(self._count * width, START)
        grid[self._places] = tokens
        paths = np.full((self._count * width, self._paths.shape[1]), -1)
        paths[self._places] = self._paths
        self._run(grid.reshape(self._count, width), paths.reshape(self._count, width, -1))

    def _leave_out_finished(self) -> None:
        living = np.unique(self._owners)
        if len(living) < self._count:
            self._owners, self._count = np.searchsorted(living, self._owners), len(living)
            self._memory = self._engine.only(self._memory, living)
            self._cache = self._engine.only(self._cache, living)

    def _run(self, tokens: np.ndarray, paths: np.ndarray) -> None:
        self._hidden, self._cache = self._engine.step(tokens, paths, self._memory, self._cache)
        self._rows += tokens.shape[1]


def begin(engine: Engine, vectors: np.ndarray, first: np.ndarray | None) -> TreeDecoding:
    """Start with one row for each query vector [n, width], behind its first code if that is given."""
    check_queries(vectors, first, engine.vector_width, engine.sizes[0])
    decoding = TreeDecoding(engine, vectors)
    decoding.start(first)
    return decoding


def offsets(sizes: Sequence[int]) -> list[int]:
    """The row of each level's first code in the table of embeddings."""
    return [START + 1 + sum(sizes[:level]) for level in range(len(sizes))]
