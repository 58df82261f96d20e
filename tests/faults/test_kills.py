from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from genius import storage

KILLS = 100


def test_a_writer_killed_at_any_moment_leaves_the_old_artifact_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "artifact"
    command = [sys.executable, "-m", "tests.faults.killed_writers", str(path), str(KILLS)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    outcomes = [json.loads(line) for line in shown.stdout.splitlines()]
    assert len(outcomes) == KILLS
    killed, intact, old, new = (list(column) for column in zip(*outcomes, strict=True))
    assert sum(killed) > KILLS * 0.9  # (the count of calls varies a little from write to write)
    assert all(intact)
    assert all(is_old != is_new for is_old, is_new in zip(old, new, strict=True))
    assert min(sum(old), sum(new)) > KILLS / 10  # kills fell before the swap and after it
    with storage.create(path, kind="test", format=1):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["artifact"]  # what they left behind is removed
