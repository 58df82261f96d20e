"""Several ranks in the threads of one process: what they compute together has one gradient."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
import torch

from genius.train import distributed

T = TypeVar("T")


def run_ranks(function: Callable[[int], T], world_size: int) -> list[T]:
    """The results of `function(rank)` for each rank, with `distributed` patched to know these ranks."""
    ranks, barrier = threading.local(), threading.Barrier(world_size, timeout=60)
    offered: list[torch.Tensor] = [torch.empty(0)] * world_size

    def gather(rows: torch.Tensor) -> torch.Tensor:
        offered[ranks.number] = rows
        barrier.wait()
        gathered = torch.cat(offered)
        barrier.wait()  # before anyone offers the next rows
        return gathered

    def run(rank: int) -> T:
        ranks.number = rank
        return function(rank)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(world_size) as threads:
        patch.setattr(distributed, "rank", lambda: ranks.number)
        patch.setattr(distributed, "world_size", lambda: world_size)
        patch.setattr(distributed, "gather", gather)
        return list(threads.map(run, range(world_size)))
