"""What several shards answer, each by itself, as one answer: for shards that are searched on other machines.

Queries are encoded once (`QuerySearch.encode`), each shard answers them all (`ShardSearch.answer_encoded`,
with the options of `shard_options`), and `merge_answers` makes one ranking of each query's. Beams are as many
in each shard as in a whole index, so no shard follows less of its items than the whole would.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import orjson

from genius.data.records import Modality
from genius.decode.geometry import Geometry
from genius.errors import InputError
from genius.index.answers import Answers, Judge, QuerySearch
from genius.index.calibration import QueryKind
from genius.index.decoders import NamedDecoder
from genius.index.filters import Ordering
from genius.index.hits import Confidence, Hit, Hits, KnownConfidence
from genius.index.query import SearchOptions
from genius.index.searcher import RankedItem, RankedItems
from genius.index.snapshot import Snapshot


def shard_options(options: SearchOptions) -> SearchOptions:
    """What each shard is asked for, so that the merged answer has what `options` ask for."""
    return replace(options, offset=0, k=options.depth, sort=(), at_least=None)


@dataclass(frozen=True, eq=False)
class ShardSearch(QuerySearch):
    """Searches one shard for somebody who merges the answers and judges them by the whole.

    In place of its confidence, a hit has its similarity (`RankedItems.similarities`), by which it is judged.

    Attributes:
        geometry: of the whole, if that depends on its items.
    """

    geometry: Geometry | None = None

    def _answers(self, snapshot: Snapshot, kind: QueryKind | None) -> Answers:
        options, calibrations = self.options, self.calibrations
        return _ShardAnswers(self.catalogue, calibrations, snapshot, options, kind, self.geometry)


@dataclass(frozen=True, eq=False)
class _ShardAnswers(Answers):
    geometry: Geometry | None = None

    def _decoder(self) -> NamedDecoder:
        decoder = super()._decoder()
        if self.geometry is None or decoder.name != "geometry":
            return decoder
        return NamedDecoder(decoder.name, self.geometry)

    def _judge(self, results: Sequence[RankedItems], modalities: Sequence[Modality], items: int) -> Judge:
        return _Unjudged()


class _Unjudged:
    """Gives the similarity of a hit (`answers.Judge`)."""

    def confidence(self, ranked: RankedItem) -> KnownConfidence:
        """Its similarity."""
        return KnownConfidence(float(ranked.items.similarities[ranked.place]))


def merge_answers(
    by_shard: Sequence[Sequence[Hits]],
    options: SearchOptions,
    judge: Callable[[int, Hit], Confidence] = lambda query, hit: hit.judgement,
) -> list[Hits]:
    """The answers to several queries, of those of each shard [shards][queries] by `shard_options`.

    The best come first, of equal scores the item that was added first. `judge` tells the confidence of a hit
    of a query, by its number. The notes are those of the shards. Raises InputError without a shard, or if
    shards answer different numbers of queries.
    """
    if not by_shard or len({len(answers) for answers in by_shard}) > 1:
        raise InputError("answers are merged of one shard or more, of each for the same queries")
    return [
        _merged(answers, options, lambda hit, query=query: judge(query, hit))  # type: ignore[misc]
        for query, answers in enumerate(zip(*by_shard, strict=True))
    ]


def _merged(answers: Sequence[Hits], options: SearchOptions, judge: Callable[[Hit], Confidence]) -> Hits:
    """Of one query."""
    rankings = [
        _best((hit for hits in ranked for hit in hits), options, judge)
        for ranked in ([hits.plain for hits in answers], [hits.reranked for hits in answers])
    ]
    nearest = rankings[options.reranks][:1]
    least = options.at_least
    if least is not None:
        rankings = [[hit for hit in ranking if hit.confidence >= least] for ranking in rankings]
    plain, reranked = (_page(ranking, options) for ranking in rankings)
    filled = [hits for hits in answers if hits.plain or hits.reranked] or list(answers)
    missed = None if rankings[options.reranks] else next(iter(nearest), None)
    return Hits(
        plain,
        reranked,
        rerank=options.reranks,
        notes=dict.fromkeys(note for hits in filled for note in hits.notes),
        mode=next((hits.mode for hits in answers if hits.mode not in ("", "scan")), filled[0].mode),
        decoder=next((hits.decoder for hits in answers if hits.decoder), ""),
        num_candidates=sum(hits.num_candidates for hits in answers),
        nearest=None if missed is None else replace(missed, rank=options.offset + 1),
        searched=sum(hits.searched for hits in answers),
    )


def _best(hits: Iterable[Hit], options: SearchOptions, judge: Callable[[Hit], Confidence]) -> list[Hit]:
    """The hits of the page that the options ask for, best first."""
    best = sorted(hits, key=lambda hit: (-hit.score, hit.item_key))[options.offset : options.depth]
    return [replace(hit, judgement=judge(hit)) for hit in best]


def _page(hits: list[Hit], options: SearchOptions) -> list[Hit]:
    """The same hits in the order that the options ask for, with their ranks."""
    ordered = hits if options.ordering is None else _ordered(hits, options.ordering)
    return [replace(hit, rank=rank) for rank, hit in enumerate(ordered, options.offset + 1)]


def _ordered(hits: Sequence[Hit], ordering: Ordering) -> list[Hit]:
    """Hits by their metadata, as a catalogue orders them."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE TABLE items (place INTEGER PRIMARY KEY, metadata TEXT)")
        rows = ((place, orjson.dumps(dict(hit.item.metadata)).decode()) for place, hit in enumerate(hits))
        connection.executemany("INSERT INTO items VALUES (?, ?)", rows)
        query = f"SELECT place FROM items ORDER BY {ordering.sql}, place"
        return [hits[place] for (place,) in connection.execute(query, ordering.values)]
    finally:
        connection.close()
