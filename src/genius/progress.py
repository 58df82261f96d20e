"""Progress bars and logging for the terminal.

A bar appears on standard error for work that takes longer than a moment, with the rate and the time left; if
standard error is no terminal, nothing is drawn. `quiet()` switches bars off.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress, Task
    from rich.text import Text

T = TypeVar("T")

PATIENCE = 0.5
"""Seconds of work before a bar appears."""
_REFRESH_SECONDS = 0.1

_silenced = False


def quiet(silent: bool = True) -> None:
    """Switch progress bars off, or on again."""
    globals()["_silenced"] = silent


def tell(message: str) -> None:
    """Say on standard error what is going on, unless `quiet`."""
    if not _silenced:
        sys.stderr.write(f"{message}\n")


class Bar:
    """A progress bar that appears once the work turns out to be long."""

    def __init__(self, description: str, total: float | None, unit: str, silent: bool = False) -> None:
        self.description, self.total, self.unit = description, total, unit
        self.done = 0.0
        self._shown: Progress | None = None
        self._next = time.monotonic() + PATIENCE
        self._silent = silent or _silenced or not sys.stderr.isatty()

    def advance(self, steps: float = 1) -> None:
        """Count more steps as done."""
        self.done += steps
        if not self._silent and time.monotonic() >= self._next:
            self._draw()

    def _draw(self) -> None:
        if self._shown is None:
            self._shown = _progress(self.unit)
            self._shown.add_task(self.description, total=self.total)
            self._shown.start()
        self._shown.update(self._shown.task_ids[0], completed=self.done)
        self._next = time.monotonic() + _REFRESH_SECONDS

    def close(self) -> None:
        """Draw the bar's last state, and stop drawing."""
        if self._shown is not None:
            self._draw()
            self._shown.stop()
            self._shown = None


@contextlib.contextmanager
def bar(
    description: str, *, total: float | None = None, unit: str = "items", silent: bool = False
) -> Iterator[Bar]:
    """A bar for work that is counted by hand: `with bar("encoding", total=n) as b: b.advance(64)`.

    Only one bar is drawn at a time: work within other work that shows a bar is `silent`.
    """
    shown = Bar(description, total, unit, silent)
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
