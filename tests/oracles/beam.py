"""Beam search over the codes that exist: the best prefixes of each query, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from genius.decode.decoder import Decoder, DecodingState
from genius.errors import InputError, MismatchError
from genius.runtime import cores
from tests.oracles.trie import Trie

FLOATS = 1 << 22
"""How many scores a decoder gives at a time: 16 MB. Queries are searched in blocks that keep to it."""

BEAMS = 50
"""The usual width of a beam, in the paper too."""


@dataclass(frozen=True, eq=False)
class Beams:
    """What a beam search found, for each query best first; fewer than `beams` where there is no more.

    Attributes:
        scores: summed log-probabilities float32 [queries, beams], -inf where there is no beam.
        codes: the codes int64 [queries, beams, depth], -1 where there is no beam.
        alive: for each level the nodes int64 [queries, beams] that were in the beam after it, -1 for none.
        gains: the log-probability of each code float32 [queries, beams, depth], 0 where there is no beam.
    """

    scores: np.ndarray
    codes: np.ndarray
    alive: tuple[np.ndarray, ...]
    gains: np.ndarray

    @property
    def depth(self) -> int:
        """How many levels were searched."""
        return len(self.alive)

    @property
    def nodes(self) -> np.ndarray:
        """The nodes at that depth, int64 [queries, beams], -1 where there is no beam."""
        return self.alive[-1]

    def replaced(self, queries: np.ndarray, others: Beams) -> Beams:
        """These beams, but for some queries, by number, whose beams are `others`."""

        def put(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
            both = mine.copy()
            both[queries] = theirs
            return both

        alive = tuple(put(mine, theirs) for mine, theirs in zip(self.alive, others.alive, strict=True))
        scores, codes = put(self.scores, others.scores), put(self.codes, others.codes)
        return Beams(scores, codes, alive, put(self.gains, others.gains))


def beam_search(
    decoder: Decoder,
    trie: Trie,
    vectors: np.ndarray,
    beams: int,
    *,
    depth: int | None = None,
    first: np.ndarray | None = None,
) -> Beams:
    """The `beams` codes of `trie` with the greatest summed log-probability for each query, by beam search.

    After each level the best `beams` prefixes of a query go on; of equal ones the smaller codes come first. A
    code whose score is -inf is never taken. A query's result does not depend on the others (but a decoder's
    matrix products may round differently in other company).

    Args:
        decoder: scores the next code; its log-probabilities are taken as they are, over all codes of a level
            and not only those that exist.
        trie: the codes that exist.
        vectors: a vector for each query, [queries, width].
        beams: how many prefixes go on.
        depth: after which level to stop; without it, the last.
        first: the first code that each query wants [queries], -1 for any. A code that is given adds nothing
            to the score: the first level's score is then 0. If all are given, the decoder begins behind them.
    """
    depth = trie.levels if depth is None else depth
    _check(decoder, trie, vectors, beams, depth, first)
    shape = (len(vectors), beams)
    scores = np.full(shape, -np.inf, np.float32)
    alive = np.full((depth, *shape), -1, np.int64)
    steps = np.zeros((*shape, depth), np.float32)
    block = max(1, FLOATS // (beams * max(decoder.sizes[:depth])))

    def search(start: int) -> None:
        some = slice(start, start + block)
        wanted = None if first is None else first[some]
        _search(decoder, trie, vectors[some], wanted, scores[some], alive[:, some], steps[some])

    with ThreadPoolExecutor(cores()) as threads:
        list(threads.map(search, range(0, len(vectors), block)))
    codes = np.full((*shape, depth), -1, np.int64)
    found = alive[-1] >= 0
    codes[found] = trie.prefixes(depth, alive[-1][found])
    return Beams(scores, codes, tuple(alive), steps)


def _search(
    decoder: Decoder,
    trie: Trie,
    vectors: np.ndarray,
    first: np.ndarray | None,
    scores: np.ndarray,
    alive: np.ndarray,
    steps: np.ndarray,
) -> None:
    """Search one block of queries and write what is found into `scores`, `alive` and `steps`.

    Living beams are rows, and what may follow them are candidates, both in the order of their queries.
    """
    known = first is not None and bool((first >= 0).all())
    decoding: DecodingState | None = None if known else decoder.begin(vectors)
    queries = np.arange(len(vectors))
    ranks = nodes = np.zeros(len(vectors), np.int64)
    totals = np.zeros(len(vectors), np.float32)
    path = np.zeros((len(vectors), 0), np.float32)  # the log-probabilities that led to each row
    for level, after in enumerate(alive):
        rows, nodes, codes = trie.children(level, nodes)
        gains = np.zeros(len(rows), np.float32) if decoding is None else decoding.scores()[rows, codes]
        if level == 0 and first is not None:
            wanted = first[rows]
            gains = np.where(wanted == codes, np.float32(0), np.where(wanted < 0, gains, -np.inf))
        totals = totals[rows] + gains
        best, ranks = _best(queries[rows], totals, nodes, scores.shape)
        rows, nodes, codes, totals = rows[best], nodes[best], codes[best], totals[best]
        path = np.column_stack([path[rows], gains[best]])
        queries = queries[rows]
        after[queries, ranks] = nodes
        if not len(rows):
            return
        if level + 1 == len(alive):
            break
        if decoding is None:  # only now, with those queries whose first code exists
            decoding = decoder.begin(vectors[rows], codes)
        else:
            decoding.advance(rows, codes)
    scores[queries, ranks] = totals
    steps[queries, ranks] = path


def _best(
    queries: np.ndarray, totals: np.ndarray, nodes: np.ndarray, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """The candidates that go on, in the order of their queries and best first, and the rank of each.

    Sorting all candidates would take longer than scoring them. So the least score that can go on is found for
    each query by partition, and only the candidates that reach it are sorted.
    """
    beams = shape[1]
    places = _ranks(queries)
    width = int(places.max(initial=-1)) + 1
    reach = totals > -np.inf
    if width > beams:
        table = np.full((shape[0], width), -np.inf, np.float32)
        table[queries, places] = totals
        table.partition(width - beams, axis=1)
        reach &= totals >= table[queries, width - beams]
    best = np.flatnonzero(reach)
    best = best[np.lexsort((nodes[best], -totals[best], queries[best]))]
    ranks = _ranks(queries[best])
    return best[ranks < beams], ranks[ranks < beams]


def _ranks(groups: np.ndarray) -> np.ndarray:
    """The place of each element in its group; groups are numbers in rising order."""
    return np.arange(len(groups)) - np.searchsorted(groups, groups)


def ranked_items(trie: Trie, beams: Beams, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The first k items of each query: the beams best first, and the items below a beam by number.

    Returns scores float32 and item numbers int64, both [queries, k], filled up with -inf and -1.
    """
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}")
    scores = np.full((len(beams.nodes), k), -np.inf, np.float32)
    items = np.full(scores.shape, -1, np.int64)
    found = beams.nodes >= 0
    starts, ends = trie.rows(beams.depth, np.where(found, beams.nodes, 0))
    below = np.where(found, ends - starts, 0)
    needed = found & (np.cumsum(below, axis=1) - below < k)  # beams behind the k-th item are not opened
    queries, ranks = np.nonzero(needed)
    positions, numbers = trie.items(beams.depth, beams.nodes[needed])
    order = np.lexsort((numbers, positions))
    places = _ranks(queries[positions])
    shown = places < k
    where = queries[positions][shown], places[shown]
    items[where] = numbers[order][shown]
    scores[where] = beams.scores[queries, ranks][positions][shown]
    return scores, items


def items_under(trie: Trie, beams: Beams) -> np.ndarray:
    """How many items are under each query's beams, int64 [queries]."""
    starts, ends = trie.rows(beams.depth, np.maximum(beams.nodes, 0))
    return np.asarray(np.where(beams.nodes >= 0, ends - starts, 0).sum(axis=1))


def prefix_survival(trie: Trie, beams: Beams, positives: Sequence[np.ndarray]) -> np.ndarray:
    """The share of queries for which the beginning of some positive's code is in the beam, after each level.

    `positives` are the numbers of the items that answer each query; a query without any counts as lost.
    """
    if len(positives) != len(beams.nodes) or not len(positives):
        raise InputError(f"{len(beams.nodes)} queries need positives each, and there are {len(positives)}")
    queries = np.repeat(np.arange(len(positives)), [len(items) for items in positives])
    items = np.concatenate([np.asarray(items, np.int64) for items in positives])
    survival = np.empty(beams.depth)
    for level, nodes in enumerate(beams.alive):
        count = trie.counts[level + 1]
        owners, ranks = np.nonzero(nodes >= 0)
        alive = owners * count + nodes[owners, ranks]  # a query and a node as one number
        hits = np.isin(queries * count + trie.above(level + 1, items), alive)
        survival[level] = len(np.unique(queries[hits])) / len(positives)
    return survival


def _check(
    decoder: Decoder, trie: Trie, vectors: np.ndarray, beams: int, depth: int, first: np.ndarray | None
) -> None:
    if beams < 1:
        raise InputError(f"a search needs at least one beam, not {beams}")
    if not 1 <= depth <= trie.levels:
        raise InputError(f"depth must be from 1 to {trie.levels}, not {depth}")
    if vectors.ndim != 2:
        raise InputError(f"queries must be vectors [queries, width], not of the shape {vectors.shape}")
    if not np.isfinite(vectors).all():
        raise InputError("queries must be finite vectors, and some hold NaN or infinity")
    if len(decoder.sizes) != trie.levels or any(np.greater(trie.sizes, decoder.sizes)):
        raise MismatchError(
            f"the decoder knows levels of {list(decoder.sizes)} codes, and the items' codes need at least "
            f"{list(trie.sizes)}: they were made by different models"
        )
    if first is not None and (first.shape != (len(vectors),) or first.min(initial=0) < -1):
        raise InputError("`first` must hold for each query a first code, or -1 for any")
