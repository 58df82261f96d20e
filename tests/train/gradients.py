"""Losses compared by value and by gradient."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch


def gradients(loss: torch.Tensor, parameters: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Of the loss by each parameter, zeros where it does not depend on one."""
    if not loss.requires_grad:
        return [torch.zeros_like(parameter) for parameter in parameters]
    computed = torch.autograd.grad(loss, parameters, allow_unused=True)
    return [
        torch.zeros_like(parameter) if gradient is None else gradient
        for gradient, parameter in zip(computed, parameters, strict=True)
    ]


def assert_same(
    loss: torch.Tensor, expected: torch.Tensor, parameters: Sequence[torch.Tensor], *, tolerance: float = 1e-4
) -> None:
    """Equal values and equal gradients, the latter relative to the longest one."""
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=tolerance)
    computed, wanted = gradients(loss, parameters), gradients(expected, parameters)
    longest = max(float(gradient.abs().max()) for gradient in wanted)
    assert longest > 0
    for gradient, other in zip(computed, wanted, strict=True):
        torch.testing.assert_close(gradient, other.to(gradient.dtype), atol=10 * tolerance * longest, rtol=0)
