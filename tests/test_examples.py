"""The scripts in `examples/` do what they say, also when they are run again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pictures import write_square

EXAMPLES = Path(__file__).parents[1] / "examples"

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a script as a user would, and gives what it printed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))

    def start(name: str, *arguments: str | Path) -> str:
        command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return start


def test_every_example_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert all(f"examples/{script.name}" in listed for script in EXAMPLES.glob("*.py"))


def test_a_folder_is_indexed_and_searched(run: Run, coded_model: Path, tmp_path: Path) -> None:
    write_square(tmp_path / "folder/red.jpg", "red")
    (tmp_path / "folder/blue.txt").write_text("A blue square.")
    arguments = (coded_model, tmp_path / "folder", tmp_path / "index", "a square")
    first, again = run("search_folder.py", *arguments), run("search_folder.py", *arguments)
    assert "2 added, 0 known, 0 could not be read" in first
    assert "0 added, 2 known" in again
    assert {"red.jpg", "blue.txt"} == {
        line.split()[-1] for line in first.splitlines() if line[:2] in ("1.", "2.")
    }
    assert "level 1: code" in first


def test_a_catalogue_is_searched_under_a_filter(run: Run, coded_model: Path, tmp_path: Path) -> None:
    write_square(tmp_path / "images/red.jpg", "red")
    table = tmp_path / "table.csv"
    table.write_text(
        "id,text,image,price\n"
        "cheap,A red square.,images/red.jpg,30\n"
        "dear,A red square.,images/red.jpg,90\n"
        "plain,A blue square.,,20\n"
    )
    arguments = (coded_model, table, tmp_path / "index", "a red square", "--below", "50")
    for _ in range(2):
        printed = run("search_catalogue.py", *arguments)
        assert "cheap  30  A red square." in printed
        assert "plain  20" in printed
        assert "dear" not in printed
        assert "like " in printed


def test_a_service_is_searched_and_changed(run: Run, coded_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/blue.txt").write_text("A blue square.")
    run("search_folder.py", coded_model, tmp_path / "folder", tmp_path / "index", "a square")
    for _ in range(2):
        printed = run("use_service.py", tmp_path / "index", "a red shoe")
        assert printed.startswith("1 items at http://127.0.0.1:")
        assert "blue.txt" in printed
        assert "found what was just added: an example" in printed
