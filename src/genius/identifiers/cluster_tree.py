"""A tree of clusters by k-means within k-means: what structured identifiers are paths of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

ITERATIONS = 25
"""Of k-means in a cluster, at most."""
MAX_DEPTH = 12
"""Clusters of clusters, at most: many equal vectors would go on for ever."""


@dataclass(frozen=True, eq=False)
class ClusterTree:
    """Clusters within clusters; the first node is the root.

    Attributes:
        centres: of each node, float32 [nodes, width].
        first_child: the number of each node's first child; its others follow. 0 for leaves. int32 [nodes]
        num_children: int32 [nodes].
        branching: how many children a node may have.
    """

    centres: np.ndarray
    first_child: np.ndarray
    num_children: np.ndarray
    branching: int

    @classmethod
    def build(cls, vectors: np.ndarray, *, branching: int, leaf: int, seed: int) -> Self:
        """Divide vectors [n, width] into `branching` clusters, and again each that has more than `leaf`."""
        import torch

        from genius.quantize.kmeans import kmeans

        rows, generator = torch.from_numpy(np.array(vectors, np.float32)), torch.Generator().manual_seed(seed)
        centres, first_child, num_children = [rows.mean(0)], [0], [0]
        unfinished = [(0, 0, torch.arange(len(rows)))]
        while unfinished:
            node, depth, members = unfinished.pop()
            if len(members) <= leaf or depth == MAX_DEPTH:
                continue
            count = min(branching, len(members))
            means, own = kmeans(rows[members], count, iterations=ITERATIONS, generator=generator)
            used = torch.unique(own)
            if len(used) < 2:
                continue  # they are all alike
            first_child[node], num_children[node] = len(centres), len(used)
            for cluster in used.tolist():
                unfinished.append((len(centres), depth + 1, members[own == cluster]))
                centres.append(means[cluster])
                first_child.append(0)
                num_children.append(0)
        return cls(
            torch.stack(centres).numpy(),
            np.array(first_child, np.int32),
            np.array(num_children, np.int32),
            branching,
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """From what `arrays` returned."""
        return cls(
            arrays["centres"], arrays["first_child"], arrays["num_children"], int(arrays["branching"][0])
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """The nodes."""
        return {
            "centres": self.centres,
            "first_child": self.first_child,
            "num_children": self.num_children,
            "branching": np.array([self.branching]),
        }

    @cached_property
    def depth(self) -> int:
        """Levels below the root."""
        depths = np.zeros(len(self.centres), np.int64)
        for node in range(len(self.centres)):  # a node is before its children
            first, count = self.first_child[node], self.num_children[node]
            depths[first : first + count] = depths[node] + 1 if count else depths[first : first + count]
        return int(depths.max())

    @property
    def end(self) -> int:
        """The symbol behind a path that ends early."""
        return self.branching

    def paths(self, vectors: np.ndarray) -> np.ndarray:
        """From the root always to the child of the nearest centre: uint16 [n, depth], filled up by `end`."""
        paths = np.full((len(vectors), self.depth), self.end, np.uint16)
        nodes = np.zeros(len(vectors), np.int64)
        for level in range(self.depth):
            for node in np.unique(nodes[self.num_children[nodes] > 0]):
                rows = np.flatnonzero(nodes == node)
                first, count = int(self.first_child[node]), int(self.num_children[node])
                chosen = _nearest(np.asarray(vectors[rows], np.float32), self.centres[first : first + count])
                paths[rows, level] = chosen
                nodes[rows] = first + chosen
        return paths


def _nearest(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """The number [n] of the centre that is nearest to each row; of equally near ones the first."""
    half_sq_norms = 0.5 * np.einsum("ij,ij->i", centres, centres)
    products = np.einsum("nd,kd->nk", rows, centres)  # batch-invariant, which a matrix product is not
    return np.asarray((products - half_sq_norms).argmax(1))
