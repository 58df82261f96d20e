from __future__ import annotations

from pathlib import Path
from typing import Any

from torture.ledger import Entry, Ledger
from torture.programme import SCENARIOS

from tools.reliability_page import FOUND, Found, read_found, reliability_page

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_its_tool_writes() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text("utf-8")
    assert page == reliability_page(Ledger.read(), read_found()), "run: make pages"


def test_what_was_found_names_scenarios() -> None:
    assert {one.scenario for one in read_found(FOUND)} <= SCENARIOS.keys()


def run(first: int, count: int, failures: list[int], failed: int) -> Entry:
    named: list[dict[str, Any]] = [{"seed": seed, "what": "x"} for seed in failures]
    versions = {"python": "3.11", "sqlite": "3.40"}
    return Entry(
        scenario="model",
        first=first,
        last=first + 9,
        trials=10,
        count=count,
        failed=failed,
        failures=named,
        seen={},
        seconds=3600.0,
        processor=2700.0,
        date="2026-11-18",
        machine="a machine",
        versions=versions,
        commit="abc",
    )


def test_counts_are_added_up_and_failures_stay_open_until_they_are_mended(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "none", [run(0, 1000, [3, 4], 2), run(10, 234, [], 5)])
    findings = [Found("model", "was wrong", "Mended", (3,)), Found("model", "is wrong", "", (4,))]
    page = reliability_page(ledger, findings)
    (row,) = [line for line in page.splitlines() if line.startswith("| `model` |") and "Qdrant" in line]
    assert "| 1,234 operations | 1,000,000 | 6 | 2 (1.5) |" in row
    assert "| `model` | is wrong | **not mended yet** |" in page
    assert "| 2026-11-18 | `model` | 0–9 | 1,000 | 0.278 | 2.7 | 2 |" in page
    assert "| not yet | 10,000 | 0 |" in page


def test_long_runs_tell_their_age_growth_and_times(tmp_path: Path) -> None:
    runs = [run(0, 600, [], 0), run(10, 600, [], 0)]
    age, growth, begin = "largest age of the processes, seconds", "largest growth, MB", "at begin"
    for entry, seen in zip(runs, ({age: 600, growth: 2}, {age: 300, growth: 5}), strict=True):
        entry.scenario = "service-under-load"
        entry.seen = {
            **seen,
            "searches": 50,
            f"p99 {begin}, ms, summed over periods": 30,
            f"periods {begin}": 2,
        }
    page = reliability_page(Ledger(tmp_path / "none", runs), [])
    (said,) = [line for line in page.splitlines() if line.startswith("- `service-under-load`")]
    assert "up to 600 seconds; 100 searches; memory of one grew by 5 MB at most" in said
    assert "99 of 100 searches took less than 15 ms at begin" in said and "at end" not in said
