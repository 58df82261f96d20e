"""Requests that arrive together are worked on together: while one batch is searched, the next gathers.

Nobody waits for company: a request that comes alone is searched at once. One thread does the work, which uses
several cores itself; what was accepted is answered also when the service is stopped.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from genius.serve.refusals import busy, late

Asked = TypeVar("Asked")
Found = TypeVar("Found")


@dataclass(frozen=True)
class _Waiting(Generic[Asked, Found]):
    asked: Asked
    answer: Future[Found]


class Batcher(Generic[Asked, Found]):
    """Gathers requests of a process into batches.

    Args:
        work: answers several requests in their order; an error in place of an answer is that request's own.
        batch: how many are worked on together, at the most.
        waiting: how many may wait; more are refused.
        seconds: after which a request is told that it takes too long.
        count: is told how many are in each batch.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Asked]], Sequence[Found | Exception]],
        *,
        batch: int,
        waiting: int,
        seconds: float,
        count: Callable[[int], None] = lambda size: None,
    ) -> None:
        self._work, self._batch, self._seconds, self._count = work, batch, seconds, count
        self._queue: queue.Queue[_Waiting[Asked, Found] | None] = queue.Queue(waiting)
        self._thread = threading.Thread(target=self._run, name="searching", daemon=True)
        self._thread.start()
        self._closed = False

    def __len__(self) -> int:
        """How many wait."""
        return self._queue.qsize()

    async def ask(self, asked: Asked) -> Found:
        """The answer to one request. Raises Refusal where too many wait, or it takes too long."""
        if self._closed:
            raise busy("the service is being stopped")
        waiting: _Waiting[Asked, Found] = _Waiting(asked, Future())
        try:
            self._queue.put_nowait(waiting)
        except queue.Full:
            raise busy("too many searches are waiting: try again in a moment") from None
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.wrap_future(waiting.answer)
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
            # Who has gone needs no answer; and who is here can no longer be told that nobody works on it.
            self._answer([one for one in gathered if one.answer.set_running_or_notify_cancel()])
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

    def _answer(self, batch: list[_Waiting[Asked, Found]]) -> None:
        if not batch:
            return
        self._count(len(batch))
        try:
            answers = self._work([one.asked for one in batch])
        except Exception as error:  # whatever it is, those who wait must hear of it
            answers = [error] * len(batch)
        for one, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Exception):
                one.answer.set_exception(answer)
            else:
                one.answer.set_result(answer)
