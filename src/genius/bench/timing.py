"""How long systems take for the same queries: one thread each, in turns, medians of several rounds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from genius.errors import require
from genius.progress import track

Clock = Callable[[], float]

TURN = 0.05
"""How many seconds a system works in its turn, unless one call takes longer."""
MOST = 64  # calls in a turn


@dataclass
class System:
    """Something that answers queries.

    Attributes:
        name: what it is called in tables.
        run: answers the queries with these numbers; gives rows [queries, k], or None if they mean nothing.
        batch: how many queries it is given at a time.
        clock: what its time is measured by. Libraries with threads of their own need the process's.
        left_out: seconds that it spent, since it was made, on what does not count.
        bytes_per_item, build_s: what it takes to keep its items, and to make it.
        items: how many it holds, if not all.
        times: the seconds of each call: all of a batch wait for it.
        medians: of each round, the seconds of a query.
    """

    name: str
    run: Callable[[np.ndarray], np.ndarray | None]
    batch: int = 1
    clock: Clock = time.thread_time
    left_out: Callable[[], float] = lambda: 0.0
    bytes_per_item: float | None = None
    build_s: float | None = None
    items: int | None = None
    times: list[float] = field(default_factory=list)
    medians: list[float] = field(default_factory=list)
    found: dict[int, np.ndarray] = field(default_factory=dict)

    def turn(self, queries: np.ndarray) -> float:
        """Answer a batch; returns seconds of a processor for each query."""
        start, before = self.clock(), self.left_out()
        rows = self.run(queries)
        seconds = self.clock() - start - (self.left_out() - before)
        if rows is not None:
            self.found.update(zip(queries.tolist(), rows, strict=True))
        return max(seconds, 1e-9) / len(queries)

    @property
    def seconds(self) -> float:
        """Of a query: the median of the rounds' medians."""
        return float(np.median(self.medians))

    def quantile(self, share: float) -> float:
        """Of the seconds that calls took."""
        return float(np.quantile(self.times, share))


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Meanwhile this process multiplies matrices on one thread: others would spin, and be counted."""
    with require("threadpoolctl", "bench", "measuring speed").threadpool_limits(1):
        yield


def measure(systems: Sequence[System], queries: int, rounds: int) -> None:
    """Let all systems answer the same `queries` in turns, after one turn that does not count."""
    calls = []
    for system in systems:
        first = np.arange(min(system.batch, queries))
        system.turn(first)
        seconds = system.turn(first) * len(first)
        calls.append(int(np.clip(TURN / seconds, 1, MOST)))
    for number in track(range(rounds), "measuring", total=rounds, unit="rounds"):
        for system, count in zip(systems, calls, strict=True):
            times = []
            for call in range(count):
                place = (number * count + call) * system.batch
                times.append(system.turn(np.arange(place, place + system.batch) % queries))
            system.times += [system.batch * seconds for seconds in times]
            system.medians.append(float(np.median(times)))
