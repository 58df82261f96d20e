"""What several shards answer, each by itself, as one answer: for shards that are searched on other machines.

Queries are encoded once (`QuerySearch.encode`), each shard answers them all (`QuerySearch.answer_encoded`,
with the options of `shard_options`), and `merge_answers` makes one ranking of each query's. Beams are as many
in each shard as in a whole index, so no shard follows less of its items than the whole would.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace

import orjson

from genius.errors import InputError
from genius.index.filters import Ordering
from genius.index.hits import Hit, Hits
from genius.index.query import SearchOptions


def shard_options(options: SearchOptions) -> SearchOptions:
    """What each shard is asked for, so that the merged answer has what `options` ask for."""
    return replace(options, offset=0, k=options.depth, sort=())


def merge_answers(by_shard: Sequence[Sequence[Hits]], options: SearchOptions) -> list[Hits]:
    """The answers to several queries, of those of each shard [shards][queries] by `shard_options`.

    The best come first, and of equal scores those of the first shard. Raises InputError without a shard, or
    if shards answer different numbers of queries.
    """
    if not by_shard or len({len(answers) for answers in by_shard}) > 1:
        raise InputError("answers are merged of one shard or more, of each for the same queries")
    return [_merged(answers, options) for answers in zip(*by_shard, strict=True)]


def _merged(answers: Sequence[Hits], options: SearchOptions) -> Hits:
    """Of one query."""
    plain, reranked = (
        _page((hit for hits in rankings for hit in hits), options)
        for rankings in ([hits.plain for hits in answers], [hits.reranked for hits in answers])
    )
    filled = [hits for hits in answers if hits.plain or hits.reranked] or list(answers)
    shown = reranked if options.reranks else plain
    nearest = None
    if not shown:
        candidates = [hits.nearest for hits in answers if hits.nearest is not None]
        nearest = max(candidates, key=lambda hit: hit.score, default=None)
    return Hits(
        plain,
        reranked,
        rerank=options.reranks,
        notes=dict.fromkeys(note for hits in filled for note in hits.notes),
        mode=next((hits.mode for hits in answers if hits.mode not in ("", "scan")), filled[0].mode),
        decoder=next((hits.decoder for hits in answers if hits.decoder), ""),
        num_candidates=sum(hits.num_candidates for hits in answers),
        nearest=nearest,
    )


def _page(hits: Iterable[Hit], options: SearchOptions) -> list[Hit]:
    """The hits that the options ask for, in their order, with their ranks."""
    best = sorted(hits, key=lambda hit: -hit.score)[options.offset : options.depth]
    ordered = best if options.ordering is None else _ordered(best, options.ordering)
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
