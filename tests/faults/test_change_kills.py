from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = 100


@pytest.mark.slow
def test_a_writer_killed_at_any_moment_loses_nothing_and_brings_nothing_back(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.faults.killed_changes", str(tmp_path), str(KILLS)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    outcomes = [json.loads(line) for line in shown.stdout.splitlines()]
    assert all(fits for _, _, _, fits in outcomes)
    killed = [(clock, doing) for dead, clock, doing, _ in outcomes if dead]
    assert len(killed) == KILLS
    assert {"add", "update", "remove", "compact"} <= {doing for _, doing in killed}  # kills fell everywhere
    by_clock = sum(clock for clock, _ in killed)
    assert min(by_clock, KILLS - by_clock) > KILLS / 5  # and came both ways
