"""Beam search over parts, which goes as deep as it has to: one function, one limit.

It finds what `beam.beam_search` finds over a tree of all parts' items, and may stop earlier: when few enough
items are left below a query's beams, they are all taken, and nothing is lost that going on would have kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genius.decode.decoder import Decoder, DecodingState
from genius.errors import InputError, MismatchError
from genius.search import kernels
from genius.search.segment_view import Part, Prefixes, expand
from tests.oracles.beam import FLOATS


@dataclass(frozen=True, eq=False)
class Found:
    """The prefixes that a search ended with, by query and best first; of equal ones the smaller codes.

    Attributes:
        bounds: which are whose: query i has those from bounds[i] up to bounds[i + 1], int64 [queries + 1].
        scores: summed log-probabilities, float32 [prefixes].
        gains: what each level added, float32 [prefixes, levels]; NaN below the depth.
        starts, ends: the run of rows below each in each part, int64 [parts, prefixes].
        depths: how many codes the prefixes of each query have, int64 [queries]; 0 where nothing was found.
    """

    bounds: np.ndarray
    scores: np.ndarray
    gains: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    depths: np.ndarray

    def __len__(self) -> int:
        """How many queries there are."""
        return len(self.depths)

    @property
    def queries(self) -> np.ndarray:
        """Whose each prefix is, int64 [prefixes]."""
        return np.repeat(np.arange(len(self)), np.diff(self.bounds))

    def below(self, parts: Sequence[Part]) -> np.ndarray:
        """How many items are below each prefix, int64 [prefixes]."""
        items = np.zeros(len(self.scores), np.int64)
        for part, starts, ends in zip(parts, self.starts, self.ends, strict=True):
            items += part.under(starts, ends)
        return items

    def of(self, numbers: np.ndarray) -> Prefixes:
        """The prefixes, as those of queries with other numbers [queries]."""
        return Prefixes(numbers[self.queries], self.starts, self.ends, self.scores, self.gains)


def walk(
    decoder: Decoder,
    parts: Sequence[Part],
    vectors: np.ndarray,
    beams: int,
    *,
    first: np.ndarray | None = None,
    limit: int | None = None,
) -> Found:
    """The best `beams` prefixes of each query, by beam search over the codes that exist in any of the parts.

    Args:
        decoder: scores the next code.
        parts: what is searched, as one pool.
        vectors: a vector for each query, [queries, width].
        beams: how many prefixes go on after each level; of equal ones the smaller codes.
        first: the first code that each query wants [queries], -1 for any. A code that is given adds nothing
            to the score.
        limit: without it, all levels are searched. With it, a query is finished as soon as at most so many
            items are below its beams, or so few different codes that no beam could be lost any more (with 0,
            only then); not before a semantic code was chosen.
    """
    check(decoder, parts, vectors, beams, first)
    wanted = np.full(len(vectors), -1) if first is None else np.asarray(first, np.int64)
    block = max(1, FLOATS // (beams * max(decoder.sizes)))
    ended: list[Prefixes] = []
    depths = np.zeros(len(vectors), np.int64)
    for known in (True, False):
        chosen = np.flatnonzero((wanted >= 0) == known)
        for start in range(0, len(chosen), block):
            some = chosen[start : start + block]
            walker = _Walker(decoder, parts, beams, limit, some, depths, ended)
            walker.run(vectors[some], wanted[some] if known else None)
    return gathered(parts, ended, depths)


def whole(parts: Sequence[Part], count: int, first: np.ndarray | None = None) -> Found:
    """Everything that each of `count` queries may find, without a search: all items, or its first code's."""
    wanted = np.full(count, -1) if first is None else np.asarray(first, np.int64)
    roots = _roots(parts, wanted, np.arange(count))
    return gathered(parts, [roots], np.where(wanted >= 0, 1, 0))


def gathered(parts: Sequence[Part], ended: Sequence[Prefixes], depths: np.ndarray) -> Found:
    """Prefixes of finished queries, each query's together and best first."""
    levels = len(parts[0].packed.sizes)
    empty = np.empty((len(parts), 0), np.int64)
    none = Prefixes(
        np.empty(0, np.int64), empty, empty, np.empty(0, np.float32), np.empty((0, levels), np.float32)
    )
    every = [none, *ended]
    queries, totals = (
        np.concatenate([getattr(some, name) for some in every]) for name in ("queries", "totals")
    )
    order = np.lexsort((np.arange(len(queries)), -totals, queries))
    return Found(
        np.searchsorted(queries[order], np.arange(len(depths) + 1)),
        totals[order],
        np.concatenate([some.gains for some in every])[order],
        np.concatenate([some.starts for some in every], axis=1)[:, order],
        np.concatenate([some.ends for some in every], axis=1)[:, order],
        depths,
    )


def _roots(parts: Sequence[Part], wanted: np.ndarray, queries: np.ndarray) -> Prefixes:
    """One prefix for each query: nothing yet, or the first code it wants. Where nothing is allowed, none."""
    levels = len(parts[0].packed.sizes)
    runs = np.zeros((2, len(parts), len(queries)), np.int64)
    for number, part in enumerate(parts):
        for code in np.unique(wanted):
            run = part.first_run(int(code)) if code >= 0 else part.run()
            runs[:, number, wanted == code] = np.array(run)[:, None]
    gains = np.full((len(queries), levels), np.nan, np.float32)
    gains[wanted >= 0, 0] = 0
    roots = Prefixes(queries, runs[0], runs[1], np.zeros(len(queries), np.float32), gains)
    return roots[(runs[1] > runs[0]).any(axis=0)]


@dataclass
class _Walker:
    """One block of queries on their way; what is finished goes into `depths` and `ended`."""

    decoder: Decoder
    parts: Sequence[Part]
    beams: int
    limit: int | None
    numbers: np.ndarray
    depths: np.ndarray
    ended: list[Prefixes]

    def run(self, vectors: np.ndarray, first: np.ndarray | None) -> None:
        """Search from the root, or from behind the first codes where all are given."""
        wanted = np.full(len(vectors), -1) if first is None else first
        prefixes = _roots(self.parts, wanted, np.arange(len(vectors)))
        level = 0 if first is None else 1
        if level:
            prefixes = self._finish(prefixes, level)[0]
        if not len(prefixes):
            return
        vectors = vectors[prefixes.queries]
        # Without a first code to begin with, a decoder need not know that one could be given.
        decoding: DecodingState = (
            self.decoder.begin(vectors)
            if first is None
            else self.decoder.begin(vectors, first[prefixes.queries])
        )
        for depth in range(level + 1, len(self.decoder.sizes) + 1):
            prefixes, parents, codes = expand(
                self.parts, depth - 1, prefixes, decoding.scores(), len(wanted), self.beams
            )
            prefixes, going = self._finish(prefixes, depth)
            if not len(prefixes):
                return
            decoding.advance(parents[going], codes[going])

    def _finish(self, prefixes: Prefixes, depth: int) -> tuple[Prefixes, np.ndarray]:
        """Put away the queries that are finished; returns the other prefixes, and which those are."""
        done = np.zeros(len(self.numbers), bool)
        if depth == len(self.decoder.sizes):
            done[:] = True
        elif self.limit is not None and depth > self.parts[0].packed.layout.semantic:
            done = self._few(prefixes, self.limit)
        over = done[prefixes.queries]
        if over.any():
            some = prefixes[over]
            self.depths[self.numbers[some.queries]] = depth
            self.ended.append(
                Prefixes(self.numbers[some.queries], some.starts, some.ends, some.totals, some.gains)
            )
        going = np.flatnonzero(~over)
        return prefixes[going], going

    def _few(self, prefixes: Prefixes, limit: int) -> np.ndarray:
        """Which queries have few enough items below them, or no more codes than beams: bool [queries]."""
        items = sum(
            part.under(starts, ends)
            for part, starts, ends in zip(self.parts, prefixes.starts, prefixes.ends, strict=True)
        )
        few = np.bincount(prefixes.queries, items, len(self.numbers)) <= max(limit, self.beams)
        rest = ~few[prefixes.queries]
        if rest.any():
            few |= self._codes(prefixes[rest]) <= self.beams
        return np.asarray(few)

    def _codes(self, prefixes: Prefixes) -> np.ndarray:
        """How many different codes are below each query's prefixes, counted until they are too many."""
        count, most = len(self.numbers), self.beams + 1
        bounds = np.searchsorted(prefixes.queries, np.arange(count + 1))
        seen, total = [], np.zeros(count, np.int64)
        for number, part in enumerate(self.parts):
            heads, owners = np.empty((count, most), np.int64), np.empty((count, most), np.int64)
            found = kernels.buckets(
                *part.words,
                part.counts,
                prefixes.starts[number],
                prefixes.ends[number],
                bounds,
                heads,
                owners,
            )
            there = np.arange(most) < found[:, None]
            codes = part.packed.codes(heads[there])
            seen.append(np.column_stack([owners[there], codes]))
            total = np.maximum(total, found)
        if len(self.parts) == 1:
            return np.where(np.diff(bounds) > 0, total, most)
        different = np.unique(np.concatenate(seen), axis=0)
        counted = np.bincount(prefixes.queries[different[:, 0]], minlength=count)
        return np.where(np.diff(bounds) > 0, np.maximum(counted, total), most)


def check(
    decoder: Decoder, parts: Sequence[Part], vectors: np.ndarray, beams: int, first: np.ndarray | None
) -> None:
    """Refuse what can't be searched."""
    if not parts:
        raise InputError("a search needs at least one part to search in")
    if beams < 1:
        raise InputError(f"a search needs at least one beam, not {beams}")
    if vectors.ndim != 2:
        raise InputError(f"queries must be vectors [queries, width], not of the shape {vectors.shape}")
    if not np.isfinite(vectors).all():
        raise InputError("queries must be finite vectors, and some hold NaN or infinity")
    if any(part.packed.layout != parts[0].packed.layout for part in parts):
        raise MismatchError("parts of one search need codes of the same levels, and these differ")
    if tuple(decoder.sizes) != parts[0].packed.sizes:
        raise MismatchError(
            f"the decoder knows levels of {list(decoder.sizes)} codes, and the items' codes have "
            f"{list(parts[0].packed.sizes)}: they were made by different models"
        )
    if first is not None and (first.shape != (len(vectors),) or first.min(initial=0) < -1):
        raise InputError("`first` must hold for each query a first code, or -1 for any")
