"""What a decoder's memory is made of: the training queries of items that were asked for often.

An item's queries are drawn together to a few vectors. Each of these counts for a query that is nearer to it
than any training query that asked for something else; an item whose own queries are not so near is not worth
remembering, as others are asked for from the same place. So nothing has to be tuned against new items.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from genius.decode.memory import Memory
from genius.errors import InputError
from genius.quantize.kmeans import kmeans
from genius.quantize.quantizer import unit_length

BLOCK = 8192
ITERATIONS = 10


@dataclass(frozen=True)
class MemorySettings:
    """What is remembered of training."""

    asked: int = 0
    """How many training queries an item needs (16, say); 0 is no memory at all."""
    items: int = 512
    """How many items of a modality are remembered at most, those that were asked for most."""
    vectors: int = 8
    """How many vectors stand for the queries of an item."""
    sure: float = 0.95
    """Which share of an item's queries must be nearer to its vectors than what asked for something else."""
    gain: float = 120.0
    """How much nearness beyond that adds to the log-odds of a code."""

    def __post_init__(self) -> None:
        if min(self.asked, self.items) < 0 or self.vectors < 1 or (self.asked and self.asked < self.vectors):
            raise InputError("asked should be 0 or at least vectors, vectors at least 1, items at least 0")
        if not 0 <= self.sure <= 1 or self.gain <= 0:
            raise InputError("sure is a share from 0 to 1, and gain should be above 0")


@dataclass(frozen=True, eq=False)
class AskedFor:
    """Training queries and what they asked for.

    Attributes:
        vectors: of the queries, [queries, width].
        want: the number of the modality that each wants, [queries].
        queries: of each pair of a query and an answer the query, in rising order, [pairs].
        items: and the item, [pairs].
    """

    vectors: np.ndarray
    want: np.ndarray
    queries: np.ndarray
    items: np.ndarray


def remember(
    asked: AskedFor, codes: np.ndarray, modality: np.ndarray, settings: MemorySettings, *, seed: int
) -> Memory:
    """A memory of the items [n] with these codes [n, levels]; it may be empty."""
    vectors, answers, floors = [asked.vectors[:0]], [codes[:0].astype(np.int64)], [np.zeros(0, np.float32)]
    chosen = _often_asked(asked, modality, settings)
    generator = torch.Generator().manual_seed(seed)
    for want in np.unique(modality[chosen]):
        items = chosen[modality[chosen] == want]
        entries = np.stack([_vectors(asked, item, settings.vectors, generator) for item in items])
        least = _floors(asked, items, entries, int(want))
        sure = _sure(asked, items, entries, least) >= settings.sure
        vectors.append(entries[sure].reshape(-1, entries.shape[2]))
        answers.append(np.repeat(codes[items[sure]].astype(np.int64), settings.vectors, axis=0))
        floors.append(least[sure].reshape(-1))
    known = np.concatenate(answers)
    order = np.lexsort(known.T[::-1])
    return Memory(np.concatenate(vectors)[order], known[order], np.concatenate(floors)[order], settings.gain)


def _often_asked(asked: AskedFor, modality: np.ndarray, settings: MemorySettings) -> np.ndarray:
    """The numbers of the items that were asked for most, in rising order."""
    if not settings.asked:
        return np.zeros(0, np.int64)
    times = np.bincount(asked.items, minlength=len(modality))
    chosen = []
    for want in np.unique(modality):
        often = np.flatnonzero((modality == want) & (times >= settings.asked))
        most = np.argsort(-times[often], kind="stable")[: settings.items]
        chosen.append(often[most])
    return np.sort(np.concatenate([np.zeros(0, np.int64), *chosen]))


def _own(asked: AskedFor, item: int) -> np.ndarray:
    return np.asarray(asked.vectors[np.unique(asked.queries[asked.items == item])])


def _vectors(asked: AskedFor, item: int, count: int, generator: torch.Generator) -> np.ndarray:
    """Some vectors of unit length [count, width] that stand for the queries of an item."""
    own = torch.from_numpy(_own(asked, item))
    centres, _ = kmeans(own, count, iterations=ITERATIONS, generator=generator)
    return unit_length(centres.numpy())


def _floors(asked: AskedFor, items: np.ndarray, entries: np.ndarray, want: int) -> np.ndarray:
    """For each of the items' entries [items, vectors, width] the nearness of the nearest query that wants
    the same modality and another item: float32 [items, vectors]."""
    floors = np.full(entries.shape[:2], -1, np.float32)
    flat = entries.reshape(-1, entries.shape[2])
    place = np.full(int(asked.items.max()) + 1, -1)
    place[items] = np.arange(len(items))
    pairs = place[asked.items] >= 0
    of_query, of_item = asked.queries[pairs], place[asked.items[pairs]]
    rows = np.flatnonzero(asked.want == want)
    for start in range(0, len(rows), BLOCK):
        some = rows[start : start + BLOCK]
        nearness = (flat @ asked.vectors[some].T).reshape(*floors.shape, len(some))
        column = np.searchsorted(some, of_query)
        here = (column < len(some)) & (some[np.minimum(column, len(some) - 1)] == of_query)
        nearness[of_item[here], :, column[here]] = -1
        np.maximum(floors, nearness.max(axis=2), out=floors)
    return floors


def _sure(asked: AskedFor, items: np.ndarray, entries: np.ndarray, floors: np.ndarray) -> np.ndarray:
    """The share of each item's queries that are beyond the floor of one of its entries."""
    shares = [
        ((_own(asked, item) @ vectors.T - least).max(axis=1) > 0).mean()
        for item, vectors, least in zip(items, entries, floors, strict=True)
    ]
    return np.array(shares)
