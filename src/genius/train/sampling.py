"""Which task and which rows a step sees: a function of the seed and the step's number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SLOTS = 64


class Schedule:
    """A task for every turn, in proportion to size**power and evenly spread, with its count so far."""

    def __init__(self, sizes: Sequence[int], turns: int, *, power: float, seed: int) -> None:
        random = np.random.default_rng([seed, 7])
        shares = np.asarray(sizes, np.float64) ** power
        shares /= shares.sum()
        rounds: list[np.ndarray] = []
        while sum(map(len, rounds)) < turns:
            counts = np.floor(shares * SLOTS + random.random(len(shares))).astype(np.int64)
            rounds.append(random.permutation(np.repeat(np.arange(len(shares)), counts)))
        self._tasks = np.concatenate(rounds)[:turns] if turns else np.zeros(0, np.int64)
        self._before = np.zeros(turns, np.int64)
        for task in range(len(sizes)):
            places = self._tasks == task
            self._before[places] = np.arange(places.sum())

    def __getitem__(self, turn: int) -> tuple[int, int]:
        """The task of a turn, and the number of its earlier turns."""
        return int(self._tasks[turn]), int(self._before[turn])


def permuted(count: int, start: int, size: int, *, seed: tuple[int, ...]) -> np.ndarray:
    """`size` rows out of `count`, from place `start` of an endless row of fresh permutations."""
    found: list[np.ndarray] = []
    while size > 0:
        epoch, place = divmod(start, count)
        rows = np.random.default_rng([*seed, 11, epoch]).permutation(count)[place : place + size]
        found.append(rows)
        start, size = start + len(rows), size - len(rows)
    return np.concatenate(found)
