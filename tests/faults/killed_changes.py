"""Changes an index again and again in children that are killed; test_change_kills runs it in its own process.

Each child goes on with the index that the one before left, and adds, updates, removes and compacts as a
random plan says, acknowledging every change that it has made. Every other child is killed (SIGKILL) at a
random one of the calls that the work takes, in Python or just before a call into C; the others by the clock
(SIGALRM, which is not handled), in the midst of whatever they are doing: those moments differ from run to
run.

Goes on until enough children were really killed. Prints a line per child: was it killed, was that by the
clock, what it was doing, and whether the index is intact and holds what it held after the last change that
was acknowledged, or after the next one.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.faults.killed_writers import kill_at_call, watch_calls
from tests.faults.planned_changes import (
    STEPS,
    Change,
    Content,
    after,
    content_of,
    item,
    make,
    plan,
    use_small_blocks,
)
from tests.index.made_up_index import open_made_up

CHILDREN = 10
"""How many children there are for each kill, at the most."""


def by_the_clock(seconds: float) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def killed(path: Path, changes: list[Change], prepare: Callable[[], None]) -> tuple[bool, int]:
    """Whether the child was killed, and how many changes it had acknowledged by then."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        prepare()
        make(path, changes, lambda: os.write(write_end, b"."))
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as dots:
        count = len(dots.read())
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended in (0, -signal.SIGKILL, -signal.SIGALRM), ended
    return ended != 0, count


def measured(folder: Path) -> tuple[int, float]:
    """How many calls a usual plan takes, and how many seconds."""
    changes: list[Change] = [("add", [item(random.Random(n), str(n))]) for n in range(STEPS)]
    seen: list[int] = []
    watch_calls(seen.append, from_swap=False)
    make(folder / "watched", changes, lambda: None)
    sys.setprofile(None)
    began = time.perf_counter()
    make(folder / "measured", changes, lambda: None)
    return seen[-1], time.perf_counter() - began


def main(folder: Path, kills: int) -> None:
    use_small_blocks()
    (calls, seconds), path = measured(folder), folder / "index"
    open_made_up(path).close()
    content: Content = {}
    moments = random.Random(1)
    for number in range(CHILDREN * kills):
        changes, clock = plan(number, sorted(content)), bool(number % 2)
        moment = moments.uniform(0, seconds) if clock else moments.randint(1, calls)
        at_call = partial(kill_at_call, int(moment), from_swap=False)
        prepare = partial(by_the_clock, max(moment, 1e-6)) if clock else at_call
        dead, acknowledged = killed(path, changes, prepare)
        kills -= dead
        states = [content]
        for change in changes:
            states.append(after(states[-1], change))
        content = content_of(path)
        fits = content in states[acknowledged : acknowledged + 2]
        doing = changes[acknowledged][0] if acknowledged < len(changes) else "end"
        print(json.dumps([dead, clock, doing, fits]))
        if not kills:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
