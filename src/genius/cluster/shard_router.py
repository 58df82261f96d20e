"""A sharded index whose searches are answered by its shards, wherever these run, and merged here.

A query is encoded once, sent to all shards, and their rankings become one, by score. Everything else, looking
items up, facets, cells, albums, confidences, is done by the index itself, from its files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np

from genius.cluster.shard_replica import ShardPaths
from genius.errors import GeniusError
from genius.index import filters
from genius.index.answers import Answers, EncodedQueries, JudgedQuery, QuerySearch
from genius.index.hits import Hit, Hits
from genius.index.index import Index
from genius.index.query import MissingShard, SearchOptions
from genius.index.shard_answers import merge_answers, shard_options
from genius.index.shards import shard_of
from genius.index.snapshot import Snapshot


@dataclass(frozen=True)
class Gathered:
    """What shards answered, those that did, in their order; and the names of the others."""

    answers: Sequence[Any]
    missing: tuple[str, ...] = ()


class Shards(Protocol):
    """The shards of an index, to be asked by the methods of `shard_replica.Shard`."""

    def __len__(self) -> int:
        """How many there are."""

    def ask(self, method: str, *arguments: Any, on_missing: MissingShard | None = None) -> Gathered:
        """What all of them answer, and without some of them what was asked for, or else what is usual.
        Raises ShardError if too few do, and what they raise."""

    def ask_one(self, number: int, method: str, *arguments: Any) -> Any:
        """What one of them answers. Raises ShardError if it does not, and what it raises."""


class RoutedIndex(Index):
    """An index that has its shards search. It is not changed through them."""

    _shards: Shards
    _on_close: Callable[[], object]

    def routed(self, shards: Shards, on_close: Callable[[], object] = lambda: None) -> Self:
        """The same index, whose searches these shards answer from now on."""
        self._shards, self._on_close = shards, on_close
        return self

    def close(self) -> None:
        """Close the index, and the way to its shards."""
        super().close()
        self._on_close()

    def prepare(self, filter: Mapping[str, Any]) -> None:
        """Shards decide filters by themselves; here it is only checked."""
        filters.condition(filter)

    def _search(self, options: SearchOptions) -> RoutedSearch:
        return RoutedSearch(**vars(super()._search(options)), shards=self._shards)


@dataclass(frozen=True, eq=False)
class RoutedSearch(QuerySearch):
    """Searches an index through its shards."""

    shards: Shards

    def answer_encoded(self, encoded: Sequence[EncodedQueries]) -> list[Hits]:
        """What answers encoded queries."""
        return self._gathered(encoded, self.options)

    def near(self, id: str) -> Hits:
        """What is like an item, by the code and the embedding that its shard has."""
        number = shard_of(id, len(self.shards))
        encoded: EncodedQueries = self.shards.ask_one(number, "encode_item", id, self.options)
        return self._gathered([encoded], replace(self.options, exclude=(*self.options.exclude, id)))[0]

    def _gathered(self, encoded: Sequence[EncodedQueries], options: SearchOptions) -> list[Hits]:
        with self.versions.reading() as snapshot:
            temperature = self._temperature(snapshot)
        wanted = shard_options(options)
        gathered = self.shards.ask(
            "answer", encoded, wanted, temperature, on_missing=options.on_missing_shard
        )
        queries = [
            _Query(self, query, snapshot, wanted, temperature, answers)
            for query, answers in zip(_apart(encoded), zip(*gathered.answers, strict=True), strict=True)
        ]
        merged = merge_answers(gathered.answers, options, lambda number, hit: queries[number].judged(hit))
        with self.versions.reading() as snapshot:
            return [
                query.completed(hits, gathered.missing, snapshot)
                for query, hits in zip(queries, merged, strict=True)
            ]

    def _temperature(self, snapshot: Snapshot) -> float | None:
        """That of the geometry, where it depends on the items: shards must not each have their own."""
        if not self.model.has_code_vectors or self.model.has_temperature:
            return None
        temperature: float = snapshot.decoder("auto", "geometry").decoder.temperature  # type: ignore[attr-defined]
        return temperature


def _apart(encoded: Sequence[EncodedQueries]) -> Iterator[EncodedQueries]:
    """Each query by itself."""
    for queries in encoded:
        start = 0
        for modalities, notes in zip(queries.modalities, queries.notes, strict=True):
            rows = slice(start, start + max(1, len(modalities)))
            yield EncodedQueries(queries.batch[rows], [modalities], [notes], queries.kind)
            start = rows.stop


class _Query:
    """One query, and what turns what shards answered into hits of the whole."""

    def __init__(
        self,
        search: RoutedSearch,
        encoded: EncodedQueries,
        snapshot: Snapshot,
        options: SearchOptions,
        temperature: float | None,
        answers: Sequence[Hits],
    ) -> None:
        self._search, self._encoded, self._answers = search, encoded, answers
        self._options, self._temperature = options, temperature
        self._judged = JudgedQuery(
            search.calibrations,
            snapshot,
            encoded.batch.asks_for,
            encoded.modalities[0],
            sum(hits.searched for hits in answers),
            encoded.kind,
        )

    def judged(self, hit: Hit) -> SimilarityConfidence:
        """How sure a hit of a shard is."""
        return SimilarityConfidence(self._judged, hit.confidence)

    def completed(self, hits: Hits, missing: tuple[str, ...], snapshot: Snapshot) -> Hits:
        """The hits with their paths and the notes of the whole, which this thread reads."""
        shown = [*hits.plain, *hits.reranked, *([] if hits.nearest is None else [hits.nearest])]
        by_id = {hit.item.id: hit for hit in shown}
        paths = GatheredPaths(self, list(by_id.values()))
        places = {id: place for place, id in enumerate(by_id)}

        def with_path(hit: Hit) -> Hit:
            return replace(hit, path=GatheredPath(paths, places[hit.item.id]))

        search, modalities = self._search, self._encoded.modalities[0]
        answers = Answers(search.catalogue, search.calibrations, snapshot, search.options)
        items = [hit.item for hit in by_id.values()]
        return Hits(
            [with_path(hit) for hit in hits.plain],
            [with_path(hit) for hit in hits.reranked],
            rerank=search.options.reranks,
            notes=[
                *self._encoded.notes[0],
                *_missing_notes(missing, len(search.shards)),
                *answers.notes(items, modalities, hits.nearest),
            ],
            mode=hits.mode,
            decoder=hits.decoder,
            num_candidates=hits.num_candidates,
            nearest=None if hits.nearest is None else with_path(hits.nearest),
            searched=hits.searched,
            missing_shards=missing,
        )

    def paths(self, codes: np.ndarray) -> list[ShardPaths]:
        """What shards know of the paths to hits with these codes [n, levels]."""
        gathered = self._search.shards.ask(
            "paths",
            self._encoded,
            self._options,
            self._temperature,
            codes,
            on_missing=self._options.on_missing_shard,
        )
        return list(gathered.answers)


def _missing_notes(missing: tuple[str, ...], count: int) -> list[str]:
    if not missing:
        return []
    return [
        f"{len(missing)} of {count} shards did not answer ({', '.join(missing)}): their items are missing"
    ]


@dataclass(frozen=True, eq=False)
class SimilarityConfidence:
    """The confidence of a hit by its similarity, worked out when it is first read (`hits.Confidence`)."""

    query: JudgedQuery
    similarity: float

    @cached_property
    def value(self) -> float:
        """From 0 to 1."""
        return float(self.query.confidences(np.array([self.similarity]))[0])


@dataclass(frozen=True, eq=False)
class GatheredPaths:
    """The paths to all hits of a query, for which shards are asked when one is first read."""

    query: _Query
    hits: Sequence[Hit]

    @cached_property
    def by_shard(self) -> list[ShardPaths]:
        """What each shard knows."""
        return self.query.paths(np.array([hit.code for hit in self.hits], np.int64))

    @cached_property
    def prefix_counts(self) -> np.ndarray:
        """How many items of all shards share the prefixes of the hits' codes [hits, levels]."""
        return np.asarray(np.sum([paths.prefix_counts for paths in self.by_shard], axis=0))

    def log_probabilities(self, id: str) -> tuple[float, ...]:
        """Those of a hit. Raises GeniusError if its shard no longer finds it."""
        for paths in self.by_shard:
            if id in paths.log_probabilities:
                return paths.log_probabilities[id]
        raise GeniusError(f"the index has changed, and item {id!r} is not found as before: search again")


@dataclass(frozen=True, eq=False)
class GatheredPath:
    """The path to one hit (`hits.CodePath`)."""

    paths: GatheredPaths
    place: int

    @property
    def log_probabilities(self) -> tuple[float, ...]:
        """Of each level's code, given those before."""
        return self.paths.log_probabilities(self.paths.hits[self.place].item.id)

    @property
    def prefix_counts(self) -> tuple[int, ...]:
        """How many items share the prefix of the code, up to each level."""
        return tuple(self.paths.prefix_counts[self.place].tolist())
