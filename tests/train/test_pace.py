from __future__ import annotations

import time

import pytest

from genius.train.pace import Pace


def sentences(
    monkeypatch: pytest.MonkeyPatch, *, steps: int, seconds: float, validation: float, start: int = 0
) -> list[str]:
    """What is said of a stage whose first step takes a minute longer, and which is validated every 100."""
    clock, said = [1000.0], list[str]()
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    pace = Pace("decoder", steps, 100, said.append)
    for number in range(start + 1, steps + 1):
        clock[0] += seconds + 60 * (number == start + 1)
        pace.step(number)
        if number % 100 == 0:
            clock[0] += validation
            pace.validation(number)
    return said


def test_the_first_steps_and_the_first_validation_tell_how_long_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert sentences(monkeypatch, steps=3000, seconds=2, validation=60) == [
        "Training decoder: 100 minutes left, by the first 10 steps (2 seconds each, on a machine as busy as "
        "now); validations, every 100 steps, come on top.",  # 2989 · 2 s
        "Training decoder: 2.1 hours left, by the first 99 steps (2 seconds each) and a validation of 60 "
        "seconds; 29 more to come.",  # 2900 · 2 s + 29 · 60 s
    ]


def test_slow_steps_are_counted_until_there_are_five_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sentences(monkeypatch, steps=90, seconds=30, validation=0) == [
        "Training decoder: 42 minutes left, by the first 5 steps (30 seconds each, on a machine as busy as "
        "now); validations, every 100 steps, come on top."
    ]


def test_a_resumed_stage_counts_its_own_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sentences(monkeypatch, steps=400, seconds=1, validation=30, start=190) == [
        "Training decoder: 4 minutes left, by the first 9 steps (1 seconds each) and a validation of 30 "
        "seconds; 2 more to come."
    ]


def test_of_short_training_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sentences(monkeypatch, steps=3000, seconds=0.01, validation=0.5) == []
