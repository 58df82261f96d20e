"""Progress bars and logging for the terminal.

A bar appears on standard error for work that takes longer than a moment, with the rate and the time left. If
standard error is no terminal but a log, long work writes a line a minute instead, also while a single step
takes longer. `quiet()` switches both off.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress, Task
    from rich.text import Text

T = TypeVar("T")

PATIENCE = 0.5
"""Seconds of work before a bar appears."""
LOG_SECONDS = 60.0
"""Between the lines of long work in a log."""
_REFRESH_SECONDS = 0.1

_silenced = False
_taker: Callable[[str], object] | None = None


def quiet(silent: bool = True) -> None:
    """Switch progress bars off, or on again."""
    globals()["_silenced"] = silent


def tell(message: str) -> None:
    """Say on standard error what is going on, unless `quiet`."""
    if _silenced:
        return
    if _taker is not None:
        _taker(message)
    else:
        sys.stderr.write(f"{message}\n")


def hand_over(take: Callable[[str], object] | None) -> None:
    """From now on give each line, also those of the library's log, to `take` instead of standard error.

    For a process without a terminal of its own, whose lines belong on somebody else's.
    """
    globals()["_taker"] = take
    logger = logging.getLogger("genius")
    logger.handlers = [handler for handler in logger.handlers if not isinstance(handler, _Teller)]
    if take is not None:
        logger.addHandler(_Teller())
        logger.setLevel(logging.INFO)


class _Teller(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        tell(record.getMessage())


class Bar:
    """A progress bar that appears once the work turns out to be long; in a log, a line a minute."""

    def __init__(
        self, description: str, total: float | None, unit: str, silent: bool = False, start: float = 0
    ) -> None:
        self.description, self.total, self.unit = description, total, unit
        self.done = self._start = start
        self._shown: Progress | None = None
        self._silent, self._draws = silent or _silenced, _taker is None and sys.stderr.isatty()
        self._started = time.monotonic()
        self._next = self._started + (PATIENCE if self._draws else LOG_SECONDS)
        self._lock, self._closed = threading.Lock(), threading.Event()
        if not (self._silent or self._draws):
            threading.Thread(target=self._keep_logging, daemon=True).start()

    def advance(self, steps: float = 1) -> None:
        """Count more steps as done."""
        self.done += steps
        if self._silent or time.monotonic() < self._next:
            return
        if self._draws:
            self._draw()
        else:
            self._log()

    def say(self, message: str) -> None:
        """Say something about the work, above the bar if one is drawn."""
        if self._shown is not None:
            self._shown.console.print(message, highlight=False, markup=False)
        elif not self._silent:
            tell(message)

    def _keep_logging(self) -> None:
        """Log every minute until the work is done, however seldom it advances."""
        while not self._closed.wait(LOG_SECONDS):
            self._log()

    def _log(self) -> None:
        """Write how far the work is as a line of its own, if the last one is a minute old."""
        with self._lock:
            now = time.monotonic()
            if now < self._next:
                return
            self._next = now + LOG_SECONDS
        rate = (self.done - self._start) / (now - self._started)
        line = f"{self.description}: {self.done:,.0f}"
        if self.total:
            line += f" of {self.total:,.0f}"
        line += f" {self.unit}"
        if rate:
            line += f", {_speed(rate)}"
        if self.total and rate:
            line += f", {spoken((self.total - self.done) / rate)} left"
        tell(line)

    def _draw(self) -> None:
        if self._shown is None:
            self._shown = _progress(self.unit)
            self._shown.add_task(self.description, total=self.total, completed=int(self._start))
            self._shown.start()
        self._shown.update(self._shown.task_ids[0], completed=self.done)
        self._next = time.monotonic() + _REFRESH_SECONDS

    def close(self) -> None:
        """Draw the bar's last state, and stop drawing or logging."""
        self._closed.set()
        if self._shown is not None:
            self._draw()
            self._shown.stop()
            self._shown = None


@contextlib.contextmanager
def bar(
    description: str,
    *,
    total: float | None = None,
    unit: str = "items",
    silent: bool = False,
    start: float = 0,
) -> Iterator[Bar]:
    """A bar for work that is counted by hand: `with bar("encoding", total=n) as b: b.advance(64)`.

    Only one bar is drawn at a time: work within other work that shows a bar is `silent`. Work that resumes
    begins at `start`: rates and the time left are told by what is done from there.
    """
    shown = Bar(description, total, unit, silent, start)
    try:
        yield shown
    finally:
        shown.close()


def track(
    values: Iterable[T], description: str, *, total: float | None = None, unit: str = "items"
) -> Iterator[T]:
    """Yield the `values`, with a bar that counts them."""
    with bar(description, total=total, unit=unit) as shown:
        for value in values:
            yield value
            shown.advance()


def _speed(rate: float) -> str:
    return f"{60 * rate:.1f} a minute" if rate < 0.1 else f"{rate:,.{0 if rate >= 10 else 1}f} a second"


def spoken(seconds: float) -> str:
    """A time as one says it."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return "less than a minute"
    if minutes < 120:
        return f"{minutes} minute{'s' * (minutes > 1)}"
    return f"{minutes / 60:.1f} hours"


def _progress(unit: str) -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """Units per second."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.0f} {unit}/s", style="progress.data.speed")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True))


def log_to_terminal(*, verbose: bool = False) -> None:
    """Send the library's log to standard error: warnings, and with `verbose` progress messages, too."""
    from rich.console import Console
    from rich.logging import RichHandler

    handler = RichHandler(console=Console(stderr=True), show_time=False, show_path=False, markup=False)
    logger = logging.getLogger("genius")
    logger.handlers = [handler]
    logger.setLevel(logging.INFO if verbose else logging.WARNING)
