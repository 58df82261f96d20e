"""Hands seeds to workers, and counts what comes back: a worker that dies or hangs failed its seed."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from torture import shim
from torture.scenario import LARGEST, Scenario, seen_together

ROOT = Path(__file__).parents[2]
START_SECONDS = 240.0
"""Beyond the time of a trial, for the first one of a worker: it also prepares what they share."""

BUSY = 15
"""How many times its seconds a trial is waited for: a machine may have other work, too."""
SLICE = 1.0
"""Seconds of waiting at a time. If all was paused meanwhile, it counts as one slice."""

MOST_FAILURES = 20
"""After which a run of a scenario ends: what is broken need not be broken all night."""


@dataclass
class Tally:
    """What some trials of a scenario gave together.

    `processor` are the seconds that they took of it, which don't depend on what else a machine does.
    """

    trials: int = 0
    count: int = 0
    failures: list[dict[str, Any]] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    processor: float = 0.0

    def add(self, answer: dict[str, Any]) -> None:
        """Count a trial."""
        self.trials += 1
        self.count += answer["count"]
        self.failures += [{"seed": answer["seed"], "what": what} for what in answer["failures"]]
        self.seen = seen_together(self.seen, answer["seen"])
        self.seconds += answer["seconds"]
        self.processor += answer["processor"]

    def copy(self) -> Tally:
        """What it is now."""
        return replace(self, failures=list(self.failures), seen=self.seen.copy())

    def since(self, earlier: Tally) -> Tally:
        """What came after an earlier copy."""
        return Tally(
            self.trials - earlier.trials,
            self.count - earlier.count,
            self.failures[len(earlier.failures) :],
            Counter(
                {
                    name: number if name.startswith(LARGEST) else number - earlier.seen[name]
                    for name, number in self.seen.items()
                }
            ),
            self.seconds - earlier.seconds,
            self.processor - earlier.processor,
        )


class Worker:
    """A process that runs trials of any scenario, one at a time."""

    def __init__(self, folder: Path, *, shimmed: bool, programme: str = "torture.programme") -> None:
        self._folder, self._shimmed, self._programme = folder, shimmed, programme
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()
        self._warm: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def run(self, scenario: Scenario, seed: int) -> dict[str, Any]:
        """The answer of a trial; what it took the worker to die or to hang is its failure."""
        if self._process is None:
            self._start()
        assert self._process is not None and self._process.stdin is not None
        patience = BUSY * (scenario.seconds + (0 if scenario.name in self._warm else START_SECONDS))
        self._warm.add(scenario.name)
        began = time.monotonic()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"scenario": scenario.name, "seed": seed}) + "\n")
            self._process.stdin.flush()
        try:
            line = self._answer(patience)
        except queue.Empty:
            failure = f"took more than {patience:.0f} seconds"
        else:
            if line:
                answer: dict[str, Any] = json.loads(line)
                if answer["processor"] > scenario.seconds:
                    answer["failures"].append(f"took {answer['processor']:.0f} seconds of the processor")
                return answer
            ended = self._process.wait()
            failure = f"the process died: {signal.Signals(-ended).name if ended < 0 else f'exit {ended}'}"
        self.stop()
        return {
            "seed": seed,
            "count": 0,
            "failures": [failure],
            "seen": {},
            "seconds": time.monotonic() - began,
            "processor": 0.0,
        }

    def _answer(self, patience: float) -> str:
        """The next line of the process. Raises queue.Empty after so many seconds without pauses."""
        for _ in range(max(0, math.ceil(patience / SLICE) - 1)):
            with contextlib.suppress(queue.Empty):
                return self._lines.get(timeout=SLICE)
        return self._lines.get(timeout=SLICE)

    def stop(self) -> None:
        """End the process, and those that it has started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._pump.join()
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self._process = None

    def _start(self) -> None:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(ROOT / "benchmarks"), *_python_path()])
        }
        environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        if self._shimmed:
            environment["LD_PRELOAD"] = str(shim.library())
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "torture.worker", str(self._folder), self._programme],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("TORTURE_VERBOSE") else subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
        self._lines, self._warm = queue.Queue(), set()
        self._pump = threading.Thread(target=_pump, args=(self._process, self._lines), daemon=True)
        self._pump.start()


def _python_path() -> list[str]:
    return [path for path in (str(ROOT), os.environ.get("PYTHONPATH", "")) if path]


def _pump(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    """Pass on what a worker answers; an empty line says that it has ended."""
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put("")


def missing(scenario: Scenario) -> str:
    """Why a scenario can't run here; empty if it can."""
    absent = [name for name in scenario.needs if importlib.util.find_spec(name) is None]
    if absent:
        return f"needs {', '.join(absent)}"
    return shim.missing() if scenario.shim else ""


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for workers, in memory where there is one: what a disk does is played, not left to chance."""
    memory = Path("/dev/shm")
    place = str(memory) if memory.is_dir() and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="torture-", dir=place, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def run(
    scenario: Scenario,
    *,
    first: int,
    seconds: float | None,
    count: int | None,
    jobs: int = 1,
    report: Callable[[Tally, int], None] = lambda tally, seed: None,
) -> tuple[Tally, int]:
    """Run trials from the seed `first` on, until the time is over or so much is counted.

    Returns what they gave, and the seed to go on with. `report` is called after each.
    """
    tally, lock = Tally(), threading.Lock()
    seeds = iter(range(first, sys.maxsize))
    end = None if seconds is None else time.monotonic() + seconds
    state = {"next": first}

    def done() -> bool:
        over = end is not None and time.monotonic() >= end
        return over or (count is not None and tally.count >= count) or len(tally.failures) >= MOST_FAILURES

    def work(folder: Path) -> None:
        with Worker(folder, shimmed=scenario.shim) as worker:
            while not done():
                with lock:
                    seed = next(seeds)
                answer = worker.run(scenario, seed)
                with lock:
                    tally.add(answer)
                    state["next"] = max(state["next"], seed + 1)
                    report(tally, state["next"])

    with scratch_folder() as folder:
        threads = [
            threading.Thread(target=work, args=(folder / str(number),), daemon=True) for number in range(jobs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return tally, state["next"]
