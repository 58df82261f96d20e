"""Several training processes (started by torchrun) that act as one, with the gradients of one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist


def init() -> None:
    """Join the process group, if torchrun started this process."""
    if "RANK" in os.environ and not dist.is_initialized():
        cuda = torch.cuda.is_available()
        if cuda:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        # A stage may train on the processor or on GPUs, so both kinds of tensors need a backend.
        dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo")


def rank() -> int:
    """The number of this process."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """The number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def local_slice(count: int) -> slice:
    """This process's part of `count` rows; the processes' parts differ by one row at most."""
    return slice(count * rank() // world_size(), count * (rank() + 1) // world_size())


def gather(rows: torch.Tensor) -> torch.Tensor:
    """The rows [n, …] of all processes, in order of rank; gradients flow back to the process of each row."""
    if world_size() == 1:
        return rows
    gathered: torch.Tensor = _Gather.apply(rows)  # type: ignore[no-untyped-call]
    return gathered


def sum_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Add up the processes' gradients, so that each takes the step that one process would have taken."""
    if world_size() == 1:
        return
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)


def sum_value(value: torch.Tensor) -> float:
    """The sum of a scalar over the processes."""
    if world_size() > 1:
        value = value.clone()
        dist.all_reduce(value)
    return float(value)


def barrier() -> None:
    """Wait until all processes are here."""
    if world_size() > 1:
        dist.barrier()


class _Gather(torch.autograd.Function):
    """All processes' rows, of unequal numbers; the gradient is the sum over processes, for the local rows."""

    @staticmethod
    def forward(context: Any, rows: torch.Tensor) -> torch.Tensor:
        counts = [torch.zeros(1, dtype=torch.long, device=rows.device) for _ in range(world_size())]
        dist.all_gather(counts, torch.tensor([len(rows)], device=rows.device))
        context.counts = [int(count) for count in counts]
        longest = max(context.counts)
        padded = rows.new_zeros(longest, *rows.shape[1:])
        padded[: len(rows)] = rows
        blocks = [torch.empty_like(padded) for _ in range(world_size())]
        dist.all_gather(blocks, padded)
        return torch.cat([block[:count] for block, count in zip(blocks, context.counts, strict=True)])

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        gradient = gradients[0].contiguous()
        dist.all_reduce(gradient)
        start = sum(context.counts[: rank()])
        return gradient[start : start + context.counts[rank()]]
