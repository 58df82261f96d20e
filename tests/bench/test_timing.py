from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("threadpoolctl")

from genius.bench.timing import TimedSystem, time_in_turns


def test_systems_take_turns() -> None:
    turns: list[str] = []
    clock = iter(np.arange(1000.0))

    def system_called(name: str) -> TimedSystem:
        return TimedSystem(name, lambda queries: turns.append(name), 2, clock=lambda: float(next(clock)))

    systems = [system_called("a"), system_called("b")]
    time_in_turns(systems, 5, rounds=2)
    assert turns == ["a", "a", "b", "b", "a", "b", "a", "b"]
    assert [system.seconds for system in systems] == [0.5, 0.5]  # a second for two queries
    assert [system.call_quantile(0.5) for system in systems] == [1, 1]  # both queries wait for it


def test_excluded_seconds_do_not_count() -> None:
    clock, excluded = iter([10.0, 15.0]), iter([1.0, 3.0])
    system = TimedSystem(
        "a",
        lambda queries: queries[:, None] + 7,
        clock=lambda: next(clock),
        excluded_seconds=lambda: next(excluded),
    )
    assert system.time_call(np.array([4, 6])) == 1.5
    assert {query: rows.tolist() for query, rows in system.results.items()} == {4: [11], 6: [13]}
