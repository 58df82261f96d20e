"""How far two partitions of the same items agree: adjusted mutual information."""

from __future__ import annotations

from math import lgamma

import numpy as np


def adjusted_mutual_information(groups: np.ndarray, other: np.ndarray) -> float:
    """1 for equal partitions, about 0 for unrelated ones: how much the groups [n] of one tell of the other's.

    Mutual information, less what partitions into groups of these sizes share by chance, over the most that
    they could share beyond that (Vinh, Epps and Bailey, 2010, https://jmlr.org/papers/v11/vinh10a.html; the
    arithmetic mean of the entropies is the bound).
    """
    table = _contingency(groups, other)
    count, rows, columns = int(table.sum()), table.sum(1), table.sum(0)
    if len(rows) == len(columns) == 1 or len(rows) == len(columns) == count:
        return 1.0
    shares = table / count
    chance = np.outer(rows, columns) / count**2
    present = shares > 0
    information = float((shares[present] * np.log(shares[present] / chance[present])).sum())
    bound = (_entropy(rows) + _entropy(columns)) / 2
    expected = _expected_information(rows, columns)
    return (information - expected) / max(bound - expected, 1e-12)


def _contingency(groups: np.ndarray, other: np.ndarray) -> np.ndarray:
    """How many items are in each group of one and of the other, int64 [groups, groups]."""
    names = [np.unique(names, return_inverse=True) for names in (groups, other)]
    table = np.zeros((len(names[0][0]), len(names[1][0])), np.int64)
    np.add.at(table, (names[0][1], names[1][1]), 1)
    return table


def _entropy(sizes: np.ndarray) -> float:
    shares = sizes / sizes.sum()
    return float(-(shares * np.log(shares)).sum())


def _expected_information(rows: np.ndarray, columns: np.ndarray) -> float:
    """The mean mutual information of all partitions into groups of these sizes."""
    count = int(rows.sum())
    factorial = np.array([lgamma(number + 1) for number in range(count + 1)])
    expected = 0.0
    pairs, numbers = np.unique(
        np.stack(np.meshgrid(rows, columns), -1).reshape(-1, 2), axis=0, return_counts=True
    )
    for (row, column), number in zip(pairs.tolist(), numbers.tolist(), strict=True):
        shared = np.arange(max(1, row + column - count), min(row, column) + 1)
        log_share = (
            factorial[row]
            + factorial[column]
            + factorial[count - row]
            + factorial[count - column]
            - factorial[count]
            - factorial[shared]
            - factorial[row - shared]
            - factorial[column - shared]
            - factorial[count - row - column + shared]
        )
        gain = shared / count * np.log(count * shared / (row * column))
        expected += number * float((gain * np.exp(log_share)).sum())
    return expected
