"""Runs trials: `python -m torture.worker FOLDER PROGRAMME`. It may die: then another one is started.

Reads a line of JSON for each trial, `{"scenario": …, "seed": …}`, and answers with one. Whatever a trial
prints goes to standard error.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import shutil
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from genius.progress import quiet
from tests.faults.planned_changes import use_small_blocks
from torture.orphans import die_with_parent
from torture.scenario import Outcome, Scenario, Trial


def main(folder: Path, programme: str) -> None:
    """Run trials of the scenarios of a module until the input ends."""
    die_with_parent()
    use_small_blocks()
    scenarios: dict[str, Scenario] = importlib.import_module(programme).SCENARIOS
    quiet()  # a thread for each line of progress would be copied by forks, or not
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    prepared: dict[str, Trial] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        scenario = scenarios[asked["scenario"]]
        if scenario.name not in prepared:
            _limit_memory(None)
            place = folder / scenario.name
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            prepared[scenario.name] = scenario.prepare(place)
            gc.collect()
            gc.freeze()  # forks of this process share what is prepared
        _limit_memory(scenario)
        answers.write(json.dumps(_answer(prepared[scenario.name], asked["seed"])) + "\n")


def _answer(trial: Trial, seed: int) -> dict[str, Any]:
    began, processor = time.monotonic(), _processor_seconds()
    try:
        outcome = trial(seed)
    except BaseException as error:
        outcome = Outcome(failures=[_in_a_line(error)])
    return {
        "seed": seed,
        "count": outcome.count,
        "failures": outcome.failures,
        "seen": outcome.seen,
        "seconds": time.monotonic() - began,
        "processor": _processor_seconds() - processor,
    }


def _processor_seconds() -> float:
    """What this process has taken of the processor, and its children that have ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _in_a_line(error: BaseException) -> str:
    """An error that no trial expects, and where it was raised."""
    own = Path(__file__).parent
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).parent != own
    ]
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}: {error}"[:500]


def _limit_memory(scenario: Scenario | None) -> None:
    """Memory of this process is bounded from here on, relative to what it has."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    soft = hard
    if scenario is not None and sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[5])  # of data and stack
        soft = pages * resource.getpagesize() + (scenario.megabytes << 20)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
