"""The ledger: how often what was tried in all runs so far, a line of JSON for each run of a scenario.

Runs that go on where the one before ended, on the same day, machine and versions, share a line.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from torture.scenario import Scenario, seen_together
from torture.supervisor import ROOT, Tally

FILE = ROOT / "research" / "torture.jsonl"
KEPT_FAILURES = 20
"""Failures of a run that a line keeps; more are counted only."""
_NAMED = ("numpy", "numba", "onnxruntime", "orjson", "pillow", "safetensors", "torch")


@dataclass
class Entry:
    """One run of a scenario, or several that went on where the one before ended."""

    scenario: str
    first: int
    """The first seed."""
    last: int
    """The last seed."""
    trials: int
    count: int
    failed: int
    failures: list[dict[str, Any]]
    seen: dict[str, int]
    seconds: float
    date: str
    machine: str
    versions: dict[str, str]
    commit: str
    processor: float = 0.0
    """Seconds of the processor; earlier lines lack them."""

    def continues(self, other: Entry) -> bool:
        """Whether another run, the next one after this, can share its line."""
        same = ("scenario", "date", "machine", "versions", "commit")
        return self.last + 1 == other.first and all(
            getattr(self, name) == getattr(other, name) for name in same
        )

    def extend(self, other: Entry) -> None:
        """Take the next run into this line."""
        self.last = other.last
        self.trials += other.trials
        self.count += other.count
        self.failed += other.failed
        self.failures = (self.failures + other.failures)[:KEPT_FAILURES]
        self.seen = dict(sorted(seen_together(self.seen, other.seen).items()))
        self.seconds = round(self.seconds + other.seconds, 1)
        self.processor = round(self.processor + other.processor, 1)


def entry(scenario: str, first: int, following: int, tally: Tally, date: str) -> Entry:
    """What a run of the seeds from `first` up to `following` gave."""
    return Entry(
        scenario,
        first,
        following - 1,
        tally.trials,
        tally.count,
        len(tally.failures),
        tally.failures[:KEPT_FAILURES],
        dict(sorted(tally.seen.items())),
        round(tally.seconds, 1),
        date,
        machine(),
        versions(),
        commit(),
        round(tally.processor, 1),
    )


@dataclass
class Ledger:
    """All runs, in a file."""

    path: Path = FILE
    entries: list[Entry] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path = FILE) -> Ledger:
        """The ledger at `path`, empty if there is none."""
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        return cls(path, [Entry(**json.loads(line)) for line in lines])

    def of(self, scenario: str) -> list[Entry]:
        """The runs of a scenario."""
        return [entry for entry in self.entries if entry.scenario == scenario]

    def next_seed(self, scenario: str) -> int:
        """The seed with which a scenario goes on."""
        return max((entry.last + 1 for entry in self.of(scenario)), default=0)

    def count(self, scenario: str) -> int:
        """How much of its unit a scenario has counted in all."""
        return sum(entry.count for entry in self.of(scenario))

    def processor(self, scenario: str) -> float:
        """How many seconds of the processor all trials of a scenario took."""
        return sum(entry.processor for entry in self.of(scenario))

    def left(self, scenario: Scenario, scale: float = 1.0) -> int:
        """How much is missing of so many times its goal; nothing after the time that is enough."""
        if scenario.enough and self.processor(scenario.name) >= scenario.enough * scale:
            return 0
        return max(0, int(scenario.goal * scale) - self.count(scenario.name))

    def processor_left(self, scenario: Scenario, scale: float = 1.0) -> float:
        """About how many seconds of the processor that will take; 0 if nothing is known of it."""
        measured = [entry for entry in self.of(scenario.name) if entry.processor and entry.count]
        left = self.left(scenario, scale)
        if not left or not measured:
            return 0.0
        each = sum(entry.processor for entry in measured) / sum(entry.count for entry in measured)
        most = scenario.enough * scale - self.processor(scenario.name) if scenario.enough else math.inf
        return min(left * each, most)

    def add(self, new: Entry) -> None:
        """Add a run, and write the file anew, with what others have added to it meanwhile."""
        with locked(self.path.parent):
            self.entries = self.read(self.path).entries
            self._add(new)

    def _add(self, new: Entry) -> None:
        previous = [known for known in self.of(new.scenario) if known.continues(new)]
        if previous:
            previous[0].extend(new)
        else:
            self.entries.append(new)
        self._write(self.entries)

    def _write(self, entries: Iterable[Entry]) -> None:
        lines = [json.dumps(asdict(entry), ensure_ascii=False) for entry in entries]
        aside = self.path.with_suffix(".new")
        aside.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        aside.replace(self.path)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Within, no other process that asks for it has this folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@cache
def machine() -> str:
    """The machine in a few words."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        name = models[0].partition(":")[2].strip() if models else name
    return f"{os.cpu_count()} × {name}, {platform.system()}"


@cache
def versions() -> dict[str, str]:
    """The versions of Python, SQLite and the libraries below genius."""
    import sqlite3

    found = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for name in _NAMED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@cache
def commit() -> str:
    """The commit that runs, with a plus if files differ from it other than by these records."""
    try:
        shown = subprocess.run(
            ["git", "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=True, cwd=ROOT
        )
        records = (f":!{FILE.relative_to(ROOT)}", ":!docs/reliability.md")
        differs = subprocess.run(
            ["git", "diff", "--quiet", "HEAD", "--", ".", *records], check=False, cwd=ROOT
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return shown.stdout.strip() + "+" * differs.returncode
