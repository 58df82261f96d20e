"""`make torture`: run scenarios, print a line of JSON for each, and add the counts to the ledger.

    python -m torture                        all of them, until each has reached its goal, the shortest first
    python -m torture --budget 10            a fair sample of all of them in ten minutes
    python -m torture kill-index --scale 2   one of them, until twice its goal is reached
    python -m torture kill-index --seed 17   one trial again, without recording it

Run from the root of the repository with PYTHONPATH=benchmarks. Stopped at any moment, it goes on where it
was.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import time
from collections.abc import Sequence

from torture.ledger import FILE, Ledger, entry
from torture.programme import SCENARIOS
from torture.scenario import Scenario
from torture.supervisor import Tally, Worker, missing, run, scratch_folder

RECORD_SECONDS = 20.0
"""Between two records of a run in progress: a killed one loses no more."""


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; 1 if anything failed."""
    asked = _parser().parse_args(arguments)
    ledger = Ledger.read(asked.ledger)
    chosen = [_named(name) for name in asked.scenarios] or sorted(
        SCENARIOS.values(), key=lambda scenario: ledger.processor_left(scenario, asked.scale)
    )
    if asked.list:
        for scenario in chosen:
            minutes = ledger.processor_left(scenario, asked.scale) / 60
            print(
                f"{scenario.name:20} {ledger.left(scenario, asked.scale):>12,} of {scenario.goal:>12,} "
                f"{scenario.unit:14} left, about {minutes:,.1f} minutes of the processor"
            )
        return 0
    if asked.seed is not None:
        return _again(chosen[0], asked.seed)
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    end = None if asked.budget is None else time.monotonic() + 60 * asked.budget
    failed = False
    for place, scenario in enumerate(chosen):
        why = missing(scenario)
        left = ledger.left(scenario, asked.scale)
        if end is not None:  # a sample is fair if it also has those that have reached their goal
            left = left or round(scenario.goal * asked.scale)
        if why or not left:
            print(
                json.dumps({"scenario": scenario.name, "skipped": why or "its goal is reached"}), flush=True
            )
            continue
        seconds = None if end is None else max(1.0, (end - time.monotonic()) / (len(chosen) - place))
        tally = _run(scenario, ledger, date, seconds, left, asked.jobs)
        failed = failed or bool(tally.failures)
    return int(failed)


def _run(
    scenario: Scenario, ledger: Ledger, date: str, seconds: float | None, count: int, jobs: int
) -> Tally:
    """Run a scenario, record it every few seconds, and print its line."""
    began = first = ledger.next_seed(scenario.name)
    recorded, total = Tally(), Tally()
    at = time.monotonic()

    def record(tally: Tally, following: int) -> None:
        nonlocal recorded, first, at
        if following > first:
            ledger.add(entry(scenario.name, first, following, tally.since(recorded), date))
        recorded, first, at = tally.copy(), following, time.monotonic()

    def report(tally: Tally, following: int) -> None:
        if time.monotonic() - at >= RECORD_SECONDS and tally.trials == following - began:
            record(tally, following)

    started = time.monotonic()
    total, following = run(scenario, first=began, seconds=seconds, count=count, jobs=jobs, report=report)
    record(total, following)
    line = {
        "scenario": scenario.name,
        "seeds": [began, following - 1],
        "unit": scenario.unit,
        "count": total.count,
        "in all": ledger.count(scenario.name),
        "goal": scenario.goal,
        "seconds": round(time.monotonic() - started, 1),
        "each": round(total.seconds / max(1, total.count), 5),
        "processor seconds each": round(total.processor / max(1, total.count), 6),
        "seen": dict(sorted(total.seen.items())),
        "failures": total.failures,
    }
    print(json.dumps(line, ensure_ascii=False), flush=True)
    return total


def _again(scenario: Scenario, seed: int) -> int:
    """One trial, with all that it prints."""
    os.environ["TORTURE_VERBOSE"] = "1"
    with scratch_folder() as folder, Worker(folder, shimmed=scenario.shim) as worker:
        answer = worker.run(scenario, seed)
    print(json.dumps({"scenario": scenario.name, **answer}, ensure_ascii=False))
    return int(bool(answer["failures"]))


def _named(name: str) -> Scenario:
    if name not in SCENARIOS:
        raise SystemExit(f"there is no scenario {name!r}; there are: {', '.join(SCENARIOS)}")
    return SCENARIOS[name]


def _parser() -> argparse.ArgumentParser:
    from pathlib import Path

    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__.partition("\n")[0])
    parser.add_argument("scenarios", nargs="*", help="by name; all without")
    parser.add_argument("--budget", type=float, help="minutes for all of them together")
    parser.add_argument("--scale", type=float, default=1.0, help="how many times the goals are to be reached")
    parser.add_argument("--jobs", type=int, default=1, help="workers at a time")
    parser.add_argument("--seed", type=int, help="run the one trial of this seed, and record nothing")
    parser.add_argument("--ledger", type=Path, default=FILE, help="where counts are added up")
    parser.add_argument("--list", action="store_true", help="name the scenarios, and what is left of each")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
