"""Scenarios whose trials go wrong in each way that a trial can, for test_supervisor."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from pathlib import Path

from torture.scenario import Outcome, Scenario, Trial


def prepare(folder: Path, kind: str) -> Trial:
    def trial(seed: int) -> Outcome:
        outcome = Outcome(count=2, seen=Outcome().seen)
        outcome.seen[f"{kind} trials"] += 1
        if seed % 3 != 1:
            return outcome
        if kind == "dying":
            os.kill(os.getpid(), signal.SIGSEGV)
        elif kind == "hanging":
            threading.Event().wait()
        elif kind == "greedy":
            return Outcome(len(bytearray(1 << 31)))
        elif kind == "raising":
            raise KeyError("no such thing")
        else:
            outcome.expect(False, "it does not hold")
        return outcome

    return trial


SCENARIOS = {
    kind: Scenario(
        name=kind,
        promise="",
        unit="trials",
        goal=10,
        field="",
        prepare=partial(prepare, kind=kind),
        seconds=0.5,
        megabytes=512,
    )
    for kind in ("dying", "hanging", "greedy", "raising", "failing")
}
