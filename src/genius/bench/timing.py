"""Timing systems on the same queries: one thread each, in turns, medians over several rounds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from genius.errors import require
from genius.progress import track

Clock = Callable[[], float]

TURN_SECONDS = 0.05
"""How long a system works in its turn, unless a single call takes longer."""
MAX_CALLS = 64
"""The most calls in one turn."""


@dataclass
class TimedSystem:
    """A system that answers queries, with the times that were measured.

    Attributes:
        name: as shown in tables.
        run: answers the queries with these numbers [queries]; returns the rows of the items found
            [queries, k], or None where rows can't be compared with those of other systems.
        batch_size: queries per call.
        clock: what its time is measured by; a library with threads of its own needs the process's clock.
        excluded_seconds: the seconds, since the system was made, that don't count as its work.
        bytes_per_item: memory per item.
        build_s: seconds to build it.
        num_items: how many items it holds, if not all.
        call_seconds: the time of each call; every query of a batch waits that long.
        round_medians: the median seconds per query of each round.
        results: the rows found [k], by query number.
    """

    name: str
    run: Callable[[np.ndarray], np.ndarray | None]
    batch_size: int = 1
    clock: Clock = time.thread_time
    excluded_seconds: Callable[[], float] = lambda: 0.0
    bytes_per_item: float | None = None
    build_s: float | None = None
    num_items: int | None = None
    call_seconds: list[float] = field(default_factory=list)
    round_medians: list[float] = field(default_factory=list)
    results: dict[int, np.ndarray] = field(default_factory=dict)

    def time_call(self, queries: np.ndarray) -> float:
        """Answer a batch of query numbers and keep the results; returns processor seconds per query."""
        start, excluded_before = self.clock(), self.excluded_seconds()
        rows = self.run(queries)
        seconds = self.clock() - start - (self.excluded_seconds() - excluded_before)
        if rows is not None:
            self.results.update(zip(queries.tolist(), rows, strict=True))
        return max(seconds, 1e-9) / len(queries)

    @property
    def seconds(self) -> float:
        """Seconds per query: the median of the rounds' medians."""
        return float(np.median(self.round_medians))

    def call_quantile(self, share: float) -> float:
        """A quantile of the seconds per call."""
        return float(np.quantile(self.call_seconds, share))


@dataclass(frozen=True, eq=False)
class TunedSystem:
    """A system with a knob that trades recall for speed.

    Attributes:
        system: the system at any setting.
        knob: what its makers call the knob.
        values: the settings to measure.
        tune: sets the knob.
    """

    system: TimedSystem
    knob: str
    values: tuple[int, ...]
    tune: Callable[[int], None]

    def at(self, value: int) -> TimedSystem:
        """The system at one setting, with times of its own."""

        def run(queries: np.ndarray) -> np.ndarray | None:
            self.tune(value)
            return self.system.run(queries)

        return replace(
            self.system,
            name=f"{self.system.name} {value}",
            run=run,
            call_seconds=[],
            round_medians=[],
            results={},
        )


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limit this process to one thread of linear algebra: idle threads would spin, and be counted."""
    with require("threadpoolctl", "bench", "measuring speed").threadpool_limits(1):
        yield


def time_in_turns(systems: Sequence[TimedSystem], queries: int, rounds: int) -> None:
    """Let all systems answer the same `queries` in turns, after a warm-up that does not count.

    What disturbs the machine for a while then disturbs all systems alike.
    """
    calls_per_turn = []
    for system in systems:
        batch = np.arange(min(system.batch_size, queries))
        system.time_call(batch)
        seconds = system.time_call(batch) * len(batch)
        calls_per_turn.append(int(np.clip(TURN_SECONDS / seconds, 1, MAX_CALLS)))
    for number in track(range(rounds), "measuring", total=rounds, unit="rounds"):
        for system, calls in zip(systems, calls_per_turn, strict=True):
            times = []
            for call in range(calls):
                start = (number * calls + call) * system.batch_size
                times.append(system.time_call(np.arange(start, start + system.batch_size) % queries))
            system.call_seconds += [system.batch_size * seconds for seconds in times]
            system.round_medians.append(float(np.median(times)))
