"""Checkpoints: a run's weights, their moving average, the optimizer's state and the step, as an artifact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from genius import storage
from genius.errors import MismatchError
from genius.train import distributed

KIND = "checkpoint"
FORMAT = 1


def save(
    path: Path,
    network: torch.nn.Module,
    average: dict[str, torch.Tensor],
    optimizer: torch.optim.Optimizer | None,
    state: dict[str, Any],
) -> None:
    """Replace the checkpoint at `path` atomically; of several processes only the first one writes."""
    if distributed.rank() == 0:
        tensors = {f"network.{name}": value for name, value in network.state_dict().items()}
        tensors |= {f"average.{name}": value for name, value in average.items()}
        tensors |= _optimizer_tensors(optimizer) if optimizer is not None else {}
        with storage.create(path, kind=KIND, format=FORMAT, settings=state) as draft:
            save_file(
                {name: value.contiguous() for name, value in tensors.items()},
                draft.folder / "state.safetensors",
            )
    distributed.barrier()


def load(
    path: Path,
    network: torch.nn.Module,
    average: dict[str, torch.Tensor] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> dict[str, Any]:
    """Restore everything from the checkpoint at `path`; returns its `state`, empty if there is no checkpoint.

    Raises MismatchError if its weights do not fit the network.
    """
    if not storage.is_artifact(path):
        return {}
    artifact = storage.open(path, kind=KIND, format=FORMAT)
    tensors = load_file(artifact.file("state.safetensors"))
    weights = _with_prefix(tensors, "network.")
    expected = network.state_dict()
    if {name: value.shape for name, value in weights.items()} != {n: v.shape for n, v in expected.items()}:
        raise MismatchError(
            f"{path} belongs to a network of another shape: remove it, or train into another folder"
        )
    network.load_state_dict(weights)
    if average is not None:
        for name, value in _with_prefix(tensors, "average.").items():
            average[name].copy_(value)  # in place, since it may be on a GPU
    if optimizer is not None:
        _restore_optimizer(optimizer, _with_prefix(tensors, "optimizer."))
    return artifact.manifest.settings


def _with_prefix(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    state = optimizer.state_dict()["state"]
    return {
        f"optimizer.{number}.{name}": value
        for number, values in state.items()
        for name, value in values.items()
    }


def _restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, torch.Tensor]) -> None:
    content = optimizer.state_dict()
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, value in tensors.items():
        number, _, key = name.partition(".")
        state.setdefault(int(number), {})[key] = value
    optimizer.load_state_dict({**content, "state": state})
