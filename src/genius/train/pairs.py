"""Queries with the items that answer them: what a contrast is made of, and what validation looks for."""

from __future__ import annotations

import hashlib
import heapq
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from genius.data.mbeir import Tree
from genius.data.records import Item, Query
from genius.errors import InputError
from genius.train.batches import permuted

log = logging.getLogger(__name__)


class Answered(Protocol):
    """Queries by number; the positives of query i are `items[starts[i]:starts[i + 1]]`."""

    @property
    def starts(self) -> np.ndarray:
        """Where each query's positives begin [n + 1]."""

    @property
    def items(self) -> np.ndarray:
        """The numbers of all positives."""

    def positives(self, query: int) -> np.ndarray:
        """The numbers of the items that answer a query."""


def one_positive_each(queries: Answered, rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """An item for each query, drawn from those that answer it."""
    first, last = queries.starts[rows], queries.starts[rows + 1]
    return np.asarray(queries.items[first + (random.random(len(rows)) * (last - first)).astype(np.int64)])


def other_positives(
    queries: Answered, rows: np.ndarray, candidates: np.ndarray, wanted: torch.Tensor
) -> torch.Tensor:
    """Where a candidate answers a query too, but is not the answer drawn: it is no negative either.

    `candidates` are item numbers in order; `wanted` says which of them each query is to find.
    """
    mask = torch.zeros(len(rows), len(candidates), dtype=torch.bool)
    for place, row in enumerate(rows):
        positives = queries.positives(row)
        found = np.searchsorted(candidates, positives)
        found = np.minimum(found, len(candidates) - 1)
        mask[place, found[candidates[found] == positives]] = True
    mask[torch.arange(len(rows)), wanted] = False
    return mask


def hit_rate(queries: Answered, rows: np.ndarray, found: np.ndarray) -> float:
    """The share of queries that have a positive among what was found for them [n, k]."""
    hits = [
        bool(np.isin(items, queries.positives(row)).any()) for row, items in zip(rows, found, strict=True)
    ]
    return float(np.mean(hits))


# --- straight from a tree --------------------------------------------------------------------------


@dataclass(frozen=True)
class Pairs:
    """Queries of a tree as they are, pictures and all, and the numbers of the items that answer them."""

    queries: list[Query]
    starts: np.ndarray
    items: np.ndarray

    @classmethod
    def of(cls, queries: Iterable[Query], numbers: Mapping[str, int]) -> Pairs:
        """Those of the queries that have an answer among the numbered items."""
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
            if len(items) == len(needed):  # the rest of a pool of millions has nothing for us
                break
    pairs = Pairs.of(queries, _numbered(items))
    if not len(pairs):
        raise InputError("has no train queries with an answer in its pools", path=tree.path)
    if len(pairs) < len(queries):
        log.warning("%d training queries have no answer in the pools", len(queries) - len(pairs))
    return pairs, list(items.values())


def read_validation(tree: Tree, *, queries: int, items: int) -> tuple[list[Pairs], list[Item]]:
    """Up to so many validation queries of each task, and the pool in which their answers are to be found:
    these answers, and up to about `items` others, drawn by their ids alone.

    Raises InputError if there are none.
    """
    asked: list[list[Query]] = []
    for task in tree.tasks("val"):
        known = list(tree.queries("val", task))
        rows = permuted(len(known), 0, min(len(known), queries), seed=(0,))
        asked.append([known[row] for row in np.sort(rows)])
    needed = {id for task_queries in asked for query in task_queries for id in query.positives}
    # Answers come before all others, so that what is left of the room is shared by these.
    chosen = heapq.nsmallest(
        items + len(needed), tree.items("val"), key=lambda item: (item.id not in needed, _digest(item))
    )
    pool = {item.id: item for item in chosen}
    tasks = [Pairs.of(task_queries, _numbered(pool)) for task_queries in asked]
    tasks = [pairs for pairs in tasks if len(pairs)]
    if not tasks:
        raise InputError("has no val queries with an answer in its pools", path=tree.path)
    return tasks, list(pool.values())


def _digest(item: Item) -> bytes:
    return hashlib.blake2b(item.id.encode(), digest_size=8).digest()


def _numbered(items: Mapping[str, Item]) -> dict[str, int]:
    return {id: number for number, id in enumerate(items)}
