"""Which task and which rows a step sees: a function of the seed and the step's number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from genius.corpus.embedded import EmbeddedCorpus
from genius.quantize.fusion_inputs import FusionInputs, concatenate
from genius.train import distributed

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


@dataclass(frozen=True)
class TrainingQueries:
    """The queries of all tasks in one row."""

    parts: FusionInputs
    want: np.ndarray
    starts: np.ndarray
    items: np.ndarray
    share: np.ndarray
    """How likely each query is drawn."""

    @classmethod
    def of(cls, embedded: EmbeddedCorpus, power: float) -> TrainingQueries:
        """All queries of the tasks, drawn by task in proportion to size to a power."""
        tasks = list(embedded.tasks.values())
        before = np.cumsum([0, *(len(task.items) for task in tasks)])
        starts = [task.starts[:-1] + first for task, first in zip(tasks, before, strict=False)]
        share = np.concatenate([np.full(len(task), float(len(task)) ** (power - 1)) for task in tasks])
        return cls(
            concatenate([embedded.queries[task.task] for task in tasks]),
            np.concatenate([np.full(len(task), task.want) for task in tasks]),
            np.append(np.concatenate(starts), before[-1]),
            np.concatenate([task.items for task in tasks]),
            share / share.sum(),
        )

    def positives(self, query: int) -> np.ndarray:
        """The numbers of the items that answer a query."""
        return self.items[self.starts[query] : self.starts[query + 1]]


@dataclass(frozen=True)
class Batch:
    """Queries, the items that they ask for, and this process's share of both."""

    rows: np.ndarray
    candidates: np.ndarray
    wanted: torch.Tensor
    """For each query the place of its item among the candidates."""
    masked: torch.Tensor
    """[queries, candidates]: pairs that are neither asked for nor wrong."""
    first: torch.Tensor
    """The modality that this process's queries want, then the one that its items have."""
    mine: slice
    my_items: slice

    @property
    def my_rows(self) -> np.ndarray:
        """This process's queries."""
        return self.rows[self.mine]

    @property
    def my_candidates(self) -> np.ndarray:
        """This process's items."""
        return self.candidates[self.my_items]


def contrastive(queries: torch.Tensor, items: torch.Tensor, batch: Batch, temperature: float) -> torch.Tensor:
    """The symmetric contrast (Eq. 3, both ways): this process's share of it; the shares add up."""
    all_queries, all_items = distributed.gather(queries), distributed.gather(items)
    wanted, first, last = batch.wanted, batch.my_items.start, batch.my_items.stop
    forth = (queries @ all_items.T / temperature).masked_fill(batch.masked[batch.mine], -torch.inf)
    there = functional.cross_entropy(forth, wanted[batch.mine], reduction="sum")
    back = (items @ all_queries.T / temperature).masked_fill(batch.masked[:, first:last].T, -torch.inf)
    ours = ((wanted >= first) & (wanted < last)).nonzero().flatten()
    again = -back.log_softmax(1)[wanted[ours] - first, ours].sum()
    return (there + again) / (2 * len(wanted))
