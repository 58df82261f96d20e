"""Pictures named by the classes that their tower sees in them (ConSE, Norouzi et al., arXiv 1312.5650).

The mean of the text embeddings of the likeliest classes' names is where a caption would roughly be. It needs
no training, so it also holds for what training never showed.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from genius.encode.projection import Projection
from genius.errors import InputError

LIKELIEST = 20


class Naming(nn.Module):
    """From a picture's class logits to the raw block of the text that would name it."""

    def __init__(self, image_parts: Mapping[str, int], raw: int) -> None:
        super().__init__()
        if "logits" not in image_parts:
            raise InputError("these features have no class logits, so pictures can't be named by them")
        names = list(image_parts)
        self.first = sum(image_parts[name] for name in names[: names.index("logits")])
        self.classes = image_parts["logits"]
        self.register_buffer("vectors", torch.zeros(self.classes, raw))
        self.register_buffer("centre", torch.zeros(raw))

    def fit(self, sentences: torch.Tensor, text: Projection, features: torch.Tensor) -> None:
        """Take over the classes' sentences (text features) and centre the names of training pictures."""
        first, last = text.spans[0]
        unit = functional.normalize(sentences[:, first:last], dim=1)
        self.get_buffer("vectors").copy_(unit @ text.get_buffer("raw_directions"))
        self.get_buffer("centre").copy_(self._mixed(features).mean(0))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Raw text blocks [n, raw], of unit length."""
        return functional.normalize(self._mixed(features) - self.get_buffer("centre"), dim=1)

    def _mixed(self, features: torch.Tensor) -> torch.Tensor:
        shares = features[:, self.first : self.first + self.classes].softmax(dim=1)
        likeliest = shares.topk(LIKELIEST, dim=1)
        weights = torch.zeros_like(shares).scatter(1, likeliest.indices, likeliest.values.sqrt())
        return functional.normalize(weights, p=1.0, dim=1) @ self.get_buffer("vectors")
