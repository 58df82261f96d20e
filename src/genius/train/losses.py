"""The contrastive losses: Eq. 2 one way (towers, heads) and Eq. 3 both ways (quantizer).

In both, a query's other positives are masked: they are neither its target nor its negatives. With several
processes, each computes the share of its local rows against the rows of all; the shares add up.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from genius.train import distributed
from genius.train.batches import ContrastBatch


def contrastive_loss(
    queries: torch.Tensor,
    items: torch.Tensor,
    scale: torch.Tensor,
    targets: torch.Tensor,
    other_positives: torch.Tensor,
) -> torch.Tensor:
    """−log softmax of each query's target among all items (Eq. 2), summed over the local queries.

    Args:
        queries: unit vectors of the local queries [q, width].
        items: unit vectors of the local items [n, width].
        scale: 1 / τ.
        targets: for each local query the row of its item among the items of all processes [q].
        other_positives: which items of all processes to mask for each local query [q, items].
    """
    logits = queries @ distributed.gather(items).T * scale
    logits = logits.masked_fill(other_positives, -torch.inf)
    return functional.cross_entropy(logits, targets, reduction="sum")


def symmetric_contrastive_loss(
    queries: torch.Tensor, items: torch.Tensor, batch: ContrastBatch, temperature: float
) -> torch.Tensor:
    """Eq. 3 from queries to items and from items to queries, the mean of both and over all queries.

    `queries` and `items` are the unit vectors [n, width] of this process's part of the batch.
    """
    all_queries, all_items = distributed.gather(queries), distributed.gather(items)
    targets, first, last = batch.targets, batch.local_items.start, batch.local_items.stop
    item_logits = queries @ all_items.T / temperature
    item_logits = item_logits.masked_fill(batch.other_positives[batch.local_queries], -torch.inf)
    query_loss = functional.cross_entropy(item_logits, targets[batch.local_queries], reduction="sum")
    query_logits = items @ all_queries.T / temperature
    query_logits = query_logits.masked_fill(batch.other_positives[:, first:last].T, -torch.inf)
    answered = ((targets >= first) & (targets < last)).nonzero().flatten()  # by this process's items
    item_loss = -query_logits.log_softmax(1)[targets[answered] - first, answered].sum()
    return (query_loss + item_loss) / (2 * len(targets))
