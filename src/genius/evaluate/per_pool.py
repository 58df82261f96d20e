"""What is made once for a set of items: tasks share pools, and an index of one takes time to build."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")
KEPT = 4


class PerPool(Generic[T]):
    """Makes something for the items with given numbers, and keeps the last few."""

    def __init__(self, make: Callable[[np.ndarray], T]) -> None:
        self._make = make
        self._made: dict[bytes, T] = {}

    def __call__(self, members: np.ndarray) -> T:
        """What belongs to these items."""
        key = members.tobytes()
        if key not in self._made:
            if len(self._made) >= KEPT:
                self._made.pop(next(iter(self._made)))
            self._made[key] = self._make(members)
        return self._made[key]
