"""The codes that exist, as a tree: what may follow a prefix, and which items are below it.

Codes are sorted once; a node is a run of sorted rows that share a prefix. The nodes of a depth are numbered
in the order of their prefixes. Depth 0 has one node, the root, number 0; a node at depth k stands for a
prefix of k codes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Trie:
    """The tree of the codes of a pool; `Trie.build` makes one.

    Attributes:
        order: the item of each sorted row; items that share a code keep their order.
        codes: for each depth from 1 on, the last code of each node.
        starts: for each depth from 0 on, the first sorted row below each node, then the number of rows.
        first_children: for each depth but the last, each node's first child, then the number of children.
    """

    order: np.ndarray
    codes: tuple[np.ndarray, ...]
    starts: tuple[np.ndarray, ...]
    first_children: tuple[np.ndarray, ...]

    @classmethod
    def build(cls, codes: np.ndarray) -> Trie:
        """The tree of codes [items, levels] of at least one item."""
        order = np.lexsort(codes.T[::-1])
        starts, last_codes, first_children = [np.array([0, len(codes)])], [], []
        begins = np.arange(len(codes)) == 0  # which sorted rows begin a node
        for level in range(codes.shape[1]):
            column = codes[order, level].astype(np.int64)
            begins[1:] |= column[1:] != column[:-1]
            first_rows = np.flatnonzero(begins)
            last_codes.append(column[first_rows])
            starts.append(np.append(first_rows, len(codes)))
            first_children.append(np.searchsorted(starts[-1], starts[-2]))
        return cls(order, tuple(last_codes), tuple(starts), tuple(first_children))

    def __len__(self) -> int:
        """How many items there are."""
        return len(self.order)

    @property
    def levels(self) -> int:
        """How many codes an item has: the greatest depth."""
        return len(self.codes)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many nodes each depth has, from the root on; the last are the buckets."""
        return tuple(len(starts) - 1 for starts in self.starts)

    def children(self, depth: int, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All children of nodes at a depth: their parents (as places in `nodes`), themselves, their codes."""
        parents, children = _ranges(self.first_children[depth], nodes)
        return parents, children, self.codes[depth][children]

    def items(self, depth: int, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All items below nodes at a depth: their nodes (as places in `nodes`), and their numbers.

        They are sorted by code, and items with the same code by number.
        """
        places, rows = _ranges(self.starts[depth], nodes)
        return places, self.order[rows]

    def prefixes(self, depth: int, nodes: np.ndarray) -> np.ndarray:
        """The codes from the root to nodes at a depth: int64 [nodes, depth]."""
        rows = self.starts[depth][nodes]
        path = [self.codes[level][self._node_of_row(level + 1, rows)] for level in range(depth)]
        return np.stack(path, axis=-1) if path else np.empty((len(nodes), 0), np.int64)

    def nodes_above(self, depth: int, items: np.ndarray) -> np.ndarray:
        """The node at a depth that each item is below: int64 [items]."""
        row_of_item = np.argsort(self.order)
        return self._node_of_row(depth, row_of_item[items])

    def _node_of_row(self, depth: int, rows: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.starts[depth], rows, side="right") - 1


def _ranges(bounds: np.ndarray, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers from bounds[node] up to bounds[node + 1] of all nodes, and the place of each one's node."""
    counts = bounds[nodes + 1] - bounds[nodes]
    places = np.repeat(np.arange(len(nodes)), counts)
    within = np.arange(len(places)) - (np.cumsum(counts) - counts)[places]
    return places, bounds[nodes][places] + within
