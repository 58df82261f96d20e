"""Trials that go wrong in any way are failures of their seed, and the others go on."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from torture import __main__, supervisor
from torture.ledger import Entry, Ledger, entry
from torture.programme import SCENARIOS as PROGRAMME
from torture.supervisor import Tally, Worker

from tests.torture.bad_scenarios import SCENARIOS


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux alone")
def test_what_becomes_of_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "START_SECONDS", 60.0)
    monkeypatch.setattr(supervisor, "BUSY", 1)
    messages = {}
    with Worker(tmp_path, shimmed=False, programme="tests.torture.bad_scenarios") as worker:
        for kind, scenario in SCENARIOS.items():
            tally = Tally()
            for seed in range(3):
                tally.add(worker.run(scenario, seed))
            assert tally.trials == 3
            assert tally.seen[f"{kind} trials"] >= 2
            assert {failure["seed"] for failure in tally.failures} == {1}
            messages[kind] = tally.failures[0]["what"]
    assert messages["dying"] == "the process died: SIGSEGV"
    assert messages["hanging"].startswith("took more than")
    assert messages["greedy"].startswith("MemoryError")
    assert messages["raising"].startswith("KeyError at bad_scenarios.py:")
    assert messages["failing"] == "it does not hold"


def test_what_is_named_largest_is_not_added_up() -> None:
    total = Tally()
    total.add({**ANSWER, "seen": {"largest growth, MB": 3, "answers": 10}})
    earlier = total.copy()
    total.add({**ANSWER, "seen": {"largest growth, MB": 2, "answers": 5}})
    assert total.seen == {"largest growth, MB": 3, "answers": 15}
    assert total.since(earlier).seen == {"largest growth, MB": 3, "answers": 5}


ANSWER = {"seed": 0, "count": 1, "failures": [], "seconds": 1.0, "processor": 0.5}


def made(first: int, following: int, failures: int = 0, date: str = "2026-11-18") -> Entry:
    tally = Tally(following - first, 3 * (following - first), seconds=1.5)
    tally.failures = [{"seed": first, "what": "x"}] * failures
    tally.seen["kills"] = 2
    return entry("kills", first, following, tally, date)


def test_the_ledger_adds_up_and_goes_on(tmp_path: Path) -> None:
    ledger = Ledger.read(tmp_path / "ledger.jsonl")
    assert (ledger.next_seed("kills"), ledger.count("kills")) == (0, 0)
    ledger.add(made(0, 10))
    ledger.add(made(10, 25, failures=30))
    again = Ledger.read(ledger.path)
    assert len(again.entries) == 1  # it went on
    (only,) = again.entries
    assert (only.first, only.last, only.trials, only.count) == (0, 24, 25, 75)
    assert (only.failed, len(only.failures), only.seen, only.seconds) == (30, 20, {"kills": 4}, 3.0)
    again.add(made(25, 26, date="2026-11-19"))
    assert len(Ledger.read(ledger.path).entries) == 2
    ledger.add(made(0, 1, date="2026-11-20"))  # has not read what the other has written
    assert len(Ledger.read(ledger.path).entries) == 3
    short, timed = SCENARIOS["failing"], SCENARIOS["raising"]
    for name in (short.name, timed.name):
        again.add(replace(made(0, 3), scenario=name, processor=6.0))
    assert (again.left(short), again.left(short, 2.0)) == (1, 11)  # 9 of 10 were counted
    assert again.processor_left(short, 2.0) == pytest.approx(11 * 6 / 9)
    assert again.left(replace(timed, enough=5.0)) == again.processor_left(replace(timed, enough=5.0)) == 0
    assert again.processor_left(replace(timed, enough=7.0), 2.0) == pytest.approx(11 * 6 / 9)
    assert again.processor_left(replace(timed, enough=6.5), 2.0) == pytest.approx(7)
    assert again.processor_left(SCENARIOS["greedy"]) == 0  # nothing is known of it
    assert (again.next_seed("kills"), again.count("kills"), again.count("others")) == (26, 81, 0)


@pytest.mark.slow
def test_a_sample_has_also_what_has_reached_its_goal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ledger.jsonl"
    goal = PROGRAMME["fuzz-filters"].goal
    ledger = Ledger.read(path)
    ledger.add(replace(made(0, 1), scenario="fuzz-filters", count=goal))
    arguments = ["fuzz-filters", "--ledger", str(path)]
    assert __main__.main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["skipped"] == "its goal is reached"
    assert __main__.main([*arguments, "--budget", "0.02"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["count"] > 0 and line["in all"] == goal + line["count"]
