"""Searches of several requests that share their settings, as one call."""

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
from genius.index.hits import Hits
from genius.index.index import Index
from genius.index.sqlite import TooLongError
from genius.serve.errors import busy, late
from genius.serve.schemas import SearchRequest


@dataclass(frozen=True, eq=False)
class Search:
    """One request's search."""

    request: SearchRequest
    picture: bytes | None

    def query(self) -> Query:
        """What is asked."""
        asked = self.request
        image = None if self.picture is None else ImageBytes(self.picture, "that was sent")
        want = None if asked.want is None else Modality(asked.want)
        return Query(text=asked.text, image=image, instruction=asked.instruction, want=want)

    @property
    def options(self) -> dict[str, Any]:
        """Settings of a search, as the index takes them."""
        asked = self.request
        options: dict[str, Any] = {
            "k": asked.k,
            "beam": asked.beam,
            "mode": asked.mode,
            "rerank": asked.rerank,
            "decoder": asked.decoder,
            "precision": asked.precision,
        }
        if asked.filter is not None:
            options["filter"] = asked.filter
        if asked.exclude:
            options["exclude"] = asked.exclude
        return options

    @property
    def shared(self) -> bytes:
        """What is equal in searches that are done together."""
        near = self.request.near
        return orjson.dumps([self.options, near, near and self.request.want], option=orjson.OPT_SORT_KEYS)


def search_together(index: Index, searches: Sequence[Search]) -> list[Hits | Exception]:
    """What each search finds, or why it can't; one that is broken does not stop the others.

    What they have `shared` is the same.
    """
    answers = _search(index, searches)
    return [
        _explained(answer) if search.request.explain else answer
        for search, answer in zip(searches, answers, strict=True)
    ]


def _explained(answer: Hits | Exception) -> Hits | Exception:
    """Hits whose paths are known: they are worked out when somebody looks, and better here than later."""
    if isinstance(answer, Exception):
        return answer
    try:
        for hit in answer:
            _ = hit.log_probabilities, hit.below
    except Exception as error:  # it is the request's own
        return error
    return answer


def _search(index: Index, searches: Sequence[Search]) -> list[Hits | Exception]:
    first = searches[0]
    if first.request.near is not None:
        return [_near(index, first)] * len(searches)
    try:
        return list(index.search_many([search.query() for search in searches], **first.options))
    except Exception as error:  # of one of them, perhaps: then the others are answered
        if len(searches) == 1 or isinstance(error, TooLongError):  # by the filter that they share
            return [error] * len(searches)
        return [answer for search in searches for answer in _search(index, [search])]


def _near(index: Index, search: Search) -> Hits | Exception:
    asked = search.request
    try:
        return index.search(near=asked.near, want=asked.want, **search.options)
    except Exception as error:  # it is the request's own
        return error


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
