"""From queries to hits: queries are embedded, and answered by the newest version of an index."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from genius.data.records import Item, Modality, Query
from genius.errors import DamagedError, InputError
from genius.index import near_misses
from genius.index.calibration import Calibration, Calibrations, QueryKind, query_kind
from genius.index.catalogue import Catalogue
from genius.index.confidence import nothing_matches
from genius.index.decoders import NamedDecoder
from genius.index.entries import Entry, item_of
from genius.index.hits import Confidence, Hit, Hits, ranked_hits
from genius.index.query import SearchOptions
from genius.index.query_batch import (
    QueryBatch,
    concatenated,
    embed_item,
    modality_by_instruction,
    targeted,
)
from genius.index.query_cache import QueryCache
from genius.index.searcher import RankedItem, RankedItems, merged
from genius.index.snapshot import Selection, Snapshot
from genius.index.versions import Versions
from genius.model import Model

QUERIES = 256
"""How many queries are searched at a time."""


@dataclass(frozen=True, eq=False)
class EncodedQueries:
    """Queries as a search needs them; they can be sent to another process.

    Attributes:
        batch: a row for each of the modalities that a query wants.
        modalities: what each query wants.
        notes: what the reader should know of each.
        kind: what the queries are, if their batch does not say it.
    """

    batch: QueryBatch
    modalities: Sequence[Sequence[Modality]]
    notes: Sequence[list[str]]
    kind: QueryKind | None = None


@dataclass(frozen=True, eq=False)
class QuerySearch:
    """Searches an index with the same options for all queries.

    Attributes:
        model: that of the index.
        embedded: embeds queries by it.
        catalogue: its items.
        calibrations: what confidences are told by.
        versions: gives the newest version.
        options: of all queries.
    """

    model: Model
    embedded: QueryCache
    catalogue: Catalogue
    calibrations: Calibrations
    versions: Versions
    options: SearchOptions

    def answer(self, queries: Sequence[Query]) -> list[Hits]:
        """What answers each query; all see the same version."""
        # All are embedded before a version is read: as long as one is read, the write-ahead log grows.
        return self.answer_encoded(self.encode(queries))

    def encode(self, queries: Sequence[Query]) -> list[EncodedQueries]:
        """What a search needs of queries, some at a time: what other indexes of the model may answer too."""
        modality_of: dict[str, int] = {}
        if any(query.instruction for query in queries):
            modality_of = modality_by_instruction(self.catalogue.instructions())
        aimed = [targeted(query, self.options, modality_of) for query in queries]
        blocks = [aimed[start : start + QUERIES] for start in range(0, len(aimed), QUERIES)]
        encoded = []
        for block in blocks:
            batch, notes = self.embedded.embed(block)
            encoded.append(EncodedQueries(batch, [query.modalities for query in block], notes))
        return encoded

    def encode_item(self, id: str) -> EncodedQueries:
        """The same of an item that more is to be found like, which is not left out unless the options say so.

        Raises InputError for one that is not here.
        """
        with self.versions.reading() as snapshot:
            key = self.catalogue.keys_of([id]).get(id)
            if key is None:
                raise InputError(f"item {id!r} is not in the index: nothing can be near it")
            batch = embed_item(self.model, snapshot.stored(key), self.options.modalities)
        return EncodedQueries(batch, [self.options.modalities], [[]], "item")

    def answer_encoded(self, encoded: Sequence[EncodedQueries]) -> list[Hits]:
        """What answers encoded queries; all see the same version."""
        with self.versions.reading() as snapshot:
            exclude = self.options.exclude
            excluded = list(self.catalogue.keys_of(exclude).values()) if exclude else []
            return [
                hits
                for queries in encoded
                for hits in self._answers(snapshot, queries.kind).search(
                    queries.batch, queries.modalities, queries.notes, excluded
                )
            ]

    def near(self, id: str) -> Hits:
        """What is like an item; its own code and embedding are the query."""
        with self.versions.reading() as snapshot:
            keys = self.catalogue.keys_of([id, *self.options.exclude])
            if id not in keys:
                raise InputError(f"item {id!r} is not in the index: nothing can be near it")
            wanted = self.options.modalities
            batch = embed_item(self.model, snapshot.stored(keys[id]), wanted)
            answers = self._answers(snapshot, "item")
            return answers.search(batch, [wanted], [[]], list(keys.values()))[0]

    def _answers(self, snapshot: Snapshot, kind: QueryKind | None) -> Answers:
        return Answers(self.catalogue, self.calibrations, snapshot, self.options, kind=kind)


@dataclass(frozen=True, eq=False)
class Answers:
    """Searches one version with the same options; the catalogue's thread reads that version.

    Attributes:
        catalogue: where the items are.
        calibrations: what confidences are told by.
        snapshot: the version.
        options: of all queries.
        kind: what the queries are, if their batch does not say it.
    """

    catalogue: Catalogue
    calibrations: Calibrations
    snapshot: Snapshot
    options: SearchOptions
    kind: QueryKind | None = None

    def search(
        self,
        batch: QueryBatch,
        modalities: Sequence[Sequence[Modality]],
        notes: Sequence[list[str]],
        excluded: list[int],
    ) -> list[Hits]:
        """What answers each query; the batch has a row for each of the modalities that a query wants."""
        options, snapshot = self.options, self.snapshot
        decoder = self._decoder()
        selection = None
        if len(snapshot):
            selection = snapshot.filters.select(self.catalogue, options.condition, excluded)
        if selection is None or not len(selection.searcher):
            why = [near_misses.why_nothing(self.catalogue, options, wanted) for wanted in modalities]
            return [
                Hits([], [], rerank=options.reranks, notes=[*own, *more])
                for own, more in zip(notes, why, strict=True)
            ]
        ranked = iter(
            selection.searcher.search(
                batch,
                options.depth + len(selection.dropped),
                options.beam,
                options.engine_mode(decoder.name),
                decoder.decoder,
                by_codes=options.ranks_by_codes(decoder.name),
            )
        )
        by_query = [
            self._ranked(list(itertools.islice(ranked, max(1, len(wanted)))), wanted, selection)
            for wanted in modalities
        ]
        entries = self._entries(by_query)
        return [
            self._hits(rankings, entries, wanted, own, decoder.name)
            for rankings, wanted, own in zip(by_query, modalities, notes, strict=True)
        ]

    def _decoder(self) -> NamedDecoder:
        """What scores codes."""
        options = self.options
        return self.snapshot.decoder(options.mode, options.decoder, options.precision)

    def _judge(self, results: Sequence[RankedItems], modalities: Sequence[Modality], items: int) -> Judge:
        """What tells how sure the hits of a query are, that were found among so many items."""
        queries = [result.query.asks_for for result in results]
        query = queries[0] if len(queries) == 1 else concatenated(queries)
        judged = JudgedQuery(self.calibrations, self.snapshot, query, modalities, items, self.kind)
        return JudgedItems(judged, results)

    def _ranked(
        self, results: Sequence[RankedItems], modalities: Sequence[Modality], selection: Selection
    ) -> _Rankings:
        """Both rankings of one query, of all modalities that it wants, without items that are dropped."""
        options = self.options
        page, left_out = slice(options.offset, options.depth), set(selection.dropped)
        judge = self._judge(results, modalities, len(selection.searcher))
        rankings = [
            [ranked for ranked in merged(results, plain=plain) if ranked.item_key not in left_out][page]
            for plain in (True, False)
        ]
        nearest = rankings[options.reranks][:1]
        if options.at_least is not None:
            rankings = [
                [ranked for ranked in ranking if judge.confidence(ranked).value >= options.at_least]
                for ranking in rankings
            ]
        return _Rankings(rankings, nearest, judge, results, len(selection.searcher))

    def _hits(
        self,
        ranked: _Rankings,
        entries: Mapping[int, Entry],
        modalities: Sequence[Modality],
        notes: list[str],
        decoder: str,
    ) -> Hits:
        """The hits of one query, whose items are among the entries."""
        options, results, confidence = self.options, ranked.results, ranked.judge.confidence
        items = {key: item_of(entries[key], self.catalogue.path) for key in ranked.item_keys}
        hits = [
            ranked_hits(self._sorted(ranking), items, options.offset + 1, confidence)
            for ranking in ranked.rankings
        ]
        missed = None
        if ranked.nearest and not hits[options.reranks]:
            missed = ranked_hits(ranked.nearest, items, options.offset + 1, confidence)[0]
        return Hits(
            *hits,
            rerank=options.reranks,
            notes=[*notes, *self.notes(list(items.values()), modalities, missed)],
            mode=next((result.mode for result in results if result.mode != "scan"), "scan"),
            decoder=decoder,
            num_candidates=sum(result.num_candidates for result in results),
            nearest=missed,
            searched=ranked.searched,
        )

    def notes(self, items: Sequence[Item], modalities: Sequence[Modality], missed: Hit | None) -> list[str]:
        """What is to be said of these items, or of their absence."""
        options = self.options
        if missed is not None and options.at_least is not None:
            return [nothing_matches(missed.item.id, missed.confidence, options.at_least)]
        if not items and options.offset:
            return [near_misses.beyond_the_end(options.offset)]
        if not items:
            return near_misses.why_nothing(self.catalogue, options, modalities)
        return near_misses.sort_notes(self.catalogue, options.sort, items) if options.sort else []

    def _sorted(self, ranking: Sequence[RankedItem]) -> Sequence[RankedItem]:
        """The ranking in the order that the options ask for."""
        if self.options.ordering is None:
            return ranking
        by_key = {ranked.item_key: ranked for ranked in ranking}
        return [by_key[key] for key in self.catalogue.ordered(by_key, self.options.ordering)]

    def _entries(self, by_query: Sequence[_Rankings]) -> dict[int, Entry]:
        """What the catalogue has of the items of several queries, by one statement."""
        item_keys = {key for rankings in by_query for key in rankings.item_keys}
        entries = self.catalogue.entries(item_keys)
        if len(entries) != len(item_keys):
            raise DamagedError(
                f"{self.catalogue.path} lacks items that a segment holds: make the index again"
            )
        return entries


@dataclass(frozen=True, eq=False)
class _Rankings:
    """What was found for one query.

    Attributes:
        rankings: plain, and re-ranked.
        nearest: the best of the one that is shown, however unsure it is.
        judge: tells how sure they are.
        results: what was found for each wanted modality.
        searched: among how many items.
    """

    rankings: Sequence[Sequence[RankedItem]]
    nearest: Sequence[RankedItem]
    judge: Judge
    results: Sequence[RankedItems]
    searched: int

    @property
    def item_keys(self) -> dict[int, None]:
        """The keys of all items, each once."""
        return {ranked.item_key: None for ranking in (*self.rankings, self.nearest) for ranked in ranking}


class Judge(Protocol):
    """Tells how sure hits are."""

    def confidence(self, ranked: RankedItem) -> Confidence:
        """The confidence of a hit, which may be worked out later."""


@dataclass(frozen=True, eq=False)
class JudgedQuery:
    """How sure what answers one query is, by its similarity; what that takes is measured when it is needed.

    Attributes:
        calibrations: what confidences are told by.
        snapshot: what was searched, or the whole of it.
        query: what it asks for, with a row for each wanted modality.
        modalities: these; empty for any.
        items: among how many items was searched.
        kind: what the query is, if its batch does not say it.
    """

    calibrations: Calibrations
    snapshot: Snapshot
    query: QueryBatch
    modalities: Sequence[Modality]
    items: int
    kind: QueryKind | None = None

    def confidences(self, similarities: np.ndarray) -> np.ndarray:
        """The confidences [n] of similarities (`RankedItems.similarities`) [n]."""
        background = self._calibration.background
        fraction = self.items / max(1, background.items)
        return background.confidences(similarities + self._offset, fraction)

    @cached_property
    def _offset(self) -> float:
        return self._calibration.offset(self.query)

    @cached_property
    def _calibration(self) -> Calibration:
        kind = self.kind or query_kind(int(self.query.kinds[0]))
        return self.calibrations.get(self.snapshot, kind, self.modalities)


@dataclass(frozen=True, eq=False)
class JudgedItems:
    """How sure the hits of one query are, worked out when the first of them is asked for.

    Attributes:
        query: the query.
        results: what was found, for each wanted modality.
    """

    query: JudgedQuery
    results: Sequence[RankedItems]

    def confidence(self, ranked: RankedItem) -> LazyConfidence:
        """The confidence of a hit, to be worked out later."""
        return LazyConfidence(self, ranked)

    @cached_property
    def by_result(self) -> dict[int, np.ndarray]:
        """The confidences of all items of each result."""
        return {id(result): self.query.confidences(result.similarities) for result in self.results}


@dataclass(frozen=True, eq=False)
class LazyConfidence:
    """The confidence of one hit (`hits.Confidence`)."""

    judged: JudgedItems
    ranked: RankedItem

    @cached_property
    def value(self) -> float:
        """From 0 to 1."""
        return float(self.judged.by_result[id(self.ranked.items)][self.ranked.place])
