"""The background of a collection: how high the hits of queries score that have no answer in it.

A hit's *confidence* is 1 − the probability that the best hit of such a query scores as high. It is a rank
among background queries: with Q of them, and e whose best hit scores at least as high, 1 − (1 + e) / (Q + 1).
Whatever the scores look like, a query that is drawn as they were reaches a confidence of c with a probability
of at most 1 − c.

The best of many scores grows with their number. So each background query keeps the scores of its hits at a
few ranks: from how many items score so high follows the best of a part of the collection, say of what a
filter leaves, and a collection that has grown a little needs no new background.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

RANKS = (1, 2, 4, 8, 16, 32, 64)
"""The ranks at which the scores of a background query are kept."""
GROWTH = 1.5
"""A collection that has grown, shrunk or changed by more than this gets a new background."""


@dataclass(frozen=True, eq=False)
class ScoreBackground:
    """The scores of queries without an answer.

    Attributes:
        tails: of each query's hits at RANKS, float32 [queries, ranks], falling; -inf where there are fewer.
        items: how many items there were.
    """

    tails: np.ndarray
    items: int

    def __len__(self) -> int:
        """How many queries it has."""
        return len(self.tails)

    def confidences(self, scores: np.ndarray, fraction: float = 1.0) -> np.ndarray:
        """The confidence float64 [n] of hits by their scores [n]; NaN if there is no background at all.

        `fraction` is the size of what was searched beside that of the measured collection: less than 1 for
        the part that a filter leaves, more for one that has grown since.
        """
        scores = np.asarray(scores, np.float64)
        if not len(self):
            return np.full(scores.shape, np.nan)
        confidences = 1 - (1 + self._exceeding(scores, fraction)) / (len(self) + 1)
        # Of independent scores, the best of twice as many stays below with the squared probability.
        return np.asarray(np.maximum(confidences, 0) ** max(fraction, 1.0))

    def _exceeding(self, scores: np.ndarray, fraction: float) -> np.ndarray:
        """How many queries' best hits score at least so high [n], as far as a part of the items tells."""
        if fraction >= 1:
            bests = np.sort(self.tails[:, 0].astype(np.float64))
            return np.asarray(len(self) - np.searchsorted(bests, scores, side="left"), np.float64)
        exceeding = np.zeros(scores.shape)
        for tail in self.tails.astype(np.float64):
            exceeding += 1 - np.power(1 - fraction, items_above(tail, scores, self.items))
        return exceeding

    def score_of(self, confidence: float, fraction: float = 1.0) -> float:
        """The least score that has this confidence; infinite if none has."""
        tails = self.tails[np.isfinite(self.tails)]
        known = np.unique(np.append(tails, np.nextafter(tails.max(initial=0), np.inf, dtype=np.float32)))
        reached = np.flatnonzero(self.confidences(known, fraction) >= confidence)
        return float(known[reached[0]]) if len(reached) else float("inf")


def items_above(tail: np.ndarray, scores: np.ndarray, items: int) -> np.ndarray:
    """How many of `items` items score at least so high [n] for a query with this tail [ranks].

    Between the known ranks, and below the last of them, the number of items grows exponentially as the score
    falls, as it does in the tail of most distributions.
    """
    known = np.isfinite(tail)
    values, ranks = tail[known], np.log(np.array(RANKS, np.float64)[known])
    if not len(values):
        return np.zeros(scores.shape)
    counts = np.exp(np.interp(-scores, -values, ranks))
    if len(values) > 1:
        step = max(float(values[0] - values[-1]) / ranks[-1], np.finfo(np.float64).tiny)
        with np.errstate(over="ignore"):
            beyond = np.exp(ranks[-1] + np.maximum(values[-1] - scores, 0) / step)
        counts = np.where(scores < values[-1], beyond, counts)
    whole = np.floor(np.minimum(counts, items) * (1 + 1e-9))  # as 8 items may be 7.999…
    return np.where(scores > values[0], 0.0, whole)


def is_outdated(measured_items: int, items: int, added_since: int) -> bool:
    """Whether a background no longer fits: the collection has grown or shrunk too much, or was replaced."""
    changed = max(1, measured_items)
    return items > GROWTH * changed or items * GROWTH < changed or added_since > (GROWTH - 1) * changed
