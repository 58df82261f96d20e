"""What a search returns: hits, each with the path of codes that led to it, and their one serialiser."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from genius.data.records import Item

if TYPE_CHECKING:
    from genius.index.searcher import RankedItem


class CodePath(Protocol):
    """The way to a hit, level by level. It may be worked out when it is first read.

    A search that stops early does not know it, and to find it out would take longer than the search.
    """

    @property
    def log_probabilities(self) -> tuple[float, ...]:
        """Of each level's code, given those before."""

    @property
    def prefix_counts(self) -> tuple[int, ...]:
        """How many items share the prefix of the code, up to each level."""


@dataclass(frozen=True)
class KnownPath:
    """A path whose values are at hand."""

    log_probabilities: tuple[float, ...]
    prefix_counts: tuple[int, ...]


class Confidence(Protocol):
    """How sure it is that a hit answers its query. It may be worked out when it is first read, as that may
    take a measurement of the collection."""

    @property
    def value(self) -> float:
        """From 0 to 1."""


@dataclass(frozen=True)
class KnownConfidence:
    """A confidence that is at hand."""

    value: float


NO_CONFIDENCE = KnownConfidence(math.nan)
"""Of an item that no query led to."""


@dataclass(frozen=True)
class Hit:
    """An item that was found.

    Attributes:
        item: the item.
        rank: its place, from 1 on.
        score: what it is ranked by: the re-ranking score, or in a plain ranking the code score or the
            log-probability of its code as far as that was searched; NaN without a query.
        cosine: of its embedding with the query's; NaN without a query.
        code: its code, level by level.
        path: how likely each code was, and how many items share it; empty without a query.
        judgement: how sure it is that it answers the query.
        item_key: the item's key in the catalogue, if that is at hand: the item that was added first has the
            lower one.
    """

    item: Item
    rank: int
    score: float
    cosine: float
    code: tuple[int, ...]
    path: CodePath = field(repr=False, compare=False)
    judgement: Confidence = field(default=NO_CONFIDENCE, repr=False, compare=False)
    item_key: int = field(default=0, repr=False, compare=False)

    @property
    def confidence(self) -> float:
        """1 − the probability that the best hit of a query without an answer scores so high; NaN without a
        query."""
        return self.judgement.value

    @property
    def log_probabilities(self) -> tuple[float, ...]:
        """Of each level's code, given those before; 0 for a modality that was asked for."""
        return self.path.log_probabilities

    @property
    def prefix_counts(self) -> tuple[int, ...]:
        """How many items share the prefix of its code, up to each level; the last is its bucket."""
        return self.path.prefix_counts

    @property
    def log_probability(self) -> float:
        """Of the whole code."""
        return sum(self.log_probabilities)

    def __getstate__(self) -> dict[str, Any]:
        """A pickled or copied hit knows its path and its confidence, as what would work them out stays
        behind."""
        path = KnownPath(self.log_probabilities, self.prefix_counts)
        return vars(replace(self, path=path, judgement=KnownConfidence(self.confidence)))


NO_PATH = KnownPath((), ())
"""Of an item that no query led to."""


class Hits(list[Hit]):
    """What answers one query, best first, in the ranking that was asked for; or what was browsed.

    Attributes:
        plain: ranked by codes alone: with geometry by code score, and in the mode `paper` or by a learned
            decoder by the log-probabilities of the codes that were searched, and then as re-ranked.
        reranked: all items below all beams, ranked by embeddings and codes together.
        notes: what the reader should know of this search, a sentence each.
        mode: the mode in which the query was searched, as `auto` or the number of items chose it.
        decoder: what scored codes: `geometry` or `learned`.
        num_candidates: how many items were below the beams.
        total: without a query, how many items there are in all, on this page and on others; else None.
        nearest: the best hit, if none is as sure as was asked for (`at_least`).
        searched: among how many items was searched; without a query 0.
        missing_shards: the names of shards that did not answer: their items are missing here.
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
        num_candidates: int = 0,
        total: int | None = None,
        nearest: Hit | None = None,
        searched: int = 0,
        missing_shards: Iterable[str] = (),
    ) -> None:
        super().__init__(reranked if rerank else plain)
        self.plain, self.reranked = plain, reranked
        self.notes = tuple(notes)
        self.mode, self.decoder, self.num_candidates = mode, decoder, num_candidates
        self.total, self.nearest, self.searched = total, nearest, searched
        self.missing_shards = tuple(missing_shards)

    @property
    def partial(self) -> bool:
        """Whether a part of the index did not answer."""
        return bool(self.missing_shards)


def ranked_hits(
    ranking: Iterable[RankedItem],
    items: Mapping[int, Item],
    first: int,
    judge: Callable[[RankedItem], Confidence],
) -> list[Hit]:
    """What a search ranked, with the items by their keys; ranks count from `first` on."""
    return [
        Hit(
            items[ranked.item_key],
            rank,
            ranked.score,
            ranked.cosine,
            ranked.code,
            ranked.path,
            judge(ranked),
            ranked.item_key,
        )
        for rank, ranked in enumerate(ranking, first)
    ]


def browsed_hits(items: Iterable[Item], codes: np.ndarray, first: int) -> list[Hit]:
    """Items that no query ranked, with their codes [n, levels]."""
    return [
        Hit(item, rank, math.nan, math.nan, tuple(code), NO_PATH)
        for rank, (item, code) in enumerate(zip(items, codes.tolist(), strict=True), first)
    ]


def item_to_dict(item: Item, *, local: bool = False) -> dict[str, Any]:
    """An item as JSON; where its image is on this machine only if the reader is `local`."""
    fields = {
        "id": item.id,
        "modality": item.modality.value,
        "text": item.text,
        "has_image": item.image is not None,
        "metadata": dict(item.metadata),
    }
    if local:
        fields["image"] = None if item.image is None else item.image.name
        fields["path"] = None if item.image_path is None else str(item.image_path)
    return fields


def hit_to_dict(hit: Hit, *, explain: bool, local: bool = False) -> dict[str, Any]:
    """A hit as JSON; with `explain` the path that led to it. NaN becomes null."""
    fields = {
        "rank": hit.rank,
        "score": hit.score,
        "cosine": hit.cosine,
        "confidence": hit.confidence,
        "item": item_to_dict(hit.item, local=local),
        "code": hit.code,
    }
    if explain:
        fields |= {"log_probabilities": hit.log_probabilities, "prefix_counts": hit.prefix_counts}
    return fields


def hits_to_dict(hits: Hits, *, explain: bool, local: bool = False) -> dict[str, Any]:
    """What answers a query as JSON."""
    return {
        "hits": [hit_to_dict(hit, explain=explain, local=local) for hit in hits],
        "notes": hits.notes,
        "mode": hits.mode,
        "decoder": hits.decoder,
        "num_candidates": hits.num_candidates,
        "total": hits.total,
        "nearest": None if hits.nearest is None else hit_to_dict(hits.nearest, explain=False, local=local),
        "partial": hits.partial,
        "missing_shards": hits.missing_shards,
    }
