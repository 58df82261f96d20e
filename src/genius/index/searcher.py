"""Search over the arrays of all segments as one: from query vectors to the rows of the catalogue.

One decode serves two rankings. The plain one takes the beams by their summed log-probability, and the items
of a bucket by their embedding; the re-ranked one takes all items under all beams by the likeness of joined
embeddings, blended with the nearness of their codes as the model says (search/blend.py). Of equal items the
one that was added first comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from genius.decode.decoding import Decoder
from genius.index.segments import Segment, gather
from genius.quantize.quantizer import Quantizer
from genius.search.beam import Beams, Filter, beam_search
from genius.search.blend import blended_items, blended_queries
from genius.search.trie import Trie

AT_ONCE = 1 << 14
"""How many embeddings are looked at at a time."""
ANY = -1
"""Stands for every modality, and for every first code."""


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
    joined: np.ndarray
    want: np.ndarray
    first: np.ndarray

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, some: np.ndarray) -> Asked:
        return Asked(self.vectors[some], self.joined[some], self.want[some], self.first[some])


@dataclass(frozen=True, eq=False)
class Candidates:
    """The items under the beams of one query, in no order.

    Attributes:
        rows: their rows in the catalogue.
        codes: their codes [n, levels].
        gains: the log-probability of each code [n, levels].
        beams: the rank of the beam that each is under.
        cosines: of their joined embeddings with the query's.
        scores: by which they are re-ranked.
        below: how many items share the beginning of each one's code, up to each level [n, levels].
    """

    rows: np.ndarray
    codes: np.ndarray
    gains: np.ndarray
    beams: np.ndarray
    cosines: np.ndarray
    scores: np.ndarray
    below: np.ndarray

    def plain(self, k: int) -> np.ndarray:
        """The k best by log-probability, as places in the arrays."""
        return np.lexsort((self.rows, -self.cosines, self.beams))[:k]

    def reranked(self, k: int) -> np.ndarray:
        """The k best by re-ranking, as places in the arrays."""
        return np.lexsort((self.rows, -self.scores))[:k]


class Searcher:
    """The items of some segments, but for removed rows, under one tree of codes.

    Args:
        decoder: scores codes.
        quantizer: tells where codes are.
        weight: how much joined embeddings count in re-ranking.
        segments: where codes and embeddings are.
        removed: rows of the catalogue that no longer stand for an item, sorted.
    """

    def __init__(
        self,
        decoder: Decoder,
        quantizer: Quantizer,
        weight: float,
        segments: Sequence[Segment],
        removed: np.ndarray,
    ) -> None:
        self._decoder, self._quantizer, self._weight = decoder, quantizer, weight
        self._segments, self._told = segments, quantizer.first == "given"
        rows = np.concatenate([segment.rows for segment in segments]).astype(np.int64)
        live = np.flatnonzero(~np.isin(rows, removed)) if len(removed) else np.arange(len(rows))
        self._rows = rows[live]
        self._numbers = live  # where each item is in the segments, one after another
        self._modality = np.concatenate([segment.modality for segment in segments])[live]
        codes = np.concatenate([segment.codes for segment in segments])[live]
        self._trie = Trie.build(codes) if len(codes) else None

    def __len__(self) -> int:
        return len(self._rows)

    def search(self, asked: Asked, k: int, beams: int) -> list[Candidates]:
        """For each query the items under its beams: at least k, or all that there are of what it wants.

        Where `beams` beams lead to fewer, that query is searched again with twice as many. As each of them
        leads to an item, k are enough; unless the first code that was asked for does not stand for all items
        of the modality: then it is dropped, and beams are only led by what is below them.
        """
        if self._told:
            asked = replace(asked, first=asked.want)
        found: list[Candidates | None] = [None] * len(asked)
        for want in np.unique(asked.want):
            mine = np.flatnonzero(asked.want == want)
            allowed = self._allowed(int(want))
            total = self._count(int(want))
            self._widen(asked, mine, allowed, min(k, total), beams, found)
        return [candidates for candidates in found if candidates is not None]

    def _widen(
        self,
        asked: Asked,
        mine: np.ndarray,
        allowed: np.ndarray | None,
        enough: int,
        beams: int,
        found: list[Candidates | None],
    ) -> None:
        steered = bool((asked.first[mine] != ANY).any())
        while len(mine):
            some = asked[mine]
            searched = self._beams(some, allowed, beams, steered) if enough else None
            here = [self._candidates(searched, some, n, allowed) for n in range(len(mine))]
            for query, candidates in zip(mine, here, strict=True):
                found[query] = candidates
            mine = mine[[len(candidates.rows) < enough for candidates in here]]
            if beams >= enough:
                if self._told or not steered:
                    return  # every beam led to an item
                steered = False
            else:
                beams = min(2 * beams, enough)

    def _beams(self, asked: Asked, allowed: np.ndarray | None, beams: int, steered: bool) -> Beams:
        assert self._trie is not None
        return beam_search(
            self._decoder,
            self._trie,
            asked.vectors,
            min(beams, self._trie.counts[-1]),
            first=asked.first if steered else None,
            keep=None if allowed is None else self._leads_to(allowed),
        )

    def _candidates(
        self, searched: Beams | None, asked: Asked, query: int, allowed: np.ndarray | None
    ) -> Candidates:
        if searched is None or self._trie is None:
            return _none(len(self._decoder.sizes))
        trie, ranks = self._trie, np.flatnonzero(searched.nodes[query] >= 0)
        nodes = searched.nodes[query, ranks]
        positions, items = trie.items(searched.depth, nodes)
        if allowed is not None:
            positions, items = positions[allowed[items]], items[allowed[items]]
        codes, gains = searched.codes[query, ranks], searched.gains[query, ranks]
        cosines = self._cosines(items, asked.joined[query])
        scores = np.float32(self._weight) * cosines + self._nearness(codes, asked.vectors[query])[positions]
        below = self._below(nodes)[positions]
        rows = self._rows[items]
        return Candidates(rows, codes[positions], gains[positions], positions, cosines, scores, below)

    def _cosines(self, items: np.ndarray, joined: np.ndarray) -> np.ndarray:
        """Of items' joined embeddings with the query's, read a part at a time: a bucket may be large."""
        found = np.empty(len(items), np.float32)
        for start in range(0, len(items), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            found[part] = _products(gather(self._segments, self._numbers[items[part]]), joined)
        return found

    def _nearness(self, codes: np.ndarray, vector: np.ndarray) -> np.ndarray:
        """What codes add to the score of the items that have them: the blend without embeddings."""
        items = blended_items(np.zeros((len(codes), 0)), self._quantizer.reconstruct(codes))
        return _products(items, blended_queries(np.zeros((1, 0)), vector[None], self._weight)[0])

    def _below(self, leaves: np.ndarray) -> np.ndarray:
        """How many items are below each node on the way to these leaves: int64 [leaves, levels]."""
        assert self._trie is not None
        trie = self._trie
        rows = trie.rows(trie.levels, leaves)[0]
        counts = [
            starts[place + 1] - starts[place]
            for starts in trie.starts[1:]
            for place in [np.searchsorted(starts, rows, side="right") - 1]
        ]
        return np.stack(counts, axis=1).astype(np.int64)

    # --- the wanted modality

    def _count(self, want: int) -> int:
        return len(self._rows) if want == ANY else int(self._counts[want])

    @cached_property
    def _counts(self) -> np.ndarray:
        return np.bincount(self._modality, minlength=256)

    def _allowed(self, want: int) -> np.ndarray | None:
        """Which items may be found; None where the first code sees to it."""
        return None if want == ANY or self._told else self._modality == want

    def _leads_to(self, allowed: np.ndarray) -> Filter:
        """Keeps the nodes that have an allowed item below them."""
        assert self._trie is not None
        trie = self._trie
        before = np.concatenate([[0], np.cumsum(allowed[trie.order])])

        def keep(depth: int, nodes: np.ndarray) -> np.ndarray:
            starts, ends = trie.rows(depth, nodes)
            return np.asarray(before[ends] > before[starts])

        return keep


def _products(rows: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Each row by itself, so that equal rows are equal to the last bit, whatever stands beside them."""
    return np.asarray(np.einsum("nd,d->n", rows, query.astype(np.float32)))


def _none(levels: int) -> Candidates:
    numbers, codes = np.zeros(0, np.int64), np.zeros((0, levels), np.int64)
    scores, gains = np.zeros(0, np.float32), np.zeros((0, levels), np.float32)
    return Candidates(numbers, codes, gains, numbers, scores, scores, codes)
