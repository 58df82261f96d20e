"""Jobs that wait are done together, and each gets an answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from genius.serve.batching import Batcher, SearchJob
from genius.serve.errors import ApiError
from genius.serve.schemas import SearchRequest

pytest.importorskip("fastapi")


class Held:
    """Work that waits for `go`; it fails for 13 alone, and for a batch with 99."""

    def __init__(self) -> None:
        self.go, self.begun = threading.Event(), threading.Event()
        self.batches: list[list[int]] = []

    def __call__(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.begun.set()
        self.go.wait()
        self.batches.append(list(numbers))
        if 99 in numbers:
            raise RuntimeError("all of them")
        return [ValueError("13") if number == 13 else number * 2 for number in numbers]


async def settle(batcher: Batcher[int, int], waiting: int) -> None:
    while len(batcher) < waiting:
        await asyncio.sleep(0)


def test_jobs_that_arrive_together_are_done_together() -> None:
    held = Held()
    sizes: list[int] = []
    batcher: Batcher[int, int] = Batcher(
        held, max_batch=4, max_waiting=100, seconds=60, on_batch=sizes.append
    )

    async def run() -> list[int | BaseException]:
        first = asyncio.ensure_future(batcher.submit(0))
        await asyncio.to_thread(held.begun.wait)
        others = [asyncio.ensure_future(batcher.submit(number)) for number in (1, 2, 13, 4, 5)]
        await settle(batcher, 5)
        held.go.set()
        return await asyncio.gather(first, *others, return_exceptions=True)

    results = asyncio.run(run())
    assert [str(one) if isinstance(one, ValueError) else one for one in results] == [0, 2, 4, "13", 8, 10]
    assert held.batches == [[0], [1, 2, 13, 4], [5]]
    assert sizes == [1, 4, 1]
    batcher.close()


def test_too_many_jobs_are_refused_and_the_accepted_ones_finished() -> None:
    held = Held()
    batcher: Batcher[int, int] = Batcher(held, max_batch=1, max_waiting=2, seconds=60)

    async def run() -> None:
        accepted = [asyncio.ensure_future(batcher.submit(1))]
        await asyncio.to_thread(held.begun.wait)
        accepted += [asyncio.ensure_future(batcher.submit(number)) for number in (2, 3)]
        await settle(batcher, 2)
        with pytest.raises(ApiError, match="too many") as refused:
            await batcher.submit(4)
        assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
        held.go.set()
        assert await asyncio.gather(*accepted) == [2, 4, 6]
        await asyncio.to_thread(batcher.close)
        with pytest.raises(ApiError, match="stopped"):
            await batcher.submit(5)

    asyncio.run(run())


def test_closing_finishes_the_jobs_that_wait() -> None:
    held = Held()
    batcher: Batcher[int, int] = Batcher(held, max_batch=2, max_waiting=10, seconds=60)

    async def run() -> list[int]:
        submitted = [asyncio.ensure_future(batcher.submit(number)) for number in range(5)]
        await asyncio.to_thread(held.begun.wait)
        closing = asyncio.ensure_future(asyncio.to_thread(batcher.close))
        held.go.set()
        await closing
        return await asyncio.gather(*submitted)

    assert asyncio.run(run()) == [0, 2, 4, 6, 8]


def test_a_job_that_takes_too_long_times_out_and_one_that_waits_is_not_begun() -> None:
    held = Held()
    batcher: Batcher[int, int] = Batcher(held, max_batch=1, max_waiting=10, seconds=0.01)

    async def run() -> None:
        for number in (1, 2):
            with pytest.raises(ApiError) as refused:
                await batcher.submit(number)
            assert refused.value.kind == "timeout"

    asyncio.run(run())
    held.go.set()
    batcher.close()
    assert held.batches == [[1]]  # nobody waited for the second any more


def test_each_group_is_answered_as_soon_as_it_is_done() -> None:
    even, odd = threading.Event(), threading.Event()
    begun, odd_begun, done = threading.Event(), threading.Event(), []

    def work(numbers: Sequence[int]) -> list[int | Exception]:
        (odd_begun if numbers[0] % 2 else begun).set()
        (odd if numbers[0] % 2 else even).wait()
        done.append(list(numbers))
        return list(numbers)

    batcher: Batcher[int, int] = Batcher(
        work, max_batch=9, max_waiting=9, seconds=60, key=lambda number: number % 2
    )

    async def run() -> None:
        first = asyncio.ensure_future(batcher.submit(0))
        await asyncio.to_thread(begun.wait)
        others = [asyncio.ensure_future(batcher.submit(number)) for number in (2, 4, 1, 6, 3)]
        await settle(batcher, 5)
        even.set()
        assert await asyncio.gather(*[first, others[0], others[1], others[3]]) == [0, 2, 4, 6]
        assert not others[2].done()
        await asyncio.to_thread(odd_begun.wait)
        others[4].cancel()  # too late to be left out, as its group is under way
        odd.set()
        assert await others[2] == 1

    asyncio.run(run())
    batcher.close()
    assert done == [[0], [2, 4, 6], [1, 3]]


def test_a_job_that_was_cancelled_before_its_group_is_left_out() -> None:
    held = Held()
    batcher: Batcher[int, int] = Batcher(
        held, max_batch=9, max_waiting=9, seconds=60, key=lambda number: number
    )

    async def run() -> None:
        submitted = [asyncio.ensure_future(batcher.submit(0))]
        await asyncio.to_thread(held.begun.wait)
        submitted += [asyncio.ensure_future(batcher.submit(number)) for number in (1, 2)]
        await settle(batcher, 2)
        submitted[2].cancel()
        await asyncio.sleep(0)
        held.go.set()
        assert await asyncio.gather(*submitted[:2]) == [0, 2]

    asyncio.run(run())
    batcher.close()
    assert held.batches == [[0], [1]]


def test_an_error_in_counting_stops_nothing() -> None:
    held, waits = Held(), []
    held.go.set()

    def broken(number: int) -> None:
        waits.append(number)
        raise OSError("the disk is full")

    batcher: Batcher[int, int] = Batcher(
        held, max_batch=4, max_waiting=9, seconds=60, on_batch=broken, on_waiting=broken
    )
    for number in (1, 2):
        assert asyncio.run(batcher.submit(number)) == 2 * number
    alive_before = batcher.alive
    batcher.close()
    assert (alive_before, batcher.alive) == (True, False)
    assert waits


def test_too_few_results_are_an_error() -> None:
    batcher: Batcher[int, int] = Batcher(lambda numbers: [], max_batch=4, max_waiting=9, seconds=60)
    with pytest.raises(RuntimeError, match="1 jobs, but 0 results"):
        asyncio.run(batcher.submit(1))
    batcher.close()


def test_an_error_of_the_work_is_raised_for_all_its_jobs() -> None:
    held = Held()
    held.go.set()
    batcher: Batcher[int, int] = Batcher(held, max_batch=4, max_waiting=10, seconds=60)
    with pytest.raises(RuntimeError, match="all of them"):
        asyncio.run(batcher.submit(99))
    assert asyncio.run(batcher.submit(1)) == 2
    batcher.close()


def test_searches_share_a_batch_unless_their_options_differ() -> None:
    def key(**fields: object) -> bytes:
        return SearchJob(SearchRequest.model_validate(fields), None).batch_key

    assert key(text="red", want="image") == key(text="blue", want=["text"], explain=True)
    assert key(text="red", want="image") == key(text="red")
    options: list[dict[str, object]] = [
        {"k": 3},
        {"beam": 3},
        {"mode": "fast"},
        {"rerank": False},
        {"decoder": "geometry"},
        {"precision": "int8"},
        {"filter": {"n": 1}},
        {"exclude": ["a"]},
        {"offset": 3},
        {"sort": "n"},
        {"only": "image"},
        {"want": ["image", "pair"]},
    ]
    for option in options:
        assert key(text="red", **option) != key(text="red")
    assert key(near="a", want="image") != key(near="a", want="text")
    assert key(near="a") != key(near="b")
