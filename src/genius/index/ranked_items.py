"""What a search has found for one query: items in both rankings, and the ways to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from genius.index.query_batch import QueryBatch
from genius.search.engine import Engine, Mode
from genius.search.explain import level_log_probs, prefix_counts

if TYPE_CHECKING:
    from genius.index.searcher import Searcher


@dataclass(frozen=True, eq=False)
class RankedItems:
    """The best items for one query in both rankings, each once.

    Attributes:
        item_keys: their keys in the catalogue [n].
        codes: their codes [n, levels].
        scores: by which they are re-ranked [n]; of items that only the plain ranking has, its own score.
        plain_scores: by which they are ranked plainly [n]: the log-probability of the codes that were
            searched, or the code score.
        plain, reranked: the two rankings, as places in these arrays, best first.
        mode: in which mode they were searched.
        num_candidates: how many items were below the beams.
    """

    item_keys: np.ndarray
    codes: np.ndarray
    scores: np.ndarray
    plain_scores: np.ndarray
    plain: np.ndarray
    reranked: np.ndarray
    mode: Mode
    num_candidates: int
    _rows: np.ndarray
    _searched_log_probs: np.ndarray
    _engine: Engine
    _searcher: Searcher
    query: QueryBatch
    _modality_code: np.ndarray

    @cached_property
    def cosines(self) -> np.ndarray:
        """Of their embeddings with the query's [n]; of vectors and codes where no embeddings are kept."""
        return self._searcher.cosines(self._rows, self.codes, self.query)

    @cached_property
    def similarities(self) -> np.ndarray:
        """What they score by embeddings and codes together [n], whatever they are ranked by, and without
        what the query takes away."""
        return self._searcher.scored(self._rows, self.codes).scores(self.query.asks_for)

    @cached_property
    def level_log_probs(self) -> np.ndarray:
        """The log-probability of each code [n, levels]; levels that were not searched are decoded now."""
        if not np.isnan(self._searched_log_probs).any():
            return self._searched_log_probs
        query_ids = np.zeros(len(self.item_keys), np.int64)
        return level_log_probs(
            self._engine.decoder, self.query.vectors, query_ids, self.codes, self._modality_code
        )

    @cached_property
    def prefix_counts(self) -> np.ndarray:
        """How many items share each one's prefix, up to each level [n, levels]."""
        return prefix_counts(self._searcher.views, self.codes)


@dataclass(frozen=True, eq=False)
class RankedItem:
    """One of the ranked items, and what it is ranked by."""

    items: RankedItems
    place: int
    score: float

    @property
    def item_key(self) -> int:
        """Its key in the catalogue."""
        return int(self.items.item_keys[self.place])

    @property
    def code(self) -> tuple[int, ...]:
        """Its code."""
        return tuple(self.items.codes[self.place].tolist())

    @property
    def cosine(self) -> float:
        """Of its embedding with the query's."""
        return float(self.items.cosines[self.place])

    @property
    def path(self) -> RankedPath:
        """The way to it."""
        return RankedPath(self.items, self.place)


@dataclass(frozen=True, eq=False)
class RankedPath:
    """The path to one of the ranked items, worked out for all of them when one is first read
    (`hits.CodePath`)."""

    items: RankedItems
    place: int

    @property
    def log_probabilities(self) -> tuple[float, ...]:
        """Of each level's code, given those before."""
        return tuple(self.items.level_log_probs[self.place].tolist())

    @property
    def prefix_counts(self) -> tuple[int, ...]:
        """How many items share the prefix of the code, up to each level."""
        return tuple(self.items.prefix_counts[self.place].tolist())


def merged(results: Sequence[RankedItems], *, plain: bool) -> list[RankedItem]:
    """One of the two rankings of several results, of different items, as one; best first.

    Of equal scores, those of the first result come first.
    """
    ranked = []
    for items in results:
        places, scores = (items.plain, items.plain_scores) if plain else (items.reranked, items.scores)
        ranked += [RankedItem(items, int(place), float(scores[place])) for place in places]
    return sorted(ranked, key=lambda item: -item.score) if len(results) > 1 else ranked
