"""Threads for work beside the searches, so that the event loop keeps answering meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from genius.serve.errors import busy_error, timeout_error

T = TypeVar("T")


class ThreadPool:
    """A few threads with a bounded queue and a time limit.

    Args:
        threads: how many calls run at a time.
        max_waiting: how many more calls may wait; further ones are refused.
        seconds: after which a caller gets a timeout error.
        name: the prefix of the threads' names.
    """

    def __init__(self, threads: int, max_waiting: int, seconds: float, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._max_pending, self._seconds = threads + max_waiting, seconds
        self._pending = 0

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, called in one of the threads.

        Raises ApiError if too many calls wait, or if this one takes too long.
        """
        if self._pending >= self._max_pending:
            raise busy_error("too many requests are waiting: try again in a moment")
        self._pending += 1
        future = self._threads.submit(work)
        wrapped = asyncio.wrap_future(future)
        wrapped.add_done_callback(self._on_done)
        try:
            return await asyncio.wait_for(asyncio.shield(wrapped), self._seconds)
        except TimeoutError:
            future.cancel()  # has an effect only if no thread has begun it
            raise timeout_error(self._seconds) from None

    def _on_done(self, future: asyncio.Future[T]) -> None:
        self._pending -= 1
        if not future.cancelled():
            future.exception()  # marks it as seen, as the caller may be gone

    def close(self) -> None:
        """Finish all accepted calls, then stop the threads."""
        self._threads.shutdown()
