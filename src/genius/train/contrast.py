"""A step's queries and items, and the loss that tells them apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from genius.train import distributed


@dataclass(frozen=True)
class Batch:
    """Queries, the items that they ask for, and this process's share of both."""

    rows: np.ndarray
    candidates: np.ndarray
    wanted: torch.Tensor
    """For each query the place of its item among the candidates."""
    masked: torch.Tensor
    """[queries, candidates]: pairs that are neither asked for nor wrong."""
    first: torch.Tensor
    """The modality that this process's queries want, then the one that its items have."""
    mine: slice
    my_items: slice

    @property
    def my_rows(self) -> np.ndarray:
        """This process's queries."""
        return self.rows[self.mine]

    @property
    def my_candidates(self) -> np.ndarray:
        """This process's items."""
        return self.candidates[self.my_items]


def contrastive(queries: torch.Tensor, items: torch.Tensor, batch: Batch, temperature: float) -> torch.Tensor:
    """The symmetric contrast (Eq. 3, both ways): this process's share of it; the shares add up."""
    all_queries, all_items = distributed.gather(queries), distributed.gather(items)
    wanted, first, last = batch.wanted, batch.my_items.start, batch.my_items.stop
    forth = (queries @ all_items.T / temperature).masked_fill(batch.masked[batch.mine], -torch.inf)
    there = functional.cross_entropy(forth, wanted[batch.mine], reduction="sum")
    back = (items @ all_queries.T / temperature).masked_fill(batch.masked[:, first:last].T, -torch.inf)
    ours = ((wanted >= first) & (wanted < last)).nonzero().flatten()
    again = -back.log_softmax(1)[wanted[ours] - first, ours].sum()
    return (there + again) / (2 * len(wanted))
