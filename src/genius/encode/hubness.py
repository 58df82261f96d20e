"""Hubness: some items are near to every query, and come up for queries that they don't answer.

How near an item is to queries in general is measured by a bank of training queries, and what a search
compares is lessened by it (query bank normalisation, Bogolin et al., arXiv 2112.12777; here each item is
measured by itself, so that it can be indexed alone). Up to a constant this ranks items by how likely the
query is among all queries, given the item.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from genius.data import records

MODALITIES = len(records.MODALITIES)
TEMPERATURE = 0.05
"""The lower, the more the bank's nearest queries count."""
SCALE = 4.0
"""An item's number is so much larger than its hubness, and a query's smaller: embeddings are kept in few
bits, where neither should drown."""


class Hubness(nn.Module):
    """One more number for embeddings, whose product lessens the similarity of a query with a hub.

    The bank has `queries` queries for each modality that they want; strengths depend on what a query has: an
    image, a text, or both. All of it is fitted once after training (`genius.train.hubness`).
    """

    def __init__(self, width: int, queries: int) -> None:
        super().__init__()
        self.bank: torch.Tensor
        self.centre: torch.Tensor
        self.strengths: torch.Tensor
        self.register_buffer("bank", torch.zeros(MODALITIES * queries, width))
        self.register_buffer("centre", torch.zeros(MODALITIES))
        self.register_buffer("strengths", torch.zeros(3))

    def measure(self, blocks: torch.Tensor) -> torch.Tensor:
        """How near items are to queries that want each modality [n, 3], by their blocks [n, width]."""
        count = self.bank.shape[0] // MODALITIES
        by_modality = (blocks @ self.bank.T / TEMPERATURE).reshape(-1, MODALITIES, count)
        return TEMPERATURE * (by_modality.logsumexp(dim=2) - math.log(count))

    def of_items(self, blocks: torch.Tensor, modality: torch.Tensor) -> torch.Tensor:
        """The number [n, 1] of items by their blocks [n, width] and their modality [n]."""
        chosen = functional.one_hot(modality.long(), MODALITIES).to(blocks.dtype)
        return SCALE * ((self.measure(blocks) - self.centre) * chosen).sum(1, keepdim=True)

    def of_queries(self, has_image: torch.Tensor, has_text: torch.Tensor) -> torch.Tensor:
        """The number [n, 1] of queries by what they have [n] each."""
        image, text = has_image.to(self.strengths.dtype), has_text.to(self.strengths.dtype)
        kinds = torch.stack([image * (1 - text), text * (1 - image), image * text], dim=1)
        return -(kinds @ self.strengths)[:, None] / SCALE
