"""One level's codebook, which learns by moving averages instead of gradients."""

from __future__ import annotations

import torch
from torch import nn

from genius.quantize.kmeans import sums_by


class Codebook(nn.Module):
    """The vectors of one level, each a moving average of what it stands for."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.vectors: torch.Tensor
        self.register_buffer("vectors", torch.zeros(size, width))
        self.register_buffer("counts", torch.ones(size))
        self.register_buffer("sums", torch.zeros(size, width))
        self.register_buffer("carried", torch.ones(size))

    def start(self, vectors: torch.Tensor, counts: torch.Tensor) -> None:
        """Begin with these vectors, as if each had been used `counts` times a step."""
        self.vectors.copy_(vectors)
        self.get_buffer("carried").copy_(counts)
        self.get_buffer("counts").copy_(counts)
        self.get_buffer("sums").copy_(vectors * counts[:, None])

    def follow(self, rows: torch.Tensor, codes: torch.Tensor, decay: float) -> None:
        """Move every used vector towards the mean of its rows."""
        counts, sums = self.get_buffer("counts"), self.get_buffer("sums")
        new_counts = torch.bincount(codes, minlength=len(counts)).to(rows.dtype)
        new_sums = sums_by(rows, codes, len(counts))
        counts.mul_(decay).add_(new_counts, alpha=1 - decay)
        sums.mul_(decay).add_(new_sums, alpha=1 - decay)
        used = new_counts > 0
        self.vectors[used] = sums[used] / counts[used, None]

    def revive(
        self, items: torch.Tensor, codes: torch.Tensor, share: float, decay: float, generator: torch.Generator
    ) -> int:
        """Start codes that items use less than a share of an even use anew, from items; returns how many.

        Only items count: a code that only queries fall upon leads to nothing. Each takes a row of its own
        (two equal codes would never part), so at most as many as there are rows, and counts as evenly used
        at first, so that it has some steps to find what it stands for.
        """
        counts, carried = self.get_buffer("counts"), self.get_buffer("carried")
        even = len(items) / len(counts)
        carried.mul_(decay).add_(torch.bincount(codes, minlength=len(counts)), alpha=1 - decay)
        dead = (carried < share * even).nonzero().flatten()[: len(items)]
        chosen = items[torch.randperm(len(items), generator=generator)[: len(dead)]]
        self.vectors[dead] = chosen
        counts[dead] = carried[dead] = even
        self.get_buffer("sums")[dead] = chosen * even
        return len(dead)
