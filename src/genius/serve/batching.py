"""Searches of concurrent requests, done in batches.

While one batch is searched, the requests that arrive meanwhile queue up and become the next one. A request
that arrives alone is searched at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from genius.data.records import ImageBytes, Modality, Query
from genius.errors import FilterTimeoutError
from genius.index.hits import Hits
from genius.index.index import Index
from genius.index.query import combined_query
from genius.serve.errors import busy_error, timeout_error
from genius.serve.schemas import SearchRequest, vectors_of

log = logging.getLogger(__name__)

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True)
class _Pending(Generic[Job, Result]):
    job: Job
    future: asyncio.Future[Result]
    key: Hashable


class Batcher(Generic[Job, Result]):
    """Collects the jobs of a process, all from one event loop at a time, into batches for one thread.

    Args:
        work: does several jobs of one key and returns their results in the same order; an exception in place
            of a result is raised for that job alone.
        max_batch: how many jobs are done together.
        max_waiting: how many jobs may wait; further ones are refused.
        seconds: after which a job gets a timeout error.
        key: jobs of equal keys are done by one call of `work`. The keys of a batch are done one after
            another, and each is answered as soon as it is done.
        on_batch: is called with the number of jobs of each call of `work`.
        on_waiting: is called with the number of jobs that wait, whenever it changes.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Job]], Sequence[Result | Exception]],
        *,
        max_batch: int,
        max_waiting: int,
        seconds: float,
        key: Callable[[Job], Hashable] = lambda job: None,
        on_batch: Callable[[int], None] = lambda size: None,
        on_waiting: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._work, self._max_batch, self._seconds, self._key = work, max_batch, seconds, key
        self._on_batch, self._on_waiting = on_batch, on_waiting
        self._queue: queue.Queue[_Pending[Job, Result] | None] = queue.Queue(max_waiting)
        self._thread = threading.Thread(target=self._run, name="searching", daemon=True)
        self._thread.start()
        self._closed = False

    def __len__(self) -> int:
        """How many jobs wait."""
        return self._queue.qsize()

    @property
    def alive(self) -> bool:
        """Whether the thread that does the jobs is running."""
        return self._thread.is_alive()

    async def submit(self, job: Job) -> Result:
        """The result of one job. Raises ApiError if too many wait, or if it takes too long."""
        if self._closed:
            raise busy_error("the service is being stopped")
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait(_Pending(job, future, self._key(job)))
        except queue.Full:
            raise busy_error("too many searches are waiting: try again in a moment") from None
        _report(self._on_waiting, len(self))
        try:
            async with asyncio.timeout(self._seconds):
                return await future
        except TimeoutError:
            raise timeout_error(self._seconds) from None

    def close(self) -> None:
        """Finish all accepted jobs, then stop."""
        self._closed = True
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            batch, last = self._collect(first)
            _report(self._on_waiting, len(self))
            groups: dict[Hashable, list[_Pending[Job, Result]]] = {}
            for pending in batch:
                groups.setdefault(pending.key, []).append(pending)
            for group in groups.values():
                self._do([pending for pending in group if not pending.future.cancelled()])
            if last:
                return

    def _collect(self, first: _Pending[Job, Result]) -> tuple[list[_Pending[Job, Result]], bool]:
        """The batch that begins with `first`, and whether the queue ends behind it."""
        batch = [first]
        while len(batch) < self._max_batch:
            try:
                pending = self._queue.get_nowait()
            except queue.Empty:
                break
            if pending is None:
                return batch, True
            batch.append(pending)
        return batch, False

    def _do(self, group: list[_Pending[Job, Result]]) -> None:
        if not group:
            return
        _report(self._on_batch, len(group))
        try:
            results = self._work([pending.job for pending in group])
            if len(results) != len(group):
                raise RuntimeError(f"{len(group)} jobs, but {len(results)} results")
        except Exception as error:  # whatever it is, those who wait must hear of it
            results = [error] * len(group)
        # One call for all, as each call wakes the loop's thread; nobody waits on a loop that is closed.
        with contextlib.suppress(RuntimeError):
            loop = group[0].future.get_loop()
            loop.call_soon_threadsafe(_deliver, [pending.future for pending in group], results)


def _deliver(futures: Sequence[asyncio.Future[Result]], results: Sequence[Result | Exception]) -> None:
    """Set the results of the futures that somebody still waits for."""
    for future, result in zip(futures, results, strict=True):
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)


def _report(callback: Callable[[int], None], number: int) -> None:
    """Count, if that is possible; no answer depends on it."""
    try:
        callback(number)
    except Exception:
        log.exception("searches could not be counted")


@dataclass(frozen=True, eq=False)
class SearchJob:
    """The search of one request, with the bytes of its image."""

    request: SearchRequest
    image: bytes | None

    def query(self) -> Query:
        """The query, which holds what it wants, too, so that a batch may want different things."""
        request = self.request
        image = None if self.image is None else ImageBytes(self.image, "that was sent")
        return combined_query(
            request.text,
            image,
            request.weight,
            request.parts(),
            instruction=request.instruction,
            want=self._own_want,
            vector=vectors_of(request.vector),
        )

    @property
    def _own_want(self) -> Modality | None:
        """What it wants, if that is one thing: then its query can hold it."""
        want = [self.request.want] if isinstance(self.request.want, str) else self.request.want or []
        return Modality(want[0]) if len(want) == 1 and not self.request.only else None

    @property
    def batch_key(self) -> bytes:
        """What searches have in common that are done by one call of the index."""
        return orjson.dumps([self.request.near, self.options()], option=orjson.OPT_SORT_KEYS)

    def options(self) -> dict[str, Any]:
        """The options of the search, without what its query holds."""
        options = self.request.options()
        if self.request.near is None and self._own_want is not None:
            options["want"] = None
        return options


def search_batch(index: Index, jobs: Sequence[SearchJob]) -> list[Hits | Exception]:
    """The hits of each job, or why it failed; one that fails does not stop the others.

    All jobs have the same batch key.
    """
    return [
        _complete(hits, explain=job.request.explain)
        for job, hits in zip(jobs, _search(index, jobs), strict=True)
    ]


def _complete(hits: Hits | Exception, *, explain: bool) -> Hits | Exception:
    """The same hits with their confidences, and perhaps their paths, computed: here, in the searching thread,
    and not in the event loop."""
    if isinstance(hits, Exception):
        return hits
    try:
        for hit in hits:
            _ = hit.confidence
            if explain:
                _ = hit.log_probabilities, hit.prefix_counts
    except Exception as error:  # of this job alone
        return error
    return hits


def _search(index: Index, jobs: Sequence[SearchJob]) -> list[Hits | Exception]:
    first, options = jobs[0], jobs[0].options()
    try:
        if first.request.near is not None:
            return [index.search(near=first.request.near, **options)] * len(jobs)
        return list(index.search_many([job.query() for job in jobs], **options))
    except Exception as error:
        # Perhaps it is one job's alone: then each is searched apart. But `near` and the filter are shared.
        if len(jobs) == 1 or first.request.near is not None or isinstance(error, FilterTimeoutError):
            return [error] * len(jobs)
        return [hits for job in jobs for hits in _search(index, [job])]
