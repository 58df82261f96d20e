"""From a text or a picture to hits, on a real index: how long that takes, and which share each step has."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

import numpy as np

from genius.data.records import Item, Query
from genius.decode.onnx_decoder import Precision
from genius.display import Table
from genius.index import query as asking
from genius.index.decoders import Decoders
from genius.index.index import Index
from genius.index.searcher import both_rankings
from genius.progress import track
from genius.search.costs import costs_of
from genius.search.engine import Engine
from genius.search.hits import Mode

STEPS = ("encoder", "decoder", "ranking", "catalogue")


@dataclass(frozen=True)
class Whole:
    """What queries of one kind took in one mode, in milliseconds of the wall's clock; shares by step."""

    query: str
    mode: str
    n: int
    queries: int
    p50_ms: float
    p99_ms: float
    shares: dict[str, float]

    def fields(self) -> dict[str, Any]:
        """For a line of JSON."""
        return asdict(self)


def measure_whole(
    index: Index,
    *,
    modes: Sequence[Mode] = ("auto", "fast", "safe", "exact", "paper"),
    queries: int = 50,
    k: int = 10,
    beam: int = 50,
    decoder: str | None = None,
    precision: Precision = "fp32",
) -> list[Whole]:
    """Search for texts and pictures of some of the index's own items, one query at a time."""
    kinds = {name: some for name, some in _queries(index, queries).items() if some}
    ways = [_Way.of(index, asking.Asking(k, beam, None, mode, decoder, precision)) for mode in modes]
    found = []
    for name, some in kinds.items():
        times: list[list[list[float]]] = [[] for _ in ways]
        for query in track([some[0], *some], name, unit="queries"):
            for way, mine in zip(ways, times, strict=True):  # in turns: what disturbs one disturbs all
                mine.append(way.timed(query))
        for way, mine in zip(ways, times, strict=True):  # the first one reads files and compiles
            found.append(_summed_up(name, way.how.mode, len(index), np.array(mine[1:])))
    return found


@dataclass(frozen=True, eq=False)
class _Way:
    """One way to search an index."""

    index: Index
    how: asking.Asking
    engine: Engine
    by_codes: bool

    @classmethod
    def of(cls, index: Index, how: asking.Asking) -> _Way:
        chosen = Decoders(index.model).choose(how.mode, how.decoder, how.precision)
        return cls(index, how, index.searcher.engine(chosen.decoder), how.by_codes(chosen.name))

    def timed(self, query: Query) -> list[float]:
        """The seconds of a search, and of its steps, each taken by itself; the last is what remains."""
        how, engine, model = self.how, self.engine, self.index.model
        if how.mode == "auto":
            known = asking.asked(model, [query])
            engine.costs = costs_of(engine, known.vectors, known.embeddings, None)
        start = time.perf_counter()
        self.index.search(
            query, k=how.k, beam=how.beam, mode=how.mode, decoder=how.decoder, precision=how.precision
        )
        whole = time.perf_counter() - start
        marks = [time.perf_counter()]
        asked = asking.asked(model, [query])
        marks.append(time.perf_counter())
        search = engine.find(asked.vectors, k=how.k, beams=how.beam, mode=how.mode)
        marks.append(time.perf_counter())
        both_rankings(engine, search, asked.embeddings, how.k, by_codes=self.by_codes)
        marks.append(time.perf_counter())
        steps = np.diff(marks).tolist()
        return [whole, *steps, max(whole - sum(steps), 0.0)]


def _summed_up(name: str, mode: str, count: int, times: np.ndarray) -> Whole:
    parts = np.median(times[:, 1:], axis=0)
    return Whole(
        query=name,
        mode=mode,
        n=count,
        queries=len(times),
        p50_ms=float(1000 * np.quantile(times[:, 0], 0.5)),
        p99_ms=float(1000 * np.quantile(times[:, 0], 0.99)),
        shares=dict(zip(STEPS, (parts / parts.sum()).round(4).tolist(), strict=True)),
    )


def _queries(index: Index, most: int) -> dict[str, list[Query]]:
    """Queries by text, by picture and by both, from the index's own items: of each kind a random sample."""
    kinds: dict[str, list[Item]] = {"text": [], "picture": [], "both": []}
    passed = dict.fromkeys(kinds, 0)
    random = Random(0)
    for item in index:
        kind = "both" if item.text and item.image else "text" if item.text else "picture"
        passed[kind] += 1
        place = random.randrange(passed[kind])  # each has the same chance to be kept
        if len(kinds[kind]) < most:
            kinds[kind].append(item)
        elif place < most:
            kinds[kind][place] = item
    return {
        name: [Query(text=item.text, image=item.image) for item in items] for name, items in kinds.items()
    }


def table(found: Sequence[Whole]) -> Table:
    """A row for each kind of query and each mode."""
    made = Table(
        ("query", "mode", "p50 ms", "p99 ms", *(f"{step} %" for step in STEPS)),
        title=f"{found[0].n:,} items; from a query to hits, by the wall's clock" if found else "",
    )
    for one in found:
        shares = [100 * one.shares[step] for step in STEPS]
        made.add(one.query, one.mode, one.p50_ms, one.p99_ms, *shares)
    return made
