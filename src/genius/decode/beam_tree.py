"""One beam search by a network: which row of the tree each beam is, and which rows it sees.

Every query has a tree of its own. Level by level, its living rows are appended to it; what is above a row is
never copied, only pointed at. So that one call serves many queries, their rows stand in a grid
[queries, most rows of any query], in which some places may be empty. A query without a living row leaves the
grid, as the network would still compute it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from genius.decode.decoder import check_queries

START = 0
"""The row of the start token in the table of embeddings; codes follow level by level."""
LOOK_AHEAD = 8
"""A first level of at most this many codes (modalities) is scored in the same call as the level behind it."""


class StepNetwork(Protocol):
    """What runs the network: torch or ONNX Runtime."""

    @property
    def sizes(self) -> Sequence[int]:
        """How many codes each level has."""

    @property
    def vector_width(self) -> int:
        """Of queries' vectors."""

    def encode_prefix(self, vectors: np.ndarray) -> Any:
        """The prefix cache of query vectors [n, width]: keys and values of cross-attention."""

    def step(self, tokens: np.ndarray, paths: np.ndarray, prefix: Any, cache: Any) -> tuple[Any, Any]:
        """Append rows with these tokens [n, rows] to the queries' trees.

        `paths` [n, rows, depth] are the numbers of the rows that each sees, from the start down to itself,
        with -1 before a path that is shorter, and for places that are empty. Returns the hidden rows
        [n, rows, width], and the cache of self-attention with them; the first cache is None.
        """

    def select(self, cache: Any, queries: np.ndarray) -> Any:
        """A prefix cache or a cache of self-attention of these queries alone."""

    def scores(self, hidden: Any, places: np.ndarray, level: int) -> np.ndarray:
        """Log-probabilities [rows, codes] of a level, of the rows of the grid with these flat numbers."""


class BeamTree:
    """A `DecodingState` by a network; `begin` starts one."""

    def __init__(self, network: StepNetwork, vectors: np.ndarray) -> None:
        self._network = network
        self._offsets = np.array(offsets(network.sizes))
        self._prefix = network.encode_prefix(vectors.astype(np.float32, copy=False))
        self._cache: Any = None
        self._hidden: Any = None
        self._count = len(vectors)
        self._rows = 0  # of each tree, so far
        self._level = 0
        self._query_ids = np.arange(len(vectors))
        self._paths = np.zeros((len(vectors), 0), np.int64)  # of each row: what is above it, and itself
        self._places = self._query_ids
        self._ahead = False

    def scores(self) -> np.ndarray:
        """Log-probabilities float32 [rows, codes of the next level]."""
        return self._network.scores(self._hidden, self._places, self._level)

    def advance(self, rows: np.ndarray, codes: np.ndarray) -> None:
        """Go one level down: keep these rows, each extended by its code."""
        codes = np.asarray(codes, np.int64)
        self._query_ids, self._paths = self._query_ids[rows], self._paths[rows]
        if self._ahead:
            # The start's tree is [start, first codes …], which has these rows already.
            self._paths = np.concatenate([self._paths, 1 + codes[:, None]], axis=1)
            self._places = self._query_ids * self._rows + 1 + codes
            self._ahead = False
        else:
            self._append(self._offsets[self._level] + codes)
        self._level += 1

    def start(self, modality_codes: np.ndarray | None) -> None:
        """The first call: the start token, and behind it the known modality code, or all codes if few."""
        size = self._network.sizes[0]
        self._ahead = modality_codes is None and size <= LOOK_AHEAD and len(self._network.sizes) > 1
        if modality_codes is not None:
            behind = self._offsets[0] + np.asarray(modality_codes, np.int64)[:, None]
        else:
            behind = np.tile(np.arange(1, 1 + size if self._ahead else 1), (self._count, 1))
        tokens = np.concatenate([np.full((self._count, 1), START), behind], axis=1)
        count = tokens.shape[1]
        paths = np.stack([np.zeros(count, np.int64), np.arange(count)], axis=1)
        paths[0, 0] = -1  # above the start is nothing
        self._run(tokens, np.tile(paths[:, 2 - min(count, 2) :], (self._count, 1, 1)))
        self._level = 0 if modality_codes is None else 1
        self._paths = np.tile(np.arange(1 + self._level), (self._count, 1))
        self._places = self._query_ids * count + self._level

    def _append(self, tokens: np.ndarray) -> None:
        """Put a token below each row."""
        self._drop_finished_queries()
        order = np.argsort(self._query_ids, kind="stable")
        ranks = np.empty_like(order)
        ranked = self._query_ids[order]
        ranks[order] = np.arange(len(order)) - np.searchsorted(ranked, ranked)
        width = int(ranks.max(initial=-1)) + 1
        self._paths = np.concatenate([self._paths, self._rows + ranks[:, None]], axis=1)
        self._places = self._query_ids * width + ranks
        grid = np.full(self._count * width, START)
        grid[self._places] = tokens
        paths = np.full((self._count * width, self._paths.shape[1]), -1)
        paths[self._places] = self._paths
        self._run(grid.reshape(self._count, width), paths.reshape(self._count, width, -1))

    def _drop_finished_queries(self) -> None:
        living = np.unique(self._query_ids)
        if len(living) < self._count:
            self._query_ids, self._count = np.searchsorted(living, self._query_ids), len(living)
            self._prefix = self._network.select(self._prefix, living)
            self._cache = self._network.select(self._cache, living)

    def _run(self, tokens: np.ndarray, paths: np.ndarray) -> None:
        self._hidden, self._cache = self._network.step(tokens, paths, self._prefix, self._cache)
        self._rows += tokens.shape[1]


def begin(network: StepNetwork, vectors: np.ndarray, modality_codes: np.ndarray | None) -> BeamTree:
    """Start with one row for each query vector [n, width], behind its modality code if that is given.

    Raises InputError for vectors or codes that don't fit the network.
    """
    check_queries(vectors, modality_codes, network.vector_width, network.sizes[0])
    tree = BeamTree(network, vectors)
    tree.start(modality_codes)
    return tree


def offsets(sizes: Sequence[int]) -> list[int]:
    """The row of each level's first code in the table of embeddings."""
    return [START + 1 + sum(sizes[:level]) for level in range(len(sizes))]
