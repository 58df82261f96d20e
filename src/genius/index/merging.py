"""Segments made into one: when, and how.

New items come in segments of their own, and many small ones would make every search slow. So a new segment
takes in the newest ones before it, as long as the next is at most twice as large as all that it has by then,
and has less than a block of items. Of those that stay, each is then more than twice as large as the next:
there are never more than 17 of less than a block, however items were added. And an item that is written again
finds itself among at least half as many more: that happens at most 29 times until it is in a full block, and
ten thousand single additions write each item fewer than 23 times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genius.index.segments import Block, Segment, gather

RATIO = 2
"""A segment is taken in if it is at most so many times as large as what takes it in."""


def taken_in(sizes: Sequence[int], new: int, full: int) -> int:
    """How many of the newest of segments, by their sizes, a new one of `new` items takes in."""
    count = 0
    for size in reversed(sizes):
        if size > RATIO * new or size >= full:
            break
        new += size
        count += 1
    return count


@dataclass(frozen=True, eq=False)
class Merged:
    """The live items of some segments, and the rows that were left behind."""

    block: Block
    dropped: np.ndarray


def merge(segments: Sequence[Segment], removed: np.ndarray) -> Merged:
    """The items of segments, in the order of their rows, but for those of `removed` rows."""
    rows = np.concatenate([segment.rows for segment in segments]).astype(np.int64)
    live = ~np.isin(rows, removed)
    order = np.flatnonzero(live)[np.argsort(rows[live], kind="stable")]

    def column(name: str) -> np.ndarray:
        return np.asarray(np.concatenate([getattr(segment, name) for segment in segments])[order])

    joined = Gathered(segments, order)
    block = Block(column("codes"), column("modality"), joined, rows[order], column("halves"))
    return Merged(block, rows[~live])


class Gathered:
    """The embeddings of items that are all over some segments, read when they are asked for."""

    def __init__(self, segments: Sequence[Segment], numbers: np.ndarray) -> None:
        self._segments, self._numbers = segments, numbers
        self.shape = len(numbers), segments[0].exact.shape[1]

    def __getitem__(self, places: np.ndarray) -> np.ndarray:
        return gather(self._segments, self._numbers[places])


def together(older: Block, newer: Block) -> Block:
    """The items of both blocks, one after another."""
    every = [
        np.concatenate([block.joined[np.arange(len(block.rows))] for block in (older, newer)]),
        *(
            np.concatenate([getattr(block, name) for block in (older, newer)])
            for name in ("codes", "modality", "rows", "halves")
        ),
    ]
    joined, codes, modality, rows, halves = every
    return Block(codes, modality, joined, rows, halves)
