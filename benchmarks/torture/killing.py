"""Children of a warm worker that do some work and are killed (SIGKILL) on the way.

The moment is one of the steps of a commit, which are the calls that change contents, sync, change names or
open files (the child dies just before the call); or any moment by the clock.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from torture import shim
from torture.scenario import Outcome

Acknowledge = Callable[[], object]
Work = Callable[[Acknowledge], object]
"""What a child does; it acknowledges each part that has returned."""

CLOCK = "the clock"
STEPS = {"a write": shim.WRITES, "a sync": shim.SYNCS, "a change of names": shim.NAMES, "an open": shim.OPENS}
TRIES = 20
"""Children that go on with the same work, at most."""
REPLACED = 5
"""How often something is replaced by a newer one."""


@dataclass
class Killer:
    """Kills children below a folder.

    Attributes:
        folder: whose calls count.
        calls: how many of each kind usual work takes, by the names of `STEPS`.
        seconds: how long it takes.
    """

    folder: Path
    calls: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    def measure(self, work: Callable[[str], object]) -> None:
        """Measure some work, which is done once for each kind of step under another name."""
        shim.watch(self.folder)
        for name, kinds in STEPS.items():
            self.calls[name] = shim.count_calls(partial(work, name), kinds)
        began = time.perf_counter()
        work(CLOCK)
        self.seconds = time.perf_counter() - began

    def kill(
        self, work: Work, dice: random.Random, outcome: Outcome, otherwise: str = "not killed"
    ) -> tuple[str, int]:
        """What a child was killed before, empty if it came to its end, and how much it had acknowledged.

        It counts in the outcome; `otherwise` says there what a child has done that came to its end.
        """
        how = dice.choice([*STEPS, CLOCK])
        moment, at = dice.uniform(0, self.seconds), dice.randint(1, max(1, self.calls.get(how, 1)))
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            self._run(work, write_end, how, moment, at)
        os.close(write_end)
        with os.fdopen(read_end, "rb") as dots:
            acknowledged = len(dots.read())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status not in (0, -signal.SIGKILL, -signal.SIGALRM):
            raise RuntimeError(f"the writer failed by itself: {status}")
        how = how if status else ""
        outcome.count += bool(how)
        outcome.seen[f"before {how}" if how else otherwise] += 1
        return how, acknowledged

    def complete(
        self,
        work: Work,
        dice: random.Random,
        outcome: Outcome,
        held: Callable[[str], int],
        whole: int,
    ) -> None:
        """Kill children that go on with some work until one has done it: what it grows to never shrinks.

        `held` checks what there is after a kill, which it is told, and says how much; `whole` is all of it.
        """
        before = 0
        for _ in range(TRIES):
            how, done = self.kill(work, dice, outcome, "done to the end")
            count = held(how)
            outcome.expect(count >= before, f"{how}: {before} became {count}")
            outcome.expect(not done or count == whole, f"done to the end: {count} instead of {whole}")
            if done:
                return
            before = count

    def replace(
        self,
        write: Callable[[int], object],
        read: Callable[[], int],
        dice: random.Random,
        outcome: Outcome,
    ) -> None:
        """Kill children that replace something by newer versions: at any time it is of one version."""
        before = 0
        write(before)
        for version in range(1, 1 + REPLACED):
            how, done = self.kill(_acknowledged(partial(write, version)), dice, outcome, "replaced")
            found, allowed = read(), (version,) if done else (before, version)
            outcome.expect(found in allowed, f"{how}: {before} became {found}")
            before = found

    def _run(self, work: Work, pipe: int, how: str, moment: float, at: int) -> None:
        try:
            shim.watch(self.folder)
            if how == CLOCK:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_REAL, max(moment, 1e-6))
            else:
                shim.kill_at(at, STEPS[how])
            work(lambda: os.write(pipe, b"."))
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(3)
        os._exit(0)


def _acknowledged(work: Callable[[], object]) -> Work:
    """Some work that is acknowledged when it has returned."""

    def run(acknowledge: Acknowledge) -> None:
        work()
        acknowledge()

    return run
