"""Several training processes (started by torchrun) that act as one, with the gradients of one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist


def start() -> None:
    """Join the other processes, if torchrun started this one."""
    if "RANK" in os.environ and not dist.is_initialized():
        graphics = torch.cuda.is_available()
        if graphics:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        # A stage may train on either, so each kind of tensor has its own way.
        dist.init_process_group("cpu:gloo,cuda:nccl" if graphics else "gloo")


def rank() -> int:
    """This process's number."""
    return dist.get_rank() if dist.is_initialized() else 0


def world() -> int:
    """How many processes there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def share(count: int) -> slice:
    """This process's part of `count` rows; the parts differ by one row at most."""
    return slice(count * rank() // world(), count * (rank() + 1) // world())


def gather(rows: torch.Tensor) -> torch.Tensor:
    """The rows of all processes, in order; gradients find their way back to where the rows came from."""
    if world() == 1:
        return rows
    gathered: torch.Tensor = _Gather.apply(rows)  # type: ignore[no-untyped-call]
    return gathered


def sum_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Add up the processes' gradients, so that each takes the step that one process would have taken."""
    if world() == 1:
        return
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)


def total(value: torch.Tensor) -> float:
    """The sum of a number over the processes."""
    if world() > 1:
        value = value.clone()
        dist.all_reduce(value)
    return float(value)


def wait() -> None:
    """Wait until all processes are here."""
    if world() > 1:
        dist.barrier()


class _Gather(torch.autograd.Function):
    """All processes' rows, of unequal numbers; backwards, the sum of what all of them made of ours."""

    @staticmethod
    def forward(context: Any, rows: torch.Tensor) -> torch.Tensor:
        counts = [torch.zeros(1, dtype=torch.long, device=rows.device) for _ in range(world())]
        dist.all_gather(counts, torch.tensor([len(rows)], device=rows.device))
        context.counts = [int(count) for count in counts]
        longest = max(context.counts)
        padded = rows.new_zeros(longest, *rows.shape[1:])
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in range(world())]
        dist.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, context.counts, strict=True)])

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        gradient = gradients[0].contiguous()
        dist.all_reduce(gradient)
        start = sum(context.counts[: rank()])
        return gradient[start : start + context.counts[rank()]]
