"""Writes docs/reliability.md from the ledger of torture: `make pages` runs it.

PYTHONPATH=benchmarks python -m tools.reliability_page docs/reliability.md
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from torture.ledger import FILE, Entry, Ledger
from torture.programme import SCENARIOS
from torture.scenario import Scenario, seen_together

FOUND = FILE.with_name("torture-found.toml")
"""What torture found, by hand: what was wrong, and the commit that mended it."""

_INTRODUCTION = """# Reliability

What genius endures, counted. Each row is a scenario of `benchmarks/torture`, which does one kind of harm
again and again; a seed determines each trial, so that every failure can be had again. Counts are added up
over runs (`research/torture.jsonl` has them with seeds, machines and versions); this page is generated from
them, and nothing is left out: a row that has not reached its goal says so.

```bash
make torture BUDGET=10                        # a fair sample of all scenarios in ten minutes
make torture                                  # until every goal is reached, which takes many hours
make torture SCENARIOS="kill-changes model"   # some of them
make torture SCENARIOS=kill-changes SEED=17   # one trial again
```

A run that is stopped goes on where it was. Trials run in a process with bounded memory and time: if it
crashes or hangs, that is a failure. A small share of each scenario runs with `make test`.

Hours are those that trials took, and in brackets those of the processor: where the machine had other work at
the same time, the first are many more.
"""
_MODEL_OF_POWER_LOSS = """
**How power loss is played.** A library between the process and its disk records every write, sync, rename
and removal. Replayed up to any moment, what was synced is there; of the rest, each block of 4 KB may be there
or not, in any order, and names that were not synced may be missing. File systems in use do less harm than
that. **Kills** fall just before a write, a sync, a change of names or an open, or at any moment by the clock.
**Failed calls** fail once, or from there on for good. **Fuzzing** searches for inputs that take new paths
through the code (atheris), and mutates inputs by itself.
"""


@dataclass(frozen=True)
class Found:
    """Something that torture found.

    Attributes:
        scenario: that found it.
        what: was wrong.
        commit: the subject of the commit that mended it; empty if it is not mended.
        seeds: whose failures in the ledger are this one's.
    """

    scenario: str
    what: str
    commit: str
    seeds: tuple[int, ...] = ()


def read_found(path: Path = FOUND) -> list[Found]:
    """All that was found."""
    tables = tomllib.loads(path.read_text("utf-8"))["found"]
    return [Found(**{**table, "seeds": tuple(table.get("seeds", ()))}) for table in tables]


def reliability_page(ledger: Ledger, findings: list[Found]) -> str:
    """The page."""
    parts = [
        _INTRODUCTION,
        _table(ledger, findings),
        _MODEL_OF_POWER_LOSS,
        _long_runs(ledger),
        _findings(findings),
        _runs(ledger),
    ]
    return "\n".join(parts)


def _table(ledger: Ledger, findings: list[Found]) -> str:
    lines = [
        "## What was counted",
        "",
        "| scenario | what holds | counted | goal | failures open | hours | best public figure elsewhere |",
        "|---|---|---|---|---|---|---|",
    ]
    for scenario in SCENARIOS.values():
        runs = ledger.of(scenario.name)
        lines.append(
            f"| `{scenario.name}` | {scenario.promise} | {_counted(scenario, runs)} | {scenario.goal:,} "
            f"{_or_time(scenario)}| {_open_failures(runs, findings)} | {_hours(runs)} | {scenario.field} |"
        )
    return "\n".join(lines)


def _counted(scenario: Scenario, runs: list[Entry]) -> str:
    count = sum(run.count for run in runs)
    return f"{count:,} {scenario.unit}" if count else "not yet"


def _hours(runs: list[Entry]) -> str:
    """What the trials took, and of it the processor's part."""
    took, processor = sum(run.seconds for run in runs) / 3600, sum(run.processor for run in runs) / 3600
    return f"{took:.2g} ({processor:.2g})" if runs else ""


def _or_time(scenario: Scenario) -> str:
    return f"or {scenario.enough / 60:.0f} minutes of the processor " if scenario.enough else ""


def _open_failures(runs: list[Entry], findings: list[Found]) -> int:
    """Failures that nothing which was mended explains."""
    mended = {(one.scenario, seed) for one in findings if one.commit for seed in one.seeds}
    unexplained = 0
    for run in runs:
        explained = sum((run.scenario, failure["seed"]) in mended for failure in run.failures)
        unexplained += run.failed - explained
    return unexplained


def _long_runs(ledger: Ledger) -> str:
    """What was seen of processes that live long, on a machine that has other work, too."""
    lines = []
    for name in ("readers-and-writer", "service-under-load"):
        seen = Counter[str]()
        for run in ledger.of(name):
            seen = seen_together(seen, run.seen)
        if not seen["largest age of the processes, seconds"]:
            continue
        said = [f"processes lived for up to {seen['largest age of the processes, seconds']:,} seconds"]
        said += [f"{seen[what]:,} {what}" for what in ("changes", "answers", "searches") if seen[what]]
        said.append(f"memory of one grew by {seen['largest growth, MB']} MB at most")
        for when in ("at begin", "at end"):
            if periods := seen[f"periods {when}"]:
                mean = seen[f"p99 {when}, ms, summed over periods"] / periods
                said.append(f"99 of 100 searches took less than {mean:,.0f} ms {when}")
        lines.append(f"- `{name}`: {'; '.join(said)}.")
    if not lines:
        return ""
    return "\n".join(["**Long runs** (`begin` and `end` are ten minutes of an hour each):", "", *lines, ""])


def _findings(findings: list[Found]) -> str:
    lines = ["## What it found", "", "| scenario | what was wrong | mended by the commit |", "|---|---|---|"]
    rows = (f"| `{one.scenario}` | {one.what} | {one.commit or '**not mended yet**'} |" for one in findings)
    return "\n".join([*lines, *rows])


def _runs(ledger: Ledger) -> str:
    lines = ["", "## Runs", ""]
    if not ledger.entries:
        return "\n".join([*lines, "None is recorded yet."])
    lines += [
        "Rates are trials of one worker, on a machine as busy as it was; seconds of the processor (CPU) are",
        "those of the worker and its children, without what they prepare.",
        "",
        "| date | scenario | seeds | counted | a second | CPU each | failures | machine | commit |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for run in ledger.entries:
        rate = run.count / run.seconds if run.seconds else 0.0
        processor = f"{run.processor / run.count:.2g}" if run.processor and run.count else ""
        lines.append(
            f"| {run.date} | `{run.scenario}` | {run.first}–{run.last} | {run.count:,} | {rate:,.3g} "
            f"| {processor} | {run.failed} | {run.machine}, Python {run.versions['python']}, SQLite "
            f"{run.versions['sqlite']} | {run.commit} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reliability_page(Ledger.read(), read_found()), "utf-8")
