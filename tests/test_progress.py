from __future__ import annotations

import io
import logging
import sys
import threading
import time

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


def test_a_log_gets_a_line_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    log, clock = io.StringIO(), [0.0]
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with progress.bar("counting", total=1000, unit="sheep") as bar:
        for _ in range(20):  # five sheep in ten seconds
            clock[0] += 10
            bar.advance(5)
    assert log.getvalue().splitlines() == [
        "counting: 30 of 1,000 sheep, 0.5 a second, 32 minutes left",
        "counting: 60 of 1,000 sheep, 0.5 a second, 31 minutes left",
        "counting: 90 of 1,000 sheep, 0.5 a second, 30 minutes left",
    ]


@pytest.mark.parametrize(
    ("done", "total", "line"),
    [
        (1200, 1300, "counting: 1,200 of 1,300 sheep, 20 a second, less than a minute left"),
        (60, 60 * 1000, "counting: 60 of 60,000 sheep, 1.0 a second, 16.6 hours left"),
        (60, None, "counting: 60 sheep, 1.0 a second"),
        (3, 8, "counting: 3 of 8 sheep, 3.0 a minute, 2 minutes left"),
    ],
)
def test_a_line_of_a_log(monkeypatch: pytest.MonkeyPatch, done: int, total: int | None, line: str) -> None:
    log, clock = io.StringIO(), [0.0]
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with progress.bar("counting", total=total, unit="sheep") as bar:
        clock[0] = 60
        bar.advance(done)
    assert log.getvalue() == f"{line}\n"


def test_resumed_work_is_as_fast_as_what_is_done_now(monkeypatch: pytest.MonkeyPatch) -> None:
    log, clock = io.StringIO(), [0.0]
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with progress.bar("counting", total=1000, unit="sheep", start=900) as bar:
        clock[0] = 60
        bar.advance(20)
    assert log.getvalue() == "counting: 920 of 1,000 sheep, 0.3 a second, 4 minutes left\n"


def test_a_log_gets_its_line_also_while_nothing_advances(monkeypatch: pytest.MonkeyPatch) -> None:
    written = threading.Event()

    class Log(io.StringIO):
        def write(self, text: str) -> int:
            written.set()
            return super().write(text)

    log = Log()
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.001)
    with progress.bar("counting", total=1000, unit="sheep"):
        assert written.wait(60)
    assert log.getvalue().startswith("counting: 0 of 1,000 sheep\n")


def test_a_word_about_the_work_stands_above_its_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, log = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE", 0)
    with progress.bar("counting", total=10, unit="sheep") as bar:
        bar.advance()
        bar.say("[black] sheep")
    assert "[black] sheep\n" in terminal.getvalue()
    monkeypatch.setattr(sys, "stderr", log)
    with progress.bar("counting") as bar, progress.bar("within", silent=True) as silent:
        bar.say("black sheep")
        silent.say("nothing")
    assert log.getvalue() == "black sheep\n"


def test_lines_may_be_handed_to_somebody_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    logger, before = logging.getLogger("genius"), list[logging.Handler]()
    monkeypatch.setattr(logger, "handlers", before)  # other tests may have left some
    level = logger.level
    taken: list[str] = []
    progress.hand_over(taken.append)
    try:
        progress.tell("a word")
        logging.getLogger("genius.train").info("of %s", "the log")
        with progress.bar("working", total=2) as bar:
            bar.advance()
    finally:
        progress.hand_over(None)
        logger.setLevel(level)
    assert taken[:2] == ["a word", "of the log"] and taken[2].startswith("working: ")
    assert not capsys.readouterr().err and logger.handlers == before
    progress.tell("for all to see")
    assert capsys.readouterr().err == "for all to see\n" and "for all to see" not in taken
