"""The benchmark of drift, on a tiny collection."""

from __future__ import annotations

import json
from pathlib import Path

from tests.benchmarks.scripts import RunScript, json_rows


def collection(path: Path, kinds: tuple[str, ...], each: int) -> Path:
    rows = [
        {"id": f"{path.stem} {kind} {number}", "text": f"A {kind} square, number {number % 3}.", "kind": kind}
        for number in range(each)
        for kind in kinds
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_drift_of_a_collection(run: RunScript, trained: Path, tmp_path: Path) -> None:
    source = collection(tmp_path / "source.jsonl", ("red", "green", "blue"), 20)
    other = collection(tmp_path / "other.jsonl", ("small",), 30)
    arguments = (source, "--key", "kind", "--group", "blue", "--beside", other, "-m", trained)
    rows = json_rows(run("drift", *arguments, "--most", 40, "--json"))
    assert [row["what"] for row in rows] == ["two random halves", "a new group", "another collection"]
    assert rows[0]["verdict"] == "none"
    assert [(row["old"], row["new"]) for row in rows] == [(20, 20)] * 3
