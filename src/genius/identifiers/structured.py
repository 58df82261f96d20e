"""GRACE's structured identifiers: the path to an image in a tree of clusters, then its number in the leaf.

Paper: https://arxiv.org/abs/2402.10805 (GRACE; ACL 2024). Its figures for text → image: GENIUS's Table 3,
whose row "GRACE" this is, and its supplement, Table 7.
Known (from the authors' code, github.com/liyongqi67/GRACE): k-means with k = 30 over CLIP's embeddings of all
images, those of the test split too; a cluster of more than 30 is divided again; a token is a level and a
number, and is new to the language model. Memorising and retrieving as with `numeric`.
Ours: the embeddings are those of stage 0, of items of every modality; 25 iterations from a random start
instead of the best of a hundred starts; paths are filled up to one length, and the number comes last, with
room for new items. A new item goes to the nearest centre at each level.
What we can't have: GRACE's multimodal language model (see `numeric`).
Size: about 4 to 6 levels of 31 symbols and one of 256, below 40 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from genius.identifiers.cluster_tree import ClusterTree
from genius.identifiers.scheme import ItemContents, SingleSymbolNumbers, TrainingTexts, room_for


@dataclass(frozen=True)
class Structured(SingleSymbolNumbers):
    """Paths in a tree of clusters of embeddings."""

    tree: ClusterTree

    branching: ClassVar[int] = 30
    """Clusters that a cluster is divided into."""
    leaf: ClassVar[int] = 30
    """Items that are not divided any more."""

    @classmethod
    def fit(cls, items: ItemContents, texts: TrainingTexts, seed: int) -> Self:
        """Divide the embeddings of all items."""
        embeddings = items.inputs.embeddings
        tree = ClusterTree.build(embeddings, branching=cls.branching, leaf=cls.leaf, seed=seed)
        return cls(room_for(tree.paths(embeddings)), tree)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """From what `arrays` returned."""
        return cls(int(arrays["room"][0]), ClusterTree.from_arrays(arrays))

    def arrays(self) -> dict[str, np.ndarray]:
        """The tree."""
        return self.tree.arrays() | {"room": np.array([self.room])}

    @property
    def stem_sizes(self) -> tuple[int, ...]:
        """A cluster's children, and the symbol behind a path that ends early."""
        return (self.tree.end + 1,) * self.tree.depth

    def stems(self, items: ItemContents) -> np.ndarray:
        """The paths of items, uint16 [n, depth]."""
        return self.tree.paths(items.inputs.embeddings)
