"""Fits what sets back items that are near to every query (see `genius.encode.hubness`), once heads are
trained: a bank of training queries, and how strongly it counts for each kind of query, by validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from genius.corpus.queries import TaskQueries, kind_of_query
from genius.encode.hubness import MODALITIES, Hubness
from genius.quantize.fusion_inputs import TEXT_QUERY

STRENGTHS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""How much of its hubness an item's similarity is lessened by: what is tried."""

QueryBlocks = Callable[[TaskQueries, np.ndarray], torch.Tensor]
"""Gives the blocks [n, width] of a task's queries by row."""


def fit_bank(
    hubness: Hubness,
    tasks: Sequence[TaskQueries],
    query_blocks: QueryBlocks,
    item_blocks: torch.Tensor,
    modality: np.ndarray,
    *,
    seed: int,
) -> None:
    """Fill the bank with training queries, evenly drawn from all that want a modality, and centre on items.

    `item_blocks` [n, width] and `modality` [n] are those of training items. A modality that no query wants
    keeps the bank that it has.
    """
    random = np.random.default_rng([seed, 13])
    size = len(hubness.bank) // MODALITIES
    for want in range(MODALITIES):
        wanting = [task for task in tasks if task.want == want]
        if not wanting:
            continue
        ends = np.cumsum([len(task) for task in wanting])
        drawn = np.sort(random.choice(ends[-1], size, replace=ends[-1] < size))
        starts = ends - [len(task) for task in wanting]
        rows = [
            query_blocks(task, drawn[(drawn >= start) & (drawn < end)] - start)
            for task, start, end in zip(wanting, starts, ends, strict=True)
        ]
        hubness.bank[want * size : (want + 1) * size] = torch.cat(rows)
        members = np.flatnonzero(modality == want)
        if len(members):
            hubness.centre[want] = hubness.measure(item_blocks[members])[:, want].mean()


def choose_strengths(
    hubness: Hubness, tasks: Sequence[TaskQueries], hit_rate_of: Callable[[TaskQueries], float]
) -> None:
    """Set the strength for queries with a text to that of most hits, in the mean over the kind's tasks.

    `hit_rate_of` measures a task as the strengths are set. Kinds that no task has keep their strength, and
    images alone have none: they are no queries of the bank's sort.
    """
    for kind in range(TEXT_QUERY, len(hubness.strengths)):
        measured = [task for task in tasks if kind_of_query(task) == kind]
        if not measured:
            continue
        hits = []
        for strength in STRENGTHS:
            hubness.strengths[kind] = strength
            hits.append(float(np.mean([hit_rate_of(task) for task in measured])))
        hubness.strengths[kind] = STRENGTHS[int(np.argmax(hits))]
