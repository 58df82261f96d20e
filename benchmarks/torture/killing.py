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
from pathlib import Path

from torture import shim

Acknowledge = Callable[[], object]
Work = Callable[[Acknowledge], object]
"""What a child does; it acknowledges each part that has returned."""

CLOCK = "the clock"
STEPS = {"a write": shim.WRITES, "a sync": shim.SYNCS, "a change of names": shim.NAMES, "an open": shim.OPENS}


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
            self.calls[name] = shim.count_calls(lambda name=name: work(name), kinds)  # type: ignore[misc]
        began = time.perf_counter()
        work(CLOCK)
        self.seconds = time.perf_counter() - began

    def kill(self, work: Work, dice: random.Random) -> tuple[str, int]:
        """What a child was killed before, empty if it came to its end, and how much it had acknowledged."""
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
        return (how if status else ""), acknowledged

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
