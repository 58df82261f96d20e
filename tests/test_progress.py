from __future__ import annotations

import io
import sys

import pytest

from genius import progress


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
