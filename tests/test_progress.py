from __future__ import annotations

import io
import sys

import pytest

from genius import progress
from genius.display import Table, size


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, terminal: io.StringIO, patience: float) -> str:
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE", patience)
    assert list(progress.track(range(5), "counting", total=5, unit="sheep")) == [0, 1, 2, 3, 4]
    return terminal.getvalue()


def test_long_work_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = shown(monkeypatch, Terminal(), patience=0)
    assert "counting" in drawn
    assert "5/5" in drawn
    assert "sheep/s" in drawn


def test_short_work_and_what_is_no_terminal_show_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, Terminal(), patience=60) == ""
    assert shown(monkeypatch, io.StringIO(), patience=0) == ""
    progress.quiet()
    assert shown(monkeypatch, Terminal(), patience=0) == ""
    progress.quiet(False)


def test_a_table_in_markdown() -> None:
    table = Table(("task", "hits", "share"))
    table.add("a|b", 1234, 0.5)
    table.add("c", None, 1.0)
    assert (
        table.markdown()
        == "| task | hits | share |\n| --- | ---: | ---: |\n| a\\|b | 1,234 | 0.50 |\n| c |  | 1.00 |\n"
    )


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (5.6e9, "5.6 GB"), (2e15, "2,000.0 TB")],
)
def test_sizes(count: float, text: str) -> None:
    assert size(int(count)) == text
