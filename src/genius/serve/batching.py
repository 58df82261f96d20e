"""Requests that arrive together are worked on together: while one batch is searched, the next gathers.

Nobody waits for company: a request that comes alone is searched at once. One thread does the work, which uses
several cores itself; what was accepted is answered also when the service is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from genius.serve.refusals import busy, late

log = logging.getLogger(__name__)

Asked = TypeVar("Asked")
Found = TypeVar("Found")


@dataclass(frozen=True)
class _Waiting(Generic[Asked, Found]):
    asked: Asked
    answer: asyncio.Future[Found]
    group: Hashable


class Batcher(Generic[Asked, Found]):
    """Gathers requests of a process, all from one event loop at a time, into batches.

    Args:
        work: answers several requests of one group in their order; an error in place of an answer is that
            request's own.
        batch: how many are worked on together, at the most.
        waiting: how many may wait; more are refused.
        seconds: after which a request is told that it takes too long.
        group: what requests have in common that are worked on by one call. The groups of a batch are answered
            one after another, each when it is ready.
        count: is told how many are worked on together.
        wait: is told how many wait, whenever that changes.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Asked]], Sequence[Found | Exception]],
        *,
        batch: int,
        waiting: int,
        seconds: float,
        group: Callable[[Asked], Hashable] = lambda asked: None,
        count: Callable[[int], None] = lambda size: None,
        wait: Callable[[int], None] = lambda waiting: None,
    ) -> None:
        self._work, self._batch, self._seconds, self._group = work, batch, seconds, group
        self._count, self._wait = count, wait
        self._queue: queue.Queue[_Waiting[Asked, Found] | None] = queue.Queue(waiting)
        self._thread = threading.Thread(target=self._run, name="searching", daemon=True)
        self._thread.start()
        self._closed = False

    def __len__(self) -> int:
        """How many wait."""
        return self._queue.qsize()

    @property
    def alive(self) -> bool:
        """Whether somebody works on what is asked."""
        return self._thread.is_alive()

    async def ask(self, asked: Asked) -> Found:
        """The answer to one request. Raises Refusal where too many wait, or it takes too long."""
        if self._closed:
            raise busy("the service is being stopped")
        answer: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(asked, answer, self._group(asked))
        try:
            self._queue.put_nowait(waiting)
        except queue.Full:
            raise busy("too many searches are waiting: try again in a moment") from None
        _told(self._wait, len(self))
        try:
            async with asyncio.timeout(self._seconds):
                return await answer
        except TimeoutError:
            raise late(self._seconds) from None

    def close(self) -> None:
        """Answer what was accepted, then stop."""
        self._closed = True
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            gathered, last = self._gather(first)
            _told(self._wait, len(self))
            groups: dict[Hashable, list[_Waiting[Asked, Found]]] = {}
            for one in gathered:
                groups.setdefault(one.group, []).append(one)
            for group in groups.values():
                self._answer([one for one in group if not one.answer.cancelled()])  # who has gone needs none
            if last:
                return

    def _gather(self, first: _Waiting[Asked, Found]) -> tuple[list[_Waiting[Asked, Found]], bool]:
        """Those that wait behind the first one, and whether nobody comes behind them."""
        gathered = [first]
        while len(gathered) < self._batch:
            try:
                one = self._queue.get_nowait()
            except queue.Empty:
                break
            if one is None:
                return gathered, True
            gathered.append(one)
        return gathered, False

    def _answer(self, group: list[_Waiting[Asked, Found]]) -> None:
        if not group:
            return
        _told(self._count, len(group))
        try:
            answers = self._work([one.asked for one in group])
            if len(answers) != len(group):
                raise RuntimeError(f"{len(group)} were asked, and {len(answers)} answered")
        except Exception as error:  # whatever it is, those who wait must hear of it
            answers = [error] * len(group)
        # By one call, as each wakes the thread of the loop; one that is closed has nobody who waits.
        with contextlib.suppress(RuntimeError):
            loop = group[0].answer.get_loop()
            loop.call_soon_threadsafe(_deliver, [one.answer for one in group], answers)


def _deliver(waiting: Sequence[asyncio.Future[Found]], answers: Sequence[Found | Exception]) -> None:
    """Give those who still wait their answers."""
    for future, answer in zip(waiting, answers, strict=True):
        if future.done():
            continue
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)


def _told(who: Callable[[int], None], number: int) -> None:
    """Count, if that can be done; nobody's answer depends on it."""
    try:
        who(number)
    except Exception:
        log.exception("searches could not be counted")
