"""The codes that exist, as a tree: what may follow a prefix, and which items are below it.

Codes are sorted once; a node is a run of sorted rows that share a prefix. The nodes of a depth are numbered
in the order of their prefixes, and each depth is a few flat arrays, so that a question is answered for many
nodes at once. Depth 0 has one node, the root, number 0; a node at depth k stands for a prefix of k codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from genius.errors import InputError

CODES = 1 << 16  # a code is held in 16 bits


@dataclass(frozen=True, eq=False)
class Trie:
    """The tree of the codes of a pool; `Trie.build` makes one.

    Attributes:
        order: the item of each sorted row; items that share a code keep their order.
        codes: for each depth from 1 on, the last code of each node.
        starts: for each depth from 0 on, the first sorted row below each node, and their number.
        offsets: for each depth from 0 to the last but one, each node's first child, and their number.
    """

    order: np.ndarray
    codes: tuple[np.ndarray, ...]
    starts: tuple[np.ndarray, ...]
    offsets: tuple[np.ndarray, ...]

    @classmethod
    def build(cls, codes: np.ndarray) -> Trie:
        """The tree of codes [items, levels], which are integers from 0 to 65535.

        Raises InputError where there are none, or other numbers.
        """
        if codes.ndim != 2 or not codes.size:
            raise InputError(
                f"a search tree needs the codes of at least one item, not the shape {codes.shape}"
            )
        if not np.issubdtype(codes.dtype, np.integer) or codes.min() < 0 or codes.max() >= CODES:
            raise InputError(f"codes must be integers from 0 to {CODES - 1}")
        codes = codes.astype(np.uint16, copy=False)
        number = np.int32 if len(codes) < np.iinfo(np.int32).max else np.int64
        order = np.lexsort(codes.T[::-1])
        starts, last, offsets = [np.array([0, len(codes)], number)], [], []
        begins = np.arange(len(codes)) == 0  # which sorted rows begin a node
        for level in range(codes.shape[1]):
            column = codes[order, level]
            begins[1:] |= column[1:] != column[:-1]
            firsts = np.flatnonzero(begins)
            last.append(column[firsts])
            starts.append(np.append(firsts, len(codes)).astype(number))
            offsets.append(np.searchsorted(starts[-1], starts[-2]).astype(number))
        return cls(order.astype(number), tuple(last), tuple(starts), tuple(offsets))

    def __len__(self) -> int:
        """How many items there are."""
        return len(self.order)

    @property
    def levels(self) -> int:
        """How many codes an item has: the greatest depth."""
        return len(self.codes)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """For each level, how many codes there must be at least: the greatest one, and one."""
        return tuple(int(codes.max()) + 1 for codes in self.codes)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many nodes each depth has, from the root on; the last are the buckets."""
        return tuple(len(starts) - 1 for starts in self.starts)

    def children(self, depth: int, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All children of nodes at a depth: whose they are (positions in `nodes`), they, and their codes."""
        positions, below = _spread(self.offsets[depth], nodes)
        return positions, below, self.codes[depth][below]

    def rows(self, depth: int, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The sorted rows below each node at a depth: the first, and the one behind the last."""
        return self.starts[depth][nodes], self.starts[depth][nodes + 1]

    def items(self, depth: int, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All items below nodes at a depth: below which (positions in `nodes`), and their numbers.

        They are sorted by code; items with the same code by number.
        """
        positions, rows = _spread(self.starts[depth], nodes)
        return positions, self.order[rows].astype(np.int64)

    def prefixes(self, depth: int, nodes: np.ndarray) -> np.ndarray:
        """The codes from the root to nodes at a depth: int64 [nodes, depth]."""
        rows = self.starts[depth][nodes]
        above = [self.codes[k - 1][self._at(k, rows)] for k in range(1, depth + 1)]
        return np.stack(above, axis=-1).astype(np.int64) if above else np.empty((len(nodes), 0), np.int64)

    def above(self, depth: int, items: np.ndarray) -> np.ndarray:
        """The node at a depth that each item is below: int64 [items]."""
        return self._at(depth, self._places[items])

    def _at(self, depth: int, rows: np.ndarray) -> np.ndarray:
        """The node at a depth that each sorted row is below."""
        return np.searchsorted(self.starts[depth], rows, side="right") - 1

    @cached_property
    def _places(self) -> np.ndarray:
        """The sorted row of each item."""
        places = np.empty_like(self.order)
        places[self.order] = np.arange(len(self.order), dtype=self.order.dtype)
        return places


def _spread(bounds: np.ndarray, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers from bounds[node] up to bounds[node + 1] of all nodes in a row, and whose they are."""
    firsts = bounds[nodes].astype(np.int64)
    counts = bounds[nodes + 1] - firsts
    positions = np.repeat(np.arange(len(nodes)), counts)
    return positions, np.arange(len(positions)) + (firsts - (np.cumsum(counts) - counts))[positions]
