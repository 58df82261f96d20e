"""What a search returns: hits, each with the path of codes that led to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from genius.data.records import Item
from genius.index.searcher import Candidates


@dataclass(frozen=True)
class Hit:
    """An item that was found.

    Attributes:
        item: the item.
        rank: its place, from 1 on.
        score: by which it stands there: of re-ranking, or plainly nearness to its code, or the
            log-probability of its code as far as that was searched.
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


class FoundHit(Hit):
    """A hit whose path is worked out when somebody looks at it.

    A search that stops early does not know it, and to find it out would take longer than the search.
    """

    def __init__(self, candidates: Candidates, place: int, item: Item, rank: int, score: float) -> None:
        known = {
            "item": item,
            "rank": rank,
            "score": score,
            "cosine": float(candidates.cosines[place]),
            "code": tuple(candidates.codes[place].tolist()),
            "_candidates": candidates,
            "_place": place,
        }
        self.__dict__.update(known)

    @cached_property
    def log_probabilities(self) -> tuple[float, ...]:
        """Of each level's code, given those before."""
        return tuple(self.__dict__["_candidates"].gains[self.__dict__["_place"]].tolist())

    @cached_property
    def below(self) -> tuple[int, ...]:
        """How many items share the beginning of the code, up to each level."""
        return tuple(self.__dict__["_candidates"].below[self.__dict__["_place"]].tolist())

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent elsewhere it is a plain hit, as the arrays of the index are not."""
        return Hit, tuple(getattr(self, field.name) for field in fields(Hit))


class Hits(list[Hit]):
    """What answers one query, best first, in the ranking that was asked for.

    Attributes:
        plain: ranked by codes alone: with geometry by the distance of the query to whole codes, and in the
            mode `paper` or by a learned decoder by the log-probabilities of the codes that were searched, and
            then by likeness.
        reranked: all items under all beams, ranked by the likeness of joined embeddings and codes.
        notes: what the reader should know of this search, a sentence each.
        mode: in which mode the query was searched, as `auto` or the number of items chose it.
        decoder: what scored codes: `geometry` or `learned`.
        under: how many items there were under the beams.
    """

    def __init__(
        self,
        plain: list[Hit],
        reranked: list[Hit],
        *,
        rerank: bool,
        notes: Iterable[str],
        mode: str = "",
        decoder: str = "",
        under: int = 0,
    ) -> None:
        super().__init__(reranked if rerank else plain)
        self.plain, self.reranked = plain, reranked
        self.notes = tuple(notes)
        self.mode, self.decoder, self.under = mode, decoder, under


def hits_of(
    candidates: Candidates, places: np.ndarray, scores: np.ndarray, items: Mapping[int, Item]
) -> list[Hit]:
    """The candidates at these places as hits, in this order; `items` are by row."""
    return [
        FoundHit(candidates, int(place), items[int(candidates.rows[place])], rank, float(scores[place]))
        for rank, place in enumerate(places, 1)
    ]
