"""Latency from a text or an image to hits on a real index, and the share of each step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

import numpy as np

from genius.data.records import MODALITIES, Item, Query
from genius.decode.onnx_decoder import Precision
from genius.display import Table
from genius.index.index import Index
from genius.index.query import SearchOptions
from genius.index.query_batch import TargetedQuery, embed_queries
from genius.index.searcher import both_rankings
from genius.progress import track
from genius.search.costs import costs_of
from genius.search.engine import Engine, Mode

STEPS = ("encoder", "decoder", "ranking", "catalogue")


@dataclass(frozen=True)
class SearchLatency:
    """The latency of queries of one modality in one mode, by the wall clock, with the share of each step."""

    query: str
    mode: str
    n: int
    queries: int
    p50_ms: float
    p99_ms: float
    shares: dict[str, float]

    def fields(self) -> dict[str, Any]:
        """The figures for a line of JSON."""
        return asdict(self)


def measure_latency(
    index: Index,
    *,
    modes: Sequence[Mode] = ("auto", "fast", "safe", "exact", "paper"),
    queries: int = 50,
    k: int = 10,
    beam: int = 50,
    decoder: str | None = None,
    precision: Precision = "fp32",
) -> list[SearchLatency]:
    """Search for texts and images of some of the index's own items, one query at a time."""
    samples = {modality: sample for modality, sample in _sample_queries(index, queries).items() if sample}
    searches = [
        _TimedSearch.of(
            index, SearchOptions.of(k=k, beam=beam, mode=mode, decoder=decoder, precision=precision)
        )
        for mode in modes
    ]
    latencies = []
    for modality, sample in samples.items():
        times: list[list[list[float]]] = [[] for _ in searches]
        for query in track([sample[0], *sample], modality, unit="queries"):
            for search, own_times in zip(searches, times, strict=True):  # in turns: noise hits all modes
                own_times.append(search.time(query))
        for search, own_times in zip(searches, times, strict=True):
            warm = np.array(own_times[1:])  # the first query opens files and compiles
            latencies.append(_summarise(modality, search.options.mode, len(index), warm))
    return latencies


@dataclass(frozen=True, eq=False)
class _TimedSearch:
    """A search of an index with fixed options, and its steps one by one."""

    index: Index
    options: SearchOptions
    engine: Engine
    by_codes: bool

    @classmethod
    def of(cls, index: Index, options: SearchOptions) -> _TimedSearch:
        chosen = index.decoder(options.mode, options.decoder, options.precision)
        return cls(index, options, index.searcher.engine(chosen.decoder), options.ranks_by_codes(chosen.name))

    def time(self, query: Query) -> list[float]:
        """The seconds of a whole search, then of `STEPS`, each run again by itself; the last is the rest."""
        options, engine, model = self.options, self.engine, self.index.model
        if options.mode == "auto":
            known = embed_queries(model, [TargetedQuery(query)])
            engine.costs = costs_of(engine, known.vectors, known.embeddings, None)
        self.index._embedded.clear()  # another mode has searched for it already
        start = time.perf_counter()
        self.index.search(
            query,
            k=options.k,
            beam=options.beam,
            mode=options.mode,
            decoder=options.decoder,
            precision=options.precision,
        )
        total = time.perf_counter() - start
        marks = [time.perf_counter()]
        batch = embed_queries(model, [TargetedQuery(query)])
        marks.append(time.perf_counter())
        search = engine.find(batch.vectors, k=options.k, beams=options.beam, mode=options.mode)
        marks.append(time.perf_counter())
        scorer = engine.scorer(search, batch.embeddings, batch.embedding_weights)
        both_rankings(engine, search, scorer, options.k, by_codes=self.by_codes)
        marks.append(time.perf_counter())
        steps = np.diff(marks).tolist()
        return [total, *steps, max(total - sum(steps), 0.0)]


def _summarise(modality: str, mode: str, count: int, times: np.ndarray) -> SearchLatency:
    """Quantiles and shares of times [queries, 1 + steps]."""
    steps = np.median(times[:, 1:], axis=0)
    return SearchLatency(
        query=modality,
        mode=mode,
        n=count,
        queries=len(times),
        p50_ms=float(1000 * np.quantile(times[:, 0], 0.5)),
        p99_ms=float(1000 * np.quantile(times[:, 0], 0.99)),
        shares=dict(zip(STEPS, (steps / steps.sum()).round(4).tolist(), strict=True)),
    )


def _sample_queries(index: Index, most: int) -> dict[str, list[Query]]:
    """At most `most` queries of each modality, made of a random sample of the index's own items."""
    samples: dict[str, list[Item]] = {modality.value: [] for modality in MODALITIES}
    seen = dict.fromkeys(samples, 0)
    random = Random(0)
    for item in index:
        modality = item.modality.value
        seen[modality] += 1
        place = random.randrange(seen[modality])  # reservoir sampling: all items have the same chance
        if len(samples[modality]) < most:
            samples[modality].append(item)
        elif place < most:
            samples[modality][place] = item
    return {
        modality: [Query(text=item.text, image=item.image) for item in items]
        for modality, items in samples.items()
    }


def table(latencies: Sequence[SearchLatency]) -> Table:
    """A row for each modality of queries and each mode."""
    rows = Table(
        ("query", "mode", "p50 ms", "p99 ms", *(f"{step} %" for step in STEPS)),
        title=f"{latencies[0].n:,} items; from a query to hits, by the wall clock" if latencies else "",
    )
    for latency in latencies:
        shares = [100 * latency.shares[step] for step in STEPS]
        rows.add(latency.query, latency.mode, latency.p50_ms, latency.p99_ms, *shares)
    return rows
