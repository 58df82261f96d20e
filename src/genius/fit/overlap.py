"""How much of exact search a search keeps: the figure of a model without labels.

The ten nearest items of an item are found exactly, by embeddings, and again by what is examined. The overlap
of the two is the share of the ten that both have. No query and no answer is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from genius.data.records import MODALITIES

TOP = 10

Search = Callable[[np.ndarray, int], np.ndarray]
"""From the numbers of items that are queries [n] and the modality to find, to the numbers of the best items
[n, more than TOP], best first; -1 is none."""


@dataclass(frozen=True)
class Neighbours:
    """The exact neighbours of some items, by the modality that is searched for.

    Attributes:
        queries: the numbers of the items that are queries [n].
        exact: for each modality that items have, the ten best for each query [n, up to ten], without itself.
    """

    queries: np.ndarray
    exact: Mapping[int, np.ndarray]


def exact_neighbours(embeddings: np.ndarray, modality: np.ndarray, queries: np.ndarray) -> Neighbours:
    """The exact neighbours of the items with these numbers, by inner product of embeddings."""
    exact = {}
    for kind in range(len(MODALITIES)):
        members = np.flatnonzero(modality == kind)
        if len(members) > 1:
            products = embeddings[queries] @ embeddings[members].T
            products[queries[:, None] == members] = -np.inf
            exact[kind] = members[best_columns(products, min(TOP, len(members) - 1))]
    return Neighbours(queries, exact)


def best_columns(scores: np.ndarray, count: int) -> np.ndarray:
    """The `count` columns with the largest scores of each row, best first; of equal ones the first."""
    chosen = np.sort(np.argpartition(-scores, count - 1, axis=1)[:, :count], axis=1)
    order = np.argsort(-np.take_along_axis(scores, chosen, 1), axis=1, kind="stable")
    return np.take_along_axis(chosen, order, 1)


def overlaps(neighbours: Neighbours, search: Search) -> dict[str, float]:
    """The mean overlap of a search with exact search, by the name of the modality that is found."""
    shares = {}
    for kind, exact in neighbours.exact.items():
        ranked = search(neighbours.queries, kind)
        kept = []
        for query, wanted, best in zip(neighbours.queries, exact, ranked, strict=True):
            others = best[(best >= 0) & (best != query)][: len(wanted)]
            kept.append(len(np.intersect1d(wanted, others)) / len(wanted))
        shares[MODALITIES[kind].value] = float(np.mean(kept))
    return shares


def mean_overlap(shares: Mapping[str, float]) -> float:
    """The mean over modalities; 1 where there is nothing to compare."""
    return float(np.mean(list(shares.values()))) if shares else 1.0
