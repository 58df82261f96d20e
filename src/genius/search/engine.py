"""The engine: from query vectors to items, in the mode that is asked for.

mode     searches                                                   finds
`paper`  all levels, as published                                   the items of the best codes
`exact`  until the different codes below are no more than beams     the same items, often levels earlier
`safe`   also until at most 2,000 items are below                   those and more
`fast`   also until at most 64,000 items are below                  those and more still
`scan`   nothing                                                    all items, or all of the first code
`auto`   as `scan` where that is quicker than `fast`, else `fast`   whichever; `Hits.modes` says which

Items come back by the likeness of their embeddings to the query's (all of them below the beams are looked
at), or plainly by the log-probability of their codes, and then by likeness. Whoever asks for k gets k if
there are so many: where the beams lead to fewer, twice as many are followed, and in the end all is scanned.

    engine = Engine([Part(packed, alive, coarse, exact, scale, numbers)], decoder)
    hits = engine.search(vectors, joined, first=first, k=10, beams=50, mode="fast")

`vectors` [queries, width] are decoded, `joined` [queries, width] are compared with items, `first` [queries]
is the wanted first code or -1. What comes back is [queries, k], best first; see `Hits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from genius.decode.decoder import Decoder
from genius.errors import InputError
from genius.search.asked import Asked, halves
from genius.search.beam import Found, check, gathered, walk, whole
from genius.search.costs import Costs
from genius.search.hits import MODES, Hits, Mode, Search
from genius.search.rerank import Ranked, blank, numbers, offsets, rank
from genius.search.segment_view import Part, Prefixes
from tests.oracles.beam import BEAMS

LIMITS: dict[Mode, int | None] = {"paper": None, "exact": 0, "safe": 2_000, "fast": 64_000}
"""With how many items below its beams a search ends; without a number, only with the last level."""

WIDEST = 2048
"""How many beams are followed at most in order to find as many items as are asked for."""


class Engine:
    """Parts that are searched as one pool.

    Args:
        parts: packed codes, with masks and embeddings.
        decoder: scores codes.
        codebooks: the vectors of each level, [codes, width]: to compare items by their codes.
        weight: how much embeddings count where items are compared by both, from 0 to 1.
        costs: what `auto` goes by; `costs_of` finds them on this machine.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        decoder: Decoder,
        codebooks: Sequence[np.ndarray] | None = None,
        weight: float = 1.0,
        costs: Costs | None = None,
    ) -> None:
        if not parts:
            raise InputError("a search needs at least one part to search in")
        if not 0 <= weight <= 1:
            raise InputError(f"the weight of embeddings must be from 0 to 1, not {weight}")
        self.parts, self.decoder, self.codebooks, self.weight = list(parts), decoder, codebooks, weight
        self.costs = Costs() if costs is None else costs

    def __len__(self) -> int:
        """How many items may be found."""
        return sum(int(part.under(*np.array(part.run()))) for part in self.parts)

    def restricted(self, allowed: Sequence[np.ndarray]) -> Engine:
        """The same, where only rows may be found that a mask for each part, bool [n], allows too."""
        if self.weight < 1:
            self._halve()  # once, and not for each filter
        parts = [part.restricted(mask) for part, mask in zip(self.parts, allowed, strict=True)]
        return Engine(parts, self.decoder, self.codebooks, self.weight, self.costs)

    def search(
        self,
        vectors: np.ndarray,
        joined: np.ndarray | None = None,
        *,
        first: np.ndarray | None = None,
        k: int = 10,
        beams: int = BEAMS,
        mode: Mode = "auto",
        plain: bool | None = None,
    ) -> Hits:
        """The k best items for each query.

        Args:
            vectors: what is decoded, [queries, width].
            joined: what items' embeddings are compared with, [queries, width]; without it, their codes are
                compared with `vectors`.
            first: the first code that each query wants [queries], -1 for any.
            k: how many.
            beams: how many prefixes are followed.
            mode: how far; see the module.
            plain: whether items are ordered by the log-probability of their codes first; by default only in
                the mode `paper`.
        """
        search = self.find(vectors, first=first, k=k, beams=beams, mode=mode)
        return self.rank(
            search, self.compared(search, joined), k, plain=mode == "paper" if plain is None else plain
        )

    def find(
        self,
        vectors: np.ndarray,
        *,
        first: np.ndarray | None = None,
        k: int = 1,
        beams: int = BEAMS,
        mode: Mode = "auto",
    ) -> Search:
        """What is below each query's beams: at least k items, or all that there are of its first code."""
        if mode not in MODES:
            raise InputError(f"unknown mode {mode!r}: expected one of {', '.join(MODES)}")
        if k < 1:
            raise InputError(f"k must be at least 1, not {k}")
        check(self.decoder, self.parts, vectors, beams, first)
        beams = min(beams, max(1, sum(map(len, self.parts))))  # there are no more codes than items
        scope = self._scope(len(vectors), first)
        modes = np.full(len(vectors), mode, object)
        if mode == "auto":
            modes = np.where(self.costs.prefer_scan(scope), "scan", "fast").astype(object)
        ended: list[Prefixes] = []
        depths = np.zeros(len(vectors), np.int64)
        lacking = np.flatnonzero(modes != "scan")
        limit = LIMITS["fast" if mode == "auto" else mode] if len(lacking) else None
        while len(lacking):
            wanted = None if first is None else first[lacking]
            found = walk(self.decoder, self.parts, vectors[lacking], beams, first=wanted, limit=limit)
            enough = _sums(found, found.below(self.parts)) >= np.minimum(k, scope[lacking])
            if not ended and len(lacking) == len(vectors) and enough.all():
                # as most searches end
                return Search(vectors, found, tuple(modes.tolist()))
            depths[lacking[enough]] = found.depths[enough]
            some = found.of(lacking)
            ended.append(some[np.flatnonzero(enough[found.queries])])
            lacking = lacking[~enough]
            if beams >= WIDEST:
                break
            beams = min(2 * beams, WIDEST)
        modes[lacking] = "scan"
        rest = modes == "scan"
        everything = whole(self.parts, len(vectors), first)
        some = everything.of(np.arange(len(vectors)))
        ended.append(some[np.flatnonzero(rest[everything.queries])])
        depths[rest] = everything.depths[rest]
        found = gathered(self.parts, ended, depths)
        return Search(vectors, found, tuple(modes.tolist()))

    def _scope(self, count: int, first: np.ndarray | None) -> np.ndarray:
        """How many items each of `count` queries may find, int64 [count]."""
        wanted = np.full(count, -1) if first is None else np.asarray(first, np.int64)
        scope = np.zeros(count, np.int64)
        for part in self.parts:
            for code in np.unique(wanted).tolist():
                run = part.first_run(code) if code >= 0 else part.run()
                scope[wanted == code] += part.under(*np.array(run))
        return scope

    def compared(self, search: Search, joined: np.ndarray | None) -> Asked:
        """What the items that were found are compared with: queries' embeddings, their codes, or both."""
        if joined is not None and len(joined) != len(search.vectors):
            raise InputError(
                f"{len(search.vectors)} queries need an embedding each, and there are {len(joined)}"
            )
        asked = Asked.blend(joined, search.vectors, self.codebooks, self.weight)
        if asked.share:
            self._halve()
        return asked

    def rank(self, search: Search, asked: Asked, k: int, *, plain: bool) -> Hits:
        """The k best of what was found: by likeness, or plainly by log-probability first."""
        if k < 1:
            raise InputError(f"k must be at least 1, not {k}")
        if not plain and asked.embeddings is None and asked.tables is None:
            raise InputError("to order items, queries need embeddings, or the engine needs the codebooks")
        found = search.found
        if plain:
            ranked = self._plainly(found, asked, k)
        else:
            ranked = rank(self.parts, found.bounds, found.starts, found.ends, asked, k)
        ranked = ranked.padded(min(k, sum(map(len, self.parts))))
        there = ranked.rows >= 0
        runs = ranked.runs[there]
        gains = np.full((*there.shape, found.gains.shape[1]), np.nan, np.float32)
        totals = np.full(there.shape, -np.inf, np.float32)
        gains[there], totals[there] = found.gains[runs], found.scores[runs]
        return Hits(
            ranked.rows,
            numbers(self.parts, ranked.rows),
            ranked.scores,
            totals,
            gains,
            found.depths,
            _sums(found, found.below(self.parts)),
            search.modes,
        )

    def codes(self, rows: np.ndarray) -> np.ndarray:
        """The codes of sorted rows [n], those of all parts numbered one after another: uint16 [n, levels]."""
        codes = np.empty((len(rows), len(self.decoder.sizes)), np.uint16)
        bounds = offsets(self.parts)
        for number, part in enumerate(self.parts):
            mine = (rows >= bounds[number]) & (rows < bounds[number + 1])
            codes[mine] = part.packed.codes(rows[mine] - bounds[number])
        return codes

    def _halve(self) -> None:
        """Work out the halves of parts that don't have them; whoever has many items keeps them."""
        if self.codebooks is not None:
            for number, part in enumerate(self.parts):
                if part.halves is None:
                    self.parts[number] = replace(part, halves=halves(part.packed, self.codebooks))

    def _plainly(self, found: Found, asked: Asked, k: int) -> Ranked:
        """Items by their prefix, the best first, and those of one prefix by likeness."""
        below, owners = found.below(self.parts), found.queries
        before = np.cumsum(below) - below
        before -= before[found.bounds[owners]]
        needed = np.flatnonzero(before < k)  # prefixes behind the k-th item are not opened
        ranked = rank(
            self.parts,
            np.arange(len(needed) + 1),
            found.starts[:, needed],
            found.ends[:, needed],
            asked,
            k,
            owners[needed],
        )
        groups, places = np.nonzero(ranked.rows >= 0)
        queries_of = owners[needed][groups]
        columns = np.arange(len(groups)) - np.searchsorted(queries_of, queries_of)
        kept = columns < k
        there, where = (groups[kept], places[kept]), (queries_of[kept], columns[kept])
        plain = blank(len(found), int(columns[kept].max(initial=-1)) + 1)
        plain.rows[where], plain.scores[where] = ranked.rows[there], ranked.scores[there]
        plain.runs[where] = needed[groups[kept]]
        return plain


def _sums(found: Found, values: np.ndarray) -> np.ndarray:
    """The sum of each query's values, int64 [queries]."""
    return np.bincount(found.queries, values, len(found)).astype(np.int64)
