"""Lloyd's k-means, which codebooks start from."""

from __future__ import annotations

import torch

from genius.errors import InputError

BLOCK = 8192
"""Rows that are compared with all centres at a time."""


def kmeans(
    rows: torch.Tensor, count: int, *, iterations: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """`count` centres [count, width] of the rows [n, width], and the number [n] of each row's own.

    Starts from rows drawn at random; a centre that loses all its rows moves to the row that is farthest from
    its own centre. Ends early when no row changes its centre. Raises InputError if there are fewer rows than
    centres.
    """
    if len(rows) < count:
        raise InputError(
            f"{len(rows)} vectors are too few for {count} codes: take more, or at most {len(rows)} codes"
        )
    centres = rows[torch.randperm(len(rows), generator=generator)[:count]].clone()
    own = nearest_centres(rows, centres)
    for _ in range(iterations):
        centres = _means(rows, own, centres)
        moved = nearest_centres(rows, centres)
        if torch.equal(moved, own):
            break
        own = moved
    return centres, own


def nearest_centres(rows: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    """The number [n] of the centre that is nearest to each row [n, width]; of equally near ones the first."""
    half_sq_norms = 0.5 * centres.square().sum(1)
    blocks = [
        (rows[start : start + BLOCK] @ centres.T - half_sq_norms).argmax(1)
        for start in range(0, len(rows), BLOCK)
    ]
    return torch.cat(blocks) if blocks else torch.zeros(0, dtype=torch.long)


def sums_by(rows: torch.Tensor, groups: torch.Tensor, count: int) -> torch.Tensor:
    """The sum of the rows of each group [count, width]; many times faster than adding rows one by one."""
    order = groups.argsort(stable=True)
    starts = torch.bincount(groups, minlength=count).cumsum(0).roll(1)
    starts[0] = 0
    return torch.segment_reduce(
        rows[order], "sum", offsets=torch.cat([starts, order.new_tensor([len(rows)])])
    )


def _means(rows: torch.Tensor, own: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    counts = torch.bincount(own, minlength=len(centres))
    sums = sums_by(rows, own, len(centres))
    means = sums / counts.clamp(min=1)[:, None]
    empty = (counts == 0).nonzero().flatten()
    if len(empty):
        farthest = (rows - means[own]).square().sum(1).topk(min(len(empty), len(rows))).indices
        means[empty[: len(farthest)]] = rows[farthest]
    return means
