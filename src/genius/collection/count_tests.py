"""Whether counts of two groups of items differ by more than chance, if the groups were drawn from one.

Tests of counts hold the number of items of each group and of each cell fixed and compare with random
divisions of the same items (the hypergeometric distribution): they are exact, whatever the number of items.
"""

from __future__ import annotations

import math

import numpy as np

PERMUTATIONS = 1999
"""Random divisions that a statistic over all cells is compared with."""


class Tails:
    """Tail probabilities of how many items of a cell are in the second group, of `count` items in all, `new`
    of them in the second group (Fisher's exact test, one-sided)."""

    def __init__(self, count: int, new: int) -> None:
        self._count, self._new = count, new
        self._log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count + 1)))])

    def at_least(self, members: int, drawn: int) -> float:
        """The probability that `drawn` or more of a cell's `members` are in the second group."""
        return self._sum(members, drawn, min(members, self._new))

    def at_most(self, members: int, drawn: int) -> float:
        """The same for `drawn` or fewer."""
        return self._sum(members, max(0, members - (self._count - self._new)), drawn)

    def _sum(self, members: int, first: int, last: int) -> float:
        drawn = np.arange(first, last + 1)
        logs = (
            self._log_choose(members, drawn)
            + self._log_choose(self._count - members, self._new - drawn)
            - self._log_choose(self._count, np.array(self._new))
        )
        return float(min(1.0, np.exp(logs).sum()))

    def _log_choose(self, total: int, chosen: np.ndarray) -> np.ndarray:
        inside = (chosen >= 0) & (chosen <= total)
        among = np.where(inside, chosen, 0)
        logs = self._log_factorials
        values = logs[total] - logs[among] - logs[total - among]
        return np.where(inside, values, -np.inf)


def corrected(p_values: np.ndarray) -> np.ndarray:
    """p-values [n] corrected for their number by Holm's method, which holds however they depend.

    >>> corrected(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    scaled = p_values[order] * np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(1, np.maximum.accumulate(scaled)) if len(p_values) else scaled
    return adjusted


def homogeneity(old: np.ndarray, new: np.ndarray, random: np.random.Generator) -> tuple[float, float]:
    """How far the shares of cells differ between two groups, by counts [cells] of each: (shift, p-value).

    The shift is the share of items that are in another cell than they would be (the total variation
    distance), beyond what random divisions give. The p-value is that of the chi-square statistic among such
    divisions.
    """
    sizes, count = old + new, int(new.sum())
    drawn = random.multivariate_hypergeometric(sizes, count, size=PERMUTATIONS, method="marginals")
    everyone = np.concatenate([new[None], drawn]).astype(np.float64)
    expected = sizes * (count / sizes.sum())
    deviations = everyone - expected
    statistics = (deviations**2 / expected).sum(1)
    distances = np.abs(deviations).sum(1) / 2 * (1 / count + 1 / (sizes.sum() - count))
    p_value = float((statistics >= statistics[0] - 1e-9).mean())
    return float(max(0.0, distances[0] - distances[1:].mean())), p_value


def larger(new: np.ndarray, old: np.ndarray) -> float:
    """The p-value of values [n] being larger than others [m] (Mann and Whitney's test, its normal limit)."""
    values = np.concatenate([new, old])
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values))
    ranks[order] = np.arange(1, len(values) + 1)
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.bincount(places, weights=ranks) / counts)[places]  # equal values share a rank
    mean, total = len(new) * (len(values) + 1) / 2, len(values)
    ties = float((counts.astype(np.float64) ** 3 - counts).sum())
    variance = len(new) * len(old) / 12 * (total + 1 - ties / (total * max(1, total - 1)))
    if variance <= 0:
        return 1.0
    above = float(ranks[: len(new)].sum()) - mean - 0.5
    return 0.5 * math.erfc(above / math.sqrt(2 * variance))
