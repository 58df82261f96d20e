"""How long a stage of training will take, told once by its first steps and once by its first validation."""

from __future__ import annotations

import time
from collections.abc import Callable

from genius.progress import spoken

FIRST_STEPS = 5
FIRST_SECONDS = 20.0
"""Steps are counted until there are so many and they took so long."""
WORTH_SAYING = 60.0
"""Seconds that are left, below which nothing is said."""


class Pace:
    """Measures the first steps of a run.

    Args:
        name: of the stage.
        steps: of the whole stage.
        validate_every: steps between validations.
        say: is called with a sentence, twice at most.
    """

    def __init__(self, name: str, steps: int, validate_every: int, say: Callable[[str], None]) -> None:
        self._name, self._steps, self._every, self._say = name, steps, validate_every, say
        self._began: tuple[int, float] | None = None
        self._last = 0.0
        self._seconds_of_a_step: float | None = None
        self._validated = False

    def step(self, number: int) -> None:
        """A step is done. The first one of a run is not measured: it also prepares what later ones use."""
        self._last = time.monotonic()
        if self._began is None:
            self._began = number, self._last
        if self._seconds_of_a_step is not None or self._validated:
            return
        count, seconds = number - self._began[0], self._last - self._began[1]
        if count >= FIRST_STEPS and seconds >= FIRST_SECONDS:
            self._seconds_of_a_step = seconds / count
            left = (self._steps - number) * self._seconds_of_a_step
            if left >= WORTH_SAYING:
                self._say(
                    f"Training {self._name}: {spoken(left)} left, by the first {count:,} steps "
                    f"({self._seconds_of_a_step:.2g} seconds each, on a machine as busy as now); "
                    f"validations, every {self._every:,} steps, come on top."
                )

    def validation(self, number: int) -> None:
        """A validation is done, after step `number`."""
        if self._validated or self._began is None or number == self._began[0]:
            return
        self._validated = True
        seconds = time.monotonic() - self._last
        steps = number - self._began[0]
        each = (self._last - self._began[1]) / steps
        still = -(-self._steps // self._every) - -(-number // self._every)
        left = (self._steps - number) * each + still * seconds
        if left >= WORTH_SAYING:
            self._say(
                f"Training {self._name}: {spoken(left)} left, by the first {steps:,} steps ({each:.2g} "
                f"seconds each) and a validation of {seconds:.2g} seconds; {still:,} more to come."
            )
