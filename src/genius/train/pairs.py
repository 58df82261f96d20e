"""Queries with the items that answer them: drawing a positive, masking the others, measuring hits."""

from __future__ import annotations

import hashlib
import heapq
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from genius.corpus.queries import TaskQueries
from genius.data.mbeir import Tree
from genius.data.records import Item, Query
from genius.errors import InputError
from genius.train.batches import validation_rows

log = logging.getLogger(__name__)


class AnsweredQueries(Protocol):
    """Queries by number; the positives of query i are `items[starts[i]:starts[i + 1]]`."""

    @property
    def starts(self) -> np.ndarray:
        """Where each query's positives begin [n + 1]."""

    @property
    def items(self) -> np.ndarray:
        """The item numbers of all positives."""

    def positives(self, query: int) -> np.ndarray:
        """The numbers of the items that answer a query."""


def draw_positives(queries: AnsweredQueries, rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """One positive for each of these queries, drawn at random [n]."""
    first, last = queries.starts[rows], queries.starts[rows + 1]
    return np.asarray(queries.items[first + (random.random(len(rows)) * (last - first)).astype(np.int64)])


def mask_other_positives(
    queries: AnsweredQueries, rows: np.ndarray, candidates: np.ndarray, targets: torch.Tensor
) -> torch.Tensor:
    """Which candidates answer a query without being its target, and so are no negatives: bool [n,
    candidates].

    `candidates` are item numbers, ascending; `targets` [n] is the position of each query's target among them.
    """
    mask = torch.zeros(len(rows), len(candidates), dtype=torch.bool)
    for place, row in enumerate(rows):
        positives = queries.positives(row)
        places = np.minimum(np.searchsorted(candidates, positives), len(candidates) - 1)
        mask[place, places[candidates[places] == positives]] = True
    mask[torch.arange(len(rows)), targets] = False
    return mask


def hit_rate(queries: AnsweredQueries, rows: np.ndarray, results: np.ndarray) -> float:
    """The share of queries that have a positive among their results, item numbers [n, k]."""
    hits = [
        bool(np.isin(items, queries.positives(row)).any()) for row, items in zip(rows, results, strict=True)
    ]
    return float(np.mean(hits))


def hit_rate_by_scores(
    queries: AnsweredQueries, rows: np.ndarray, scores: np.ndarray, items: np.ndarray, k: int
) -> float:
    """The share of queries with a positive among the k items of the highest scores [n, items].

    `items` are the numbers of the columns, in ascending order. Nothing is sorted: a query has a hit if fewer
    than k items score higher than the best of its positives.
    """
    hits = 0
    for row, own in zip(rows, scores, strict=True):
        positives = queries.positives(row)
        places = np.searchsorted(items, positives).clip(max=len(items) - 1)
        answers = places[items[places] == positives]
        hits += bool(len(answers)) and int((own > own[answers].max()).sum()) < k
    return hits / len(rows)


# --- answers that the first stages don't see


def held_out_items(ids: Sequence[str], share: float) -> np.ndarray:
    """Which items are held out, bool [n]: about this share of them, chosen by their ids alone."""
    digests = b"".join(hashlib.blake2b(id.encode(), digest_size=4).digest() for id in ids)
    return np.frombuffer(digests, np.uint32) < share * 2**32


def without_held_out(tasks: Sequence[TaskQueries], ids: Sequence[str], share: float) -> list[TaskQueries]:
    """The queries of tasks none of whose answers is held out; `ids` are those of all items.

    Raises InputError if none is left.
    """
    if not share:
        return list(tasks)
    held_out = held_out_items(ids, share)
    kept = []
    for task in tasks:
        holds = np.add.reduceat(held_out[task.items].astype(np.int64), task.starts[:-1]) > 0
        kept.append(task.select(np.flatnonzero(~holds)))
    if not any(len(task) for task in kept):
        raise InputError(f"held_out = {share} leaves no training query to the first stages: hold out less")
    return [task for task in kept if len(task)]


# --- straight from a tree


@dataclass(frozen=True)
class Pairs:
    """Queries of a tree as they are, images included, and the numbers of the items that answer them."""

    queries: list[Query]
    starts: np.ndarray
    items: np.ndarray

    @classmethod
    def select(cls, queries: Iterable[Query], numbers: Mapping[str, int]) -> Pairs:
        """The queries that have an answer among the numbered items."""
        kept: list[Query] = []
        positives: list[list[int]] = []
        for query in queries:
            known = [numbers[id] for id in query.positives if id in numbers]
            if known:
                kept.append(query)
                positives.append(known)
        starts = np.concatenate([[0], np.cumsum([len(known) for known in positives], dtype=np.int64)])
        return cls(kept, starts, np.array([number for known in positives for number in known], np.int64))

    def __len__(self) -> int:
        return len(self.queries)

    def positives(self, query: int) -> np.ndarray:
        """The numbers of the items that answer a query."""
        return self.items[self.starts[query] : self.starts[query + 1]]


def read_training(tree: Tree, *, upsampled: bool) -> tuple[Pairs, list[Item]]:
    """The training pairs of a tree, of all tasks together, and the items that occur in them.

    Raises InputError if there are none.
    """
    queries = list(tree.queries("train", upsampled=upsampled))
    needed = {id for query in queries for id in query.positives}
    items: dict[str, Item] = {}
    for item in tree.items("train"):
        if item.id in needed:
            items[item.id] = item
            if len(items) == len(needed):  # a pool may have millions more
                break
    pairs = Pairs.select(queries, _numbers(items))
    if not len(pairs):
        raise InputError("has no train queries with an answer in its pools", path=tree.path)
    if len(pairs) < len(queries):
        log.warning("%d training queries have no answer in the pools", len(queries) - len(pairs))
    return pairs, list(items.values())


def read_validation(tree: Tree, *, queries: int, items: int) -> tuple[list[Pairs], list[Item]]:
    """Up to `queries` validation queries of each task, and the pool to search for their answers: these
    answers and up to about `items` others, chosen by their ids alone.

    Raises InputError if there are none.
    """
    chosen: list[list[Query]] = []
    for task in tree.tasks("val"):
        known = list(tree.queries("val", task))
        chosen.append([known[row] for row in np.sort(validation_rows(len(known), queries))])
    needed = {id for task_queries in chosen for query in task_queries for id in query.positives}
    # Answers come before all others, so that the others share what is left of the pool.
    listed = heapq.nsmallest(
        items + len(needed), tree.items("val"), key=lambda item: (item.id not in needed, _digest(item))
    )
    pool = {item.id: item for item in listed}
    tasks = [Pairs.select(task_queries, _numbers(pool)) for task_queries in chosen]
    tasks = [pairs for pairs in tasks if len(pairs)]
    if not tasks:
        raise InputError("has no val queries with an answer in its pools", path=tree.path)
    return tasks, list(pool.values())


def _digest(item: Item) -> bytes:
    return hashlib.blake2b(item.id.encode(), digest_size=8).digest()


def _numbers(items: Mapping[str, Item]) -> dict[str, int]:
    return {id: number for number, id in enumerate(items)}
