"""Search over the arrays of all segments as one: from query vectors to the rows of the catalogue.

The engine of `genius.search` searches the segments' files as they lie on the disk; opening an index unpacks
nothing. One decode serves two rankings. The plain one takes items by the log-probability of the codes that
were searched, and then by likeness; the re-ranked one takes all items under all beams by likeness, of joined
embeddings and codes together (search/blend.py). Of equal items the one that was added first comes first.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from genius.decode.decoder import Decoder
from genius.index.segments import Segment, gather
from genius.quantize.quantizer import Quantizer
from genius.search.costs import Costs, costs_of
from genius.search.engine import Engine
from genius.search.explain import below, trace
from genius.search.hits import Hits, Mode, Search
from genius.search.segment_view import Part
from tests.oracles.blend import nearness

ANY = -1
"""Stands for every modality, and for every first code."""

STEERED: tuple[Mode, ...] = ("paper", "exact", "safe", "fast")
"""Modes in which a first code that is learned leads the beams; the others look at all that is wanted."""


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked, by query.

    Attributes:
        vectors: what is decoded, [queries, width].
        joined: joined embeddings, by which items are ordered, [queries, width].
        want: the number of the wanted modality, or ANY.
        first: the first code of items of that modality, or ANY.
    """

    vectors: np.ndarray
    embeddings: np.ndarray
    want: np.ndarray
    first: np.ndarray

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, some: np.ndarray) -> Asked:
        return Asked(self.vectors[some], self.embeddings[some], self.want[some], self.first[some])


@dataclass(frozen=True, eq=False)
class Candidates:
    """The best items for one query in both rankings, each once.

    Attributes:
        rows: their rows in the catalogue.
        codes: their codes [n, levels].
        cosines: of their joined embeddings with the query's; of vectors and codes where there are none.
        scores: by which they are re-ranked, those that are.
        totals: by which they are ranked plainly: the log-probability of the codes that were searched, or
            how near the query is to their codes.
        mode: in which mode they were found.
        under: how many items there were under the beams.
    """

    rows: np.ndarray
    codes: np.ndarray
    cosines: np.ndarray
    scores: np.ndarray
    totals: np.ndarray
    mode: Mode
    under: int
    _rankings: tuple[np.ndarray, np.ndarray]
    _searched: np.ndarray
    _engine: Engine
    _parts: Sequence[Part]
    _vector: np.ndarray
    _first: int

    def plain(self, k: int) -> np.ndarray:
        """The k best by log-probability, as places in the arrays."""
        return self._rankings[0][:k]

    def reranked(self, k: int) -> np.ndarray:
        """The k best by re-ranking, as places in the arrays."""
        return self._rankings[1][:k]

    @cached_property
    def gains(self) -> np.ndarray:
        """The log-probability of each code [n, levels]; levels that were not searched are decoded now."""
        if not np.isnan(self._searched).any():
            return self._searched
        owners, first = np.zeros(len(self.rows), np.int64), np.array([self._first])
        return trace(self._engine.decoder, self._vector[None], owners, self.codes, first)

    @cached_property
    def below(self) -> np.ndarray:
        """How many items share the beginning of each one's code, up to each level [n, levels]."""
        return below(self._parts, self.codes)


@dataclass(frozen=True, eq=False)
class _How:
    """How queries are searched; see `Engine.search`."""

    decoder: Decoder
    k: int
    beams: int
    mode: Mode
    by_codes: bool


class Searcher:
    """The items of some segments, but for removed rows.

    Args:
        decoder: scores codes where a search names no other.
        quantizer: tells where codes are.
        weight: how much joined embeddings count in re-ranking.
        segments: where codes and embeddings are.
        removed: rows of the catalogue that no longer stand for an item, sorted.
        costs: what `auto` goes by; without them it is measured where that matters.
    """

    def __init__(
        self,
        decoder: Decoder,
        quantizer: Quantizer,
        weight: float,
        segments: Sequence[Segment],
        removed: np.ndarray,
        costs: Costs | None = None,
    ) -> None:
        self._decoder, self._quantizer, self._weight, self._costs = decoder, quantizer, weight, costs
        self._segments, self._told = segments, quantizer.modality_code == "given"
        self._embedded = all(segment.exact.shape[1] for segment in segments)
        self._parts = [segment.part(removed) for segment in segments]
        self._wanted: dict[int, list[Part]] = {ANY: self._parts}

    def __len__(self) -> int:
        return _items(self._parts)

    def restricted(self, allowed: Sequence[np.ndarray]) -> Searcher:
        """The same, where only rows may be found that a mask for each segment, bool [n], allows too."""
        other = copy.copy(self)
        other._parts = [part.restricted(mask) for part, mask in zip(self._parts, allowed, strict=True)]
        other._wanted = {ANY: other._parts}
        return other

    def search(
        self,
        asked: Asked,
        k: int,
        beams: int,
        mode: Mode = "auto",
        decoder: Decoder | None = None,
        *,
        by_codes: bool = False,
    ) -> list[Candidates]:
        """For each query the k best items in both rankings, or all that there are of what it wants.

        Where `beams` beams lead to fewer, more are followed. If the first code that was asked for does not
        stand for all items of the modality, it is dropped where it leads to fewer than k. With `by_codes`,
        the plain ranking is by how near the query is to items' codes.
        """
        how = _How(self._decoder if decoder is None else decoder, k, beams, mode, by_codes)
        found: list[Candidates | None] = [None] * len(asked)
        if self._told:
            self._fill(found, self._parts, asked, asked.want, np.arange(len(asked)), how)
            return _all(found)
        anywhere = np.full(len(asked), ANY)
        for want in np.unique(asked.want):
            mine, parts = np.flatnonzero(asked.want == want), self._of(int(want))
            self._fill(found, parts, asked, asked.first if mode in STEERED else anywhere, mine, how)
            if mode in STEERED:
                enough = min(k, _items(parts))
                lacking = [some is not None and some.under < enough for some in found]
                self._fill(found, parts, asked, anywhere, mine[np.array(lacking)[mine]], how)
        return _all(found)

    def engine(self, decoder: Decoder | None = None, parts: Sequence[Part] | None = None) -> Engine:
        """The engine over these items, or over some of them."""
        return Engine(
            self._parts if parts is None else parts,
            self._decoder if decoder is None else decoder,
            self._quantizer.codebooks,
            self._weight,
            self._costs,
        )

    def _fill(
        self,
        found: list[Candidates | None],
        parts: Sequence[Part],
        asked: Asked,
        first: np.ndarray,
        mine: np.ndarray,
        how: _How,
    ) -> None:
        """Search for some of the queries, in both rankings."""
        if not len(mine):
            return
        engine = self.engine(how.decoder, parts)
        some, first = asked[mine], first[mine]
        embeddings = some.embeddings if self._embedded else None
        if how.mode == "auto" and self._costs is None:
            engine.costs = costs_of(engine, some.vectors, embeddings, first)
        searched = engine.find(some.vectors, first=first, k=how.k, beams=how.beams, mode=how.mode)
        rankings = both_rankings(engine, searched, embeddings, how.k, by_codes=how.by_codes)
        for place, query in enumerate(mine):
            found[query] = self._candidates(engine, searched, rankings, some, first, place, how)

    def _candidates(
        self,
        engine: Engine,
        searched: Search,
        rankings: Sequence[Hits],
        asked: Asked,
        first: np.ndarray,
        query: int,
        how: _How,
    ) -> Candidates:
        """What both rankings have of one query; of what is in both, as the re-ranked one has it."""
        ranked = [hits.rows[query][hits.rows[query] >= 0] for hits in rankings]
        every, where = np.unique(np.concatenate(ranked), return_index=True)

        def both(name: str) -> np.ndarray:
            values = [
                getattr(hits, name)[query][: len(rows)] for hits, rows in zip(rankings, ranked, strict=True)
            ]
            return np.asarray(np.concatenate(values)[where])

        codes, vector = engine.codes(every), asked.vectors[query]
        near = nearness(vector, self._quantizer.reconstruct(codes)) if how.by_codes else both("totals")
        return Candidates(
            rows=both("numbers"),
            codes=codes.astype(np.int64),
            cosines=self._cosines(every, codes, asked, query),
            scores=both("likeness"),
            totals=near,
            mode=rankings[0].modes[query],
            under=int(rankings[0].below[query]),
            _rankings=(np.searchsorted(every, ranked[1]), np.searchsorted(every, ranked[0])),
            _searched=both("gains"),
            _engine=engine,
            _parts=self._parts,
            _vector=vector,
            _first=int(first[query]),
        )

    def _cosines(self, rows: np.ndarray, codes: np.ndarray, asked: Asked, query: int) -> np.ndarray:
        """Of items' joined embeddings with the query's, or without those of vectors and codes; each by
        itself: so equal ones are quite equal."""
        if self._embedded:
            items, wanted = gather(self._segments, rows), asked.embeddings[query]
        else:
            items, wanted = self._quantizer.units(codes), asked.vectors[query]
        return np.asarray(np.einsum("nd,d->n", items, wanted.astype(np.float32)))

    def _of(self, want: int) -> list[Part]:
        """The parts with only the items of the wanted modality."""
        if want not in self._wanted:
            self._wanted[want] = [
                part.restricted(segment.modality == want)
                for part, segment in zip(self._parts, self._segments, strict=True)
            ]
        return self._wanted[want]


def both_rankings(
    engine: Engine, searched: Search, embeddings: np.ndarray | None, k: int, *, by_codes: bool
) -> tuple[Hits, Hits]:
    """What was found re-ranked, and ranked plainly: by codes alone, or by their log-probability and then as
    the other one, so both are the same where no code was searched."""
    asked = engine.compared(searched, embeddings)
    reranked = engine.rank(searched, asked, k, plain=False)
    if by_codes:
        alone = asked.codes_alone() or engine.compared(searched, None)
        return reranked, engine.rank(searched, alone, k, plain=False)
    if all(mode == "scan" for mode in searched.modes):
        return reranked, reranked
    return reranked, engine.rank(searched, asked, k, plain=True)


def _items(parts: Sequence[Part]) -> int:
    """How many rows may be found."""
    return sum(int(part.under(*np.array(part.run()))) for part in parts)


def _all(found: Sequence[Candidates | None]) -> list[Candidates]:
    return [candidates for candidates in found if candidates is not None]
