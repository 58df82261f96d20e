"""The queries that stages 1 and 2 learn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genius.evaluate.embedded import Embedded
from genius.quantize.parts import Parts, concatenate


@dataclass(frozen=True)
class TrainingQueries:
    """The queries of all tasks in one row."""

    parts: Parts
    want: np.ndarray
    starts: np.ndarray
    items: np.ndarray
    share: np.ndarray
    """How likely each query is drawn."""

    @classmethod
    def of(cls, embedded: Embedded, power: float) -> TrainingQueries:
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
