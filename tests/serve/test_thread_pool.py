"""Threads beside the searches."""

from __future__ import annotations

import asyncio
import threading

import pytest

from genius.serve.errors import ApiError
from genius.serve.thread_pool import ThreadPool

pytest.importorskip("fastapi")


def test_a_thread_pool_has_its_limits() -> None:
    go, pool = threading.Event(), ThreadPool(1, 1, 60, "test")
    late = ThreadPool(1, 1, 0.01, "test")

    async def run() -> None:
        accepted = [asyncio.ensure_future(pool.run(go.wait)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(ApiError, match="too many"):
            await pool.run(go.wait)
        with pytest.raises(ApiError, match="takes more than"):
            await late.run(go.wait)
        go.set()
        assert await asyncio.gather(*accepted) == [True, True]
        assert await pool.run(lambda: 3) == 3

    asyncio.run(run())
    pool.close()
    late.close()
