"""What a search returns: hits, each with the path of codes that led to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from genius.data.records import Item
from genius.index.searcher import Candidates


@dataclass(frozen=True, slots=True)
class Hit:
    """An item that was found.

    Attributes:
        item: the item.
        rank: its place, from 1 on.
        score: by which it stands there: of re-ranking, or the log-probability of its code.
        cosine: of its joined embedding with the query's.
        code: its code, level by level.
        log_probabilities: of each level's code, given those before; 0 for a modality that was asked for.
        below: how many items share the beginning of its code, up to each level; the last is its bucket.
    """

    item: Item
    rank: int
    score: float
    cosine: float
    code: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    below: tuple[int, ...]

    @property
    def log_probability(self) -> float:
        """Of the whole code."""
        return sum(self.log_probabilities)


class Hits(list[Hit]):
    """What answers one query, best first, in the ranking that was asked for.

    Attributes:
        plain: ranked by the log-probabilities of codes alone.
        reranked: all items under all beams, ranked by the likeness of joined embeddings and codes.
        notes: what the reader should know of this search, a sentence each.
    """

    def __init__(self, plain: list[Hit], reranked: list[Hit], *, rerank: bool, notes: Iterable[str]) -> None:
        super().__init__(reranked if rerank else plain)
        self.plain, self.reranked = plain, reranked
        self.notes = tuple(notes)


def hits_of(
    candidates: Candidates, places: np.ndarray, scores: np.ndarray, items: Mapping[int, Item]
) -> list[Hit]:
    """The candidates at these places as hits, in this order; `items` are by row."""
    return [
        Hit(
            item=items[int(candidates.rows[place])],
            rank=rank,
            score=float(scores[place]),
            cosine=float(candidates.cosines[place]),
            code=tuple(candidates.codes[place].tolist()),
            log_probabilities=tuple(candidates.gains[place].tolist()),
            below=tuple(candidates.below[place].tolist()),
        )
        for rank, place in enumerate(places, 1)
    ]
