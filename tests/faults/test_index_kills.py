from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

KILLS = 40


def test_a_build_killed_at_any_moment_keeps_what_it_committed_and_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.faults.killed_indexes", str(tmp_path), str(KILLS)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    outcomes = [json.loads(line) for line in shown.stdout.splitlines()]
    assert len(outcomes) == KILLS
    assert sum(killed for killed, *_ in outcomes) > KILLS / 3
    for killed, before, acknowledged, count, intact in outcomes:
        assert intact
        assert before <= acknowledged <= count  # nothing that was acknowledged is lost
        assert count - acknowledged in (0, 6)  # killed between a commit and its acknowledgement
        assert count % 6 == 0
        if not killed:
            assert count == 24
    assert {count for _, _, _, count, _ in outcomes} == {0, 6, 12, 18, 24}  # kills fell everywhere
