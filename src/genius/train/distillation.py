"""Prefix ranking distillation: every prefix of the items' codes learns to rank items as embeddings do.

    L = T² · KL( softmax(cos(q, c) / T) ‖ softmax(cos(q, ĉ_l) / T) ),   the mean over levels l and queries q

over the items c of a batch that the teacher ranks first; ĉ_l is the sum of an item's first l code vectors. A
loss of PRO (https://arxiv.org/abs/2606.09241), of which we have a summary and not the paper. Known from that:
the formula, T = 0.05, the teacher's best 128 of the batch, all levels, and that there is a warm-up. Our
choices: the loss's weight, which is not known; the mean over levels; semantic levels only (PRO has no
modality code; the modality's vector is part of the sum); a weight that rises linearly over a share of the
steps; and where the gradient goes: to the query's vector, and through the quantizer to the item's. Codebooks
have no gradient here: they follow by moving averages, as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch.nn import functional

from genius.errors import InputError
from genius.train import distributed
from genius.train.batches import ContrastBatch


@dataclass(frozen=True)
class DistillationSettings:
    """Prefix ranking distillation, a loss of PRO (arXiv 2606.09241): the prefixes of codes learn to rank the
    items of a batch as a teacher does. Off by default; see `recipes/rivals/pro.toml`."""

    weight: float = 0.0
    """Of the loss; 0 is off. The loss has a factor `temperature`², so it is small."""
    temperature: float = 0.05
    top: int = 128
    """Items of the batch that each query's loss covers: those that the teacher ranks first."""
    warm_up: float = 0.1
    """The share of the steps in which the weight rises from 0."""
    teacher: Literal["embedding", "vector", "reranked"] = "embedding"
    """What ranks the items: the cosine of joined embeddings; that of fused vectors, which are quantized; or
    the score of re-ranking, of joined embeddings and whole codes."""
    embedding_weight: float = 0.5
    """Of joined embeddings in the score of re-ranking."""

    def __post_init__(self) -> None:
        if self.weight < 0 or self.temperature <= 0:
            raise InputError("weight should be at least 0 and temperature above 0")
        if self.top < 2:
            raise InputError("a ranking needs at least 2 items: top should be at least 2")
        if not (0 <= self.warm_up <= 1 and 0 <= self.embedding_weight <= 1):
            raise InputError("warm_up and embedding_weight are shares from 0 to 1")

    def weight_at(self, progress: float) -> float:
        """The weight when this share of the steps is over."""
        return self.weight * (min(1.0, progress / self.warm_up) if self.warm_up else 1.0)


class PrefixDistillation:
    """The loss of batches, whose teacher knows the embeddings of all queries and items.

    Args:
        settings: of the loss.
        queries: joined embeddings of all training queries [n, width].
        items: those of all items [n, width].

    Raises InputError if the teacher needs embeddings and there are none.
    """

    def __init__(self, settings: DistillationSettings, queries: np.ndarray, items: np.ndarray) -> None:
        self.settings = settings
        self._queries, self._items = queries, items
        if settings.teacher != "vector" and not (queries.any() and items.any()):
            raise InputError(
                "prefix ranking distillation learns the ranking by embeddings, and this model has none: "
                'say teacher = "vector" in [quantizer.distillation], or weight = 0'
            )

    def loss(
        self,
        batch: ContrastBatch,
        queries: torch.Tensor,
        items: torch.Tensor,
        prefixes: Sequence[torch.Tensor],
    ) -> torch.Tensor:
        """The sum over this process's queries of the mean over levels, without its weight.

        Args:
            batch: which queries and items these are.
            queries: their vectors [q, width].
            items: the vectors of this process's items [n, width].
            prefixes: for each level the sums of those items' first code vectors [n, width].
        """
        all_prefixes = [distributed.gather(sums) for sums in prefixes]
        with torch.no_grad():
            scores = self._teacher_scores(batch, queries, items, all_prefixes[-1])
        return prefix_ranking_loss(scores, queries, all_prefixes, self.settings)

    def _teacher_scores(
        self, batch: ContrastBatch, queries: torch.Tensor, items: torch.Tensor, quantized: torch.Tensor
    ) -> torch.Tensor:
        """What the teacher ranks all items of the batch by, for this process's queries [q, items]."""
        if self.settings.teacher == "vector":
            return _cosines(queries, distributed.gather(items))
        embeddings = [
            torch.from_numpy(np.asarray(rows, np.float32)).to(queries.device)
            for rows in (self._queries[batch.local_rows], self._items[batch.candidates])
        ]
        scores = _cosines(*embeddings)
        if self.settings.teacher == "embedding":
            return scores
        code_scores = queries @ quantized.T - 0.5 * quantized.square().sum(1)
        return torch.lerp(code_scores, scores, self.settings.embedding_weight)


def prefix_ranking_loss(
    teacher: torch.Tensor,
    queries: torch.Tensor,
    prefixes: Sequence[torch.Tensor],
    settings: DistillationSettings,
) -> torch.Tensor:
    """The formula above for the teacher's scores [q, items], the queries' vectors [q, width] and each level's
    sums of the items' code vectors [items, width]: the sum over queries of the mean over levels."""
    temperature = settings.temperature
    best_scores, best = teacher.topk(min(settings.top, teacher.shape[1]), dim=1)
    target = (best_scores / temperature).log_softmax(1)
    losses = []
    for sums in prefixes:
        scores = _cosines(queries, sums).gather(1, best)
        student = (scores / temperature).log_softmax(1)
        losses.append(functional.kl_div(student, target, reduction="sum", log_target=True))
    return temperature**2 * torch.stack(losses).mean()


def _cosines(rows: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    return functional.normalize(rows, dim=1) @ functional.normalize(others, dim=1).T
