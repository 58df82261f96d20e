"""Work beside the searches, in a few threads, so that the service goes on answering meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from genius.serve.errors import busy, late

T = TypeVar("T")


class Pool:
    """Some threads, with a limit on what may wait for them, and on the time until one is told so."""

    def __init__(self, threads: int, waiting: int, seconds: float, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._most, self._seconds = threads + waiting, seconds
        self._pending = 0

    async def run(self, work: Callable[[], T]) -> T:
        """What the work gives. Raises Refusal where too much waits, or it takes too long."""
        if self._pending >= self._most:
            raise busy("too many requests are waiting: try again in a moment")
        self._pending += 1
        future = self._threads.submit(work)
        wrapped = asyncio.wrap_future(future)
        wrapped.add_done_callback(self._done)
        try:
            return await asyncio.wait_for(asyncio.shield(wrapped), self._seconds)
        except TimeoutError:
            future.cancel()  # which it is only if nobody began
            raise late(self._seconds) from None

    def _done(self, future: asyncio.Future[T]) -> None:
        self._pending -= 1
        if not future.cancelled():
            future.exception()  # whoever waited may have gone

    def close(self) -> None:
        """Finish what was accepted, then stop."""
        self._threads.shutdown()
