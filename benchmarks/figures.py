"""Figures: times measured in turns, a file that keeps figures, and printing; not a script itself."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from genius.display import Table


def seconds(work: Callable[[], object]) -> float:
    """The time of one run."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median_seconds(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median time of each piece of work, by name.

    All are run once per round, in turns, so that other load on the machine affects them alike.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(seconds(work))
    return {name: statistics.median(values) for name, values in times.items()}


class FigureFile:
    """Figures by name in a file of JSON lines: a script that is run again does not measure them again."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text("utf-8").splitlines(keepends=True) if path.is_file() else []
        complete = [line for line in lines if line.endswith("\n")]  # a kill may leave half a line
        if len(complete) < len(lines):
            path.write_text("".join(complete), "utf-8")
        self._path = path
        self._figures: dict[str, dict[str, Any]] = dict(json.loads(line) for line in complete)

    def __contains__(self, name: str) -> bool:
        return name in self._figures

    def __getitem__(self, name: str) -> dict[str, Any]:
        return self._figures[name]

    def __setitem__(self, name: str, figures: dict[str, Any]) -> None:
        self._figures[name] = figures
        with self._path.open("ab", buffering=0) as file:  # in one piece: several processes may add lines
            file.write((json.dumps([name, figures]) + "\n").encode())


def print_figures(figures: Mapping[str, float], *, as_json: bool) -> None:
    """Print figures by name: a JSON object, or a line each."""
    if as_json:
        print(json.dumps(figures))
        return
    width = max(map(len, figures)) + 2
    for name, value in figures.items():
        print(f"{name:{width}} {value:,}")


def print_table(table: Table, rows: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print a table in Markdown, and with `as_json` its rows as JSON lines before it."""
    if as_json:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
    print(table.markdown(), flush=True)


def verdict_line(sentence: str, held: bool) -> str:
    """A bar, and whether it was held."""
    return f"{'held' if held else 'MISSED':7} {sentence}"
