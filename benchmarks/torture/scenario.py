"""What a scenario is, and what a trial of it gives."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path

LARGEST = "largest "
"""What the names begin with of what is not added up."""


@dataclass
class Outcome:
    """What one trial gives.

    Attributes:
        count: of the scenario's unit: kills that took place, operations, requests.
        failures: what went wrong, in words; empty if all held.
        seen: how often what happened, so that a reader sees that harm was really done.
    """

    count: int = 0
    failures: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def add(self, other: Outcome) -> None:
        """Take in what a part of the trial gave."""
        self.count += other.count
        self.failures += other.failures
        self.seen = seen_together(self.seen, other.seen)

    def expect(self, holds: bool, otherwise: str) -> None:
        """Record a failure unless something holds."""
        if not holds:
            self.failures.append(otherwise)


def seen_together(one: Mapping[str, int], other: Mapping[str, int]) -> Counter[str]:
    """What two parts have seen: sums, and of what is named `largest …` the larger one."""
    both = Counter(one)
    for name, number in other.items():
        both[name] = max(both[name], number) if name.startswith(LARGEST) else both[name] + number
    return both


Trial = Callable[[int], Outcome]
"""Does the harm that a seed determines."""


def seeded(harm: Callable[[random.Random, Outcome], None]) -> Trial:
    """The trial of some harm, which is given dice of the seed, and an outcome to fill."""

    @wraps(harm)
    def trial(seed: int) -> Outcome:
        outcome = Outcome()
        harm(random.Random(seed), outcome)
        return outcome

    return trial


@dataclass(frozen=True)
class Scenario:
    """One kind of harm.

    Attributes:
        name: by which it is run.
        promise: what holds whatever is done, in a sentence for the generated page.
        unit: what is counted, such as `kills`.
        goal: how many of them the programme asks for.
        field: the best figure that others publish for it.
        prepare: makes in an empty folder what all trials share, and returns what runs one.
        seconds: of the processor that a trial may take, after which it counts as hanging.
        megabytes: of memory it may take beyond what the prepared worker has.
        shim: whether it needs the library that stands between a process and its disk (`shim`).
        needs: modules beside genius's own, without which it is skipped.
        share: how many trials a run of the test suite does.
        enough: seconds of the processor in all that reach the goal, too; 0 for none.
    """

    name: str
    promise: str
    unit: str
    goal: int
    field: str
    prepare: Callable[[Path], Trial]
    seconds: float = 60.0
    megabytes: int = 1024
    shim: bool = False
    needs: tuple[str, ...] = ()
    share: int = 4
    enough: float = 0.0


def scratch(folder: Path) -> Path:
    """An empty folder for one trial; what an earlier one left there is removed."""
    path = folder / "trial"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path
