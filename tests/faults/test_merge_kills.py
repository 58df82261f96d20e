from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

KILLS = 40


def test_merges_and_exports_killed_at_any_moment_are_whole_or_absent(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.faults.killed_merges", str(tmp_path), str(KILLS)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    outcomes = [json.loads(line) for line in shown.stdout.splitlines()]
    assert len(outcomes) == KILLS
    assert sum(killed for killed, *_ in outcomes) > KILLS / 3
    states = {(index, table) for _, index, table in outcomes}
    assert states == {(0, 0), (1, 0), (1, 1)}  # kills fell everywhere, and nothing was half done
    assert all(table == 1 for killed, _, table in outcomes if not killed)
