"""Which task and which rows a step sees: functions of the seed and the step's number alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from genius.corpus.embedded import EmbeddedCorpus
from genius.errors import InputError
from genius.quantize.fusion_inputs import FusionInputs, concatenate

ROUND = 64
"""About how many turns it takes until tasks have had their shares."""


class TaskSchedule:
    """A task for every turn, in proportion to size**power and evenly spread."""

    def __init__(self, sizes: Sequence[int], turns: int, *, power: float, seed: int) -> None:
        random = np.random.default_rng([seed, 7])
        shares = np.asarray(sizes, np.float64) ** power
        shares /= shares.sum()
        rounds: list[np.ndarray] = []
        while sum(map(len, rounds)) < turns:
            counts = np.floor(shares * ROUND + random.random(len(shares))).astype(np.int64)
            rounds.append(random.permutation(np.repeat(np.arange(len(shares)), counts)))
        self._tasks = np.concatenate(rounds)[:turns] if turns else np.zeros(0, np.int64)
        self._earlier_turns = np.zeros(turns, np.int64)
        for task in range(len(sizes)):
            turns_of_task = self._tasks == task
            self._earlier_turns[turns_of_task] = np.arange(turns_of_task.sum())

    def __getitem__(self, turn: int) -> tuple[int, int]:
        """The task of a turn, and how many turns the task had before."""
        return int(self._tasks[turn]), int(self._earlier_turns[turn])


def shuffled_rows(count: int, start: int, size: int, *, seed: tuple[int, ...]) -> np.ndarray:
    """`size` rows out of `count`, from position `start` of an endless sequence of fresh permutations."""
    blocks: list[np.ndarray] = []
    while size > 0:
        epoch, place = divmod(start, count)
        rows = np.random.default_rng([*seed, 11, epoch]).permutation(count)[place : place + size]
        blocks.append(rows)
        start, size = start + len(rows), size - len(rows)
    return np.concatenate(blocks)


def validation_rows(count: int, most: int) -> np.ndarray:
    """Up to `most` rows out of `count`, the same in every validation."""
    return shuffled_rows(count, 0, min(count, most), seed=(0,))


@dataclass(frozen=True)
class TrainingQueries:
    """The queries of all tasks, one task after the other."""

    inputs: FusionInputs
    want: np.ndarray
    """The wanted modality of each query [n]."""
    starts: np.ndarray
    """Where each query's positives begin in `items` [n + 1]."""
    items: np.ndarray
    probabilities: np.ndarray
    """How likely each query is drawn [n]."""

    @classmethod
    def concatenate(
        cls, embedded: EmbeddedCorpus, power: float, repetitions: Mapping[str, int] | None = None
    ) -> TrainingQueries:
        """All queries of the tasks; a task is drawn in proportion to its number of queries to a power.

        With `repetitions`, a query is drawn that many times as often. Raises InputError if no query has any.
        """
        tasks = list(embedded.tasks.values())
        offsets = np.cumsum([0, *(len(task.items) for task in tasks)])
        starts = [task.starts[:-1] + offset for task, offset in zip(tasks, offsets, strict=False)]
        weights = np.concatenate([np.full(len(task), float(len(task)) ** (power - 1)) for task in tasks])
        if repetitions is not None:
            weights *= [repetitions.get(id, 0) for task in tasks for id in task.ids]
            if not weights.any():
                raise InputError("M-BEIR's mix (upsampled = true) has none of the training queries")
        return cls(
            concatenate([embedded.queries[task.task] for task in tasks]),
            np.concatenate([np.full(len(task), task.want) for task in tasks]),
            np.append(np.concatenate(starts), offsets[-1]),
            np.concatenate([task.items for task in tasks]),
            weights / weights.sum(),
        )

    def positives(self, query: int) -> np.ndarray:
        """The numbers of the items that answer a query."""
        return self.items[self.starts[query] : self.starts[query + 1]]


@dataclass(frozen=True)
class ContrastBatch:
    """Queries and candidate items of a step, and which of both are this process's."""

    rows: np.ndarray
    """Query numbers."""
    candidates: np.ndarray
    """Item numbers, ascending."""
    targets: torch.Tensor
    """For each query the position of its item among the candidates."""
    other_positives: torch.Tensor
    """[queries, candidates]: candidates that answer a query too, but are not its target."""
    modality: torch.Tensor
    """The modality that this process's queries want, then the one that its items have."""
    local_queries: slice
    local_items: slice

    @property
    def local_rows(self) -> np.ndarray:
        """The numbers of this process's queries."""
        return self.rows[self.local_queries]

    @property
    def local_candidates(self) -> np.ndarray:
        """The numbers of this process's items."""
        return self.candidates[self.local_items]
