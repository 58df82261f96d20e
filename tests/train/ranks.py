"""Several ranks in the threads of one process: what they compute together has one gradient."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from genius.train import distributed


def sum_over_ranks(share: Callable[[int], torch.Tensor], world_size: int) -> torch.Tensor:
    """The sum of `share(rank)` over all ranks, with `distributed` patched to know these ranks."""
    ranks, barrier = threading.local(), threading.Barrier(world_size, timeout=60)
    offered: list[torch.Tensor] = [torch.empty(0)] * world_size

    def gather(rows: torch.Tensor) -> torch.Tensor:
        offered[ranks.number] = rows
        barrier.wait()
        gathered = torch.cat(offered)
        barrier.wait()  # before anyone offers the next rows
        return gathered

    def run(rank: int) -> torch.Tensor:
        ranks.number = rank
        return share(rank)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(world_size) as threads:
        patch.setattr(distributed, "rank", lambda: ranks.number)
        patch.setattr(distributed, "world_size", lambda: world_size)
        patch.setattr(distributed, "gather", gather)
        return torch.stack(list(threads.map(run, range(world_size)))).sum(0)
