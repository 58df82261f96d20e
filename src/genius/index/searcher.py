"""From query vectors to the items of segments, in both rankings.

One beam search serves two rankings: the plain one, by log-probability or by code score, and the re-ranked
one, by embeddings and codes together (`genius.search.scoring`). Ties are broken by item key: the item added
first comes first.

The segments may be those of an index, mapped from its files, or made in memory: evaluations search by the
same class.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from genius.decode.decoder import Decoder
from genius.index.query import ANY
from genius.index.query_batch import QueryBatch
from genius.index.segments import Segment, gather_codes, gather_embeddings
from genius.quantize.code_space import CodeSpace
from genius.quantize.quantizer import unit_length
from genius.quantize.search_settings import SearchSettings
from genius.search.costs import Costs, costs_of
from genius.search.engine import Candidates, Engine, EngineResult, Mode
from genius.search.explain import level_log_probs, prefix_counts
from genius.search.scoring import Scorer, code_score
from genius.search.segment_view import SegmentView

STEERED: tuple[Mode, ...] = ("paper", "exact", "safe", "fast")
"""Modes in which a learned modality code leads the beams; the others look at all items of the wanted
modality."""


@dataclass(frozen=True, eq=False)
class RankedItems:
    """The best items for one query in both rankings, each once.

    Attributes:
        item_keys: their keys in the catalogue [n].
        codes: their codes [n, levels].
        scores: by which they are re-ranked [n]; of items that only the plain ranking has, its own score.
        plain_scores: by which they are ranked plainly [n]: the log-probability of the codes that were
            searched, or the code score.
        plain, reranked: the two rankings, as places in these arrays, best first.
        mode: in which mode they were searched.
        num_candidates: how many items were below the beams.
    """

    item_keys: np.ndarray
    codes: np.ndarray
    scores: np.ndarray
    plain_scores: np.ndarray
    plain: np.ndarray
    reranked: np.ndarray
    mode: Mode
    num_candidates: int
    _rows: np.ndarray
    _searched_log_probs: np.ndarray
    _engine: Engine
    _searcher: Searcher
    query: QueryBatch
    _modality_code: np.ndarray

    @cached_property
    def cosines(self) -> np.ndarray:
        """Of their embeddings with the query's [n]; of vectors and codes where no embeddings are kept."""
        return self._searcher.cosines(self._rows, self.codes, self.query)

    @cached_property
    def similarities(self) -> np.ndarray:
        """What they score by embeddings and codes together [n], whatever they are ranked by, and without
        what the query takes away."""
        return self._searcher.scored(self._rows, self.codes).scores(self.query.asks_for)

    @cached_property
    def level_log_probs(self) -> np.ndarray:
        """The log-probability of each code [n, levels]; levels that were not searched are decoded now."""
        if not np.isnan(self._searched_log_probs).any():
            return self._searched_log_probs
        query_ids = np.zeros(len(self.item_keys), np.int64)
        return level_log_probs(
            self._engine.decoder, self.query.vectors, query_ids, self.codes, self._modality_code
        )

    @cached_property
    def prefix_counts(self) -> np.ndarray:
        """How many items share each one's prefix, up to each level [n, levels]."""
        return prefix_counts(self._searcher.views, self.codes)


@dataclass(frozen=True, eq=False)
class RankedItem:
    """One of the ranked items, and what it is ranked by."""

    items: RankedItems
    place: int
    score: float

    @property
    def item_key(self) -> int:
        """Its key in the catalogue."""
        return int(self.items.item_keys[self.place])

    @property
    def code(self) -> tuple[int, ...]:
        """Its code."""
        return tuple(self.items.codes[self.place].tolist())

    @property
    def cosine(self) -> float:
        """Of its embedding with the query's."""
        return float(self.items.cosines[self.place])

    @property
    def path(self) -> RankedPath:
        """The way to it."""
        return RankedPath(self.items, self.place)


@dataclass(frozen=True, eq=False)
class RankedPath:
    """The path to one of the ranked items, worked out for all of them when one is first read
    (`hits.CodePath`)."""

    items: RankedItems
    place: int

    @property
    def log_probabilities(self) -> tuple[float, ...]:
        """Of each level's code, given those before."""
        return tuple(self.items.level_log_probs[self.place].tolist())

    @property
    def prefix_counts(self) -> tuple[int, ...]:
        """How many items share the prefix of the code, up to each level."""
        return tuple(self.items.prefix_counts[self.place].tolist())


def merged(results: Sequence[RankedItems], *, plain: bool) -> list[RankedItem]:
    """One of the two rankings of several results, of different items, as one; best first.

    Of equal scores, those of the first result come first.
    """
    ranked = []
    for items in results:
        places, scores = (items.plain, items.plain_scores) if plain else (items.reranked, items.scores)
        ranked += [RankedItem(items, int(place), float(scores[place])) for place in places]
    return sorted(ranked, key=lambda item: -item.score) if len(results) > 1 else ranked


@dataclass(frozen=True, eq=False)
class ScoredItems:
    """What items are scored by: embeddings [n, width], quantized vectors [n, vector width], or both."""

    embeddings: np.ndarray | None
    quantized: np.ndarray | None

    def scores(self, query: QueryBatch) -> np.ndarray:
        """The scores for one query, float32 [n]: `scoring`'s formula, each item by itself."""
        weight = float(query.embedding_weights[0])
        if self.quantized is None or self.embeddings is None:
            weight = 1.0 if self.quantized is None else 0.0
        scores: np.ndarray | float = 0.0
        if self.embeddings is not None and weight:
            products = np.einsum("nd,d->n", self.embeddings, query.embeddings[0].astype(np.float32))
            scores = scores + weight * products
        if self.quantized is not None and weight < 1:
            scores = scores + (1 - weight) * code_score(query.vectors[0], self.quantized)
        return np.asarray(scores, np.float32)


class Searcher:
    """The items of some segments, without removed ones.

    Args:
        decoder: scores codes where a search names no other.
        code_space: what codes are made of, such as a quantizer.
        segments: where codes and embeddings are.
        tombstones: item keys that no longer stand for an item, sorted.
        costs: what `auto` decides by; without them they are measured where that matters.
        settings: how codes are searched.
    """

    def __init__(
        self,
        decoder: Decoder,
        code_space: CodeSpace,
        segments: Sequence[Segment],
        tombstones: np.ndarray,
        costs: Costs | None = None,
        settings: SearchSettings | None = None,
    ) -> None:
        self._decoder, self._code_space, self._costs = decoder, code_space, costs
        self._settings = settings or SearchSettings()
        self._segments, self._modality_given = segments, code_space.modality_code == "given"
        self._has_embeddings = all(segment.embeddings.shape[1] for segment in segments)
        self.views = [segment.view(tombstones) for segment in segments]
        self._views_of: dict[int, list[SegmentView]] = {ANY: self.views}

    def __len__(self) -> int:
        return _count(self.views)

    def restricted(self, allowed: Sequence[np.ndarray]) -> Searcher:
        """The same, where only rows may be returned that a mask for each segment, bool [n], allows too."""
        other = copy.copy(self)
        other.views = [view.restricted(mask) for view, mask in zip(self.views, allowed, strict=True)]
        other._views_of = {ANY: other.views}
        return other

    def search(
        self,
        queries: QueryBatch,
        k: int,
        beams: int,
        mode: Mode = "auto",
        decoder: Decoder | None = None,
        *,
        by_codes: bool = False,
    ) -> list[RankedItems]:
        """For each query the k best items in both rankings, or all that exist of the wanted modality.

        Where `beams` beams cover fewer, more are followed, unless the settings say otherwise. A learned
        modality code that leads to fewer than k items is dropped. With `by_codes`, the plain ranking is by
        code score instead of log-probability.
        """
        task = _Task(decoder or self._decoder, k, beams, mode, by_codes)
        results: dict[int, RankedItems] = {}
        if self._modality_given:
            results |= self._search(self.views, queries, queries.want, np.arange(len(queries)), task)
        else:
            anything = np.full(len(queries), ANY)
            for want in np.unique(queries.want):
                places, views = np.flatnonzero(queries.want == want), self._of_modality(int(want))
                steered = queries.modality_code if mode in STEERED else anything
                results |= self._search(views, queries, steered, places, task)
                if mode in STEERED:
                    enough = min(k, _count(views))
                    lacking = [
                        place
                        for place in places
                        if steered[place] != ANY and results[int(place)].num_candidates < enough
                    ]
                    results |= self._search(views, queries, anything, np.array(lacking, np.int64), task)
        return [results[place] for place in range(len(queries))]

    def engine(self, decoder: Decoder | None = None, views: Sequence[SegmentView] | None = None) -> Engine:
        """The engine over these items, or over some of them."""
        return Engine(
            self.views if views is None else views,
            decoder or self._decoder,
            self._code_space.codebooks,
            costs=self._costs,
        )

    def cosines(self, rows: np.ndarray, codes: np.ndarray, query: QueryBatch) -> np.ndarray:
        """The cosines of rows with one query; each by itself, so that equal items get equal cosines."""
        if self._has_embeddings:
            items, wanted = gather_embeddings(self._segments, rows), query.embeddings[0]
        else:
            items, wanted = self._code_space.units(codes), unit_length(query.vectors)[0]
        return np.asarray(np.einsum("nd,d->n", items, wanted.astype(np.float32)))

    def scored(self, rows: np.ndarray, codes: np.ndarray) -> ScoredItems:
        """What rows are re-ranked by, to be compared with queries."""
        has_code_vectors = self._code_space.codebooks is not None
        return ScoredItems(
            gather_embeddings(self._segments, rows) if self._has_embeddings or not has_code_vectors else None,
            self._code_space.reconstruct(codes) if has_code_vectors else None,
        )

    def count(self, want: int = ANY) -> int:
        """How many items there are of a modality, by its number, or in all."""
        return sum(int(view.count_allowed(*np.array(run))) for view, run in self._runs(want))

    def sample(self, want: int, count: int, random: np.random.Generator) -> np.ndarray:
        """Sorted rows of at most `count` random items of a modality, or of any [n]; those of all segments are
        numbered one after another."""
        bounds, first = np.cumsum([0, *map(len, self.views)]), 0
        total = self.count(want)
        chosen = np.sort(random.choice(total, min(count, total), replace=False))
        rows = [np.zeros(0, np.int64)]
        for number, (view, (start, end)) in enumerate(self._runs(want)):
            last = first + int(view.count_allowed(np.array(start), np.array(end)))
            own = chosen[np.searchsorted(chosen, first) : np.searchsorted(chosen, last)] - first
            if view.allowed is not None:
                own = np.flatnonzero(view.allowed[start:end])[own]
            rows.append(bounds[number] + start + own)
            first = last
        return np.concatenate(rows)

    def _runs(self, want: int) -> list[tuple[SegmentView, tuple[int, int]]]:
        """The views, each with the run of rows that holds its items of a modality."""
        if want == ANY:
            return [(view, (0, len(view))) for view in self.views]
        if self._modality_given:
            return [(view, view.first_level_rows(want)) for view in self.views]
        return [(view, (0, len(view))) for view in self._of_modality(want)]

    def codes(self, rows: np.ndarray) -> np.ndarray:
        """The codes int64 [n, levels] of such rows."""
        return gather_codes(self._segments, rows).astype(np.int64)

    def _search(
        self,
        views: Sequence[SegmentView],
        queries: QueryBatch,
        modality_code: np.ndarray,
        places: np.ndarray,
        task: _Task,
    ) -> dict[int, RankedItems]:
        """Search for the queries at these places."""
        if not len(places):
            return {}
        engine = self.engine(task.decoder, views)
        batch, wanted = queries[places], modality_code[places]
        embeddings = batch.embeddings if self._has_embeddings else None
        if embeddings is not None and self._settings.query_bits == 16:
            embeddings = embeddings.astype(np.float16).astype(np.float32)
        if task.mode == "auto" and self._costs is None:
            engine.costs = costs_of(engine, batch.vectors, embeddings, wanted)
        more_beams = self._settings.more_beams or task.mode != "paper"
        candidates = engine.find(
            batch.vectors,
            modality_code=wanted,
            k=task.k if more_beams else 0,
            beams=task.beams,
            mode=task.mode,
        )
        scorer = engine.scorer(candidates, embeddings, batch.embedding_weights)
        in_order = self._settings.bucket_order == "added"
        rankings = both_rankings(
            engine, candidates, scorer, task.k, by_codes=task.by_codes, buckets_in_order=in_order
        )
        return {
            int(place): self._ranked(engine, rankings, batch, wanted, number, by_codes=task.by_codes)
            for number, place in enumerate(places)
        }

    def _ranked(
        self,
        engine: Engine,
        rankings: tuple[EngineResult, EngineResult],
        batch: QueryBatch,
        modality_code: np.ndarray,
        query: int,
        *,
        by_codes: bool,
    ) -> RankedItems:
        """Both rankings of one query; what both have is taken from the re-ranked one."""
        ranked = [result.rows[query][result.rows[query] >= 0] for result in rankings]
        rows, where = np.unique(np.concatenate(ranked), return_index=True)

        def column(reranked: np.ndarray, plain: np.ndarray) -> np.ndarray:
            values = [reranked[query][: len(ranked[0])], plain[query][: len(ranked[1])]]
            return np.asarray(np.concatenate(values)[where])

        reranked, plain = rankings
        codes = engine.codes(rows)
        if by_codes:
            plain_scores = code_score(batch.vectors[query], self._code_space.reconstruct(codes))
        else:
            plain_scores = column(reranked.log_probs, plain.log_probs)
        number = np.array([query])
        return RankedItems(
            item_keys=column(reranked.item_keys, plain.item_keys),
            codes=codes.astype(np.int64),
            scores=column(reranked.scores, plain.scores),
            plain_scores=plain_scores,
            plain=np.searchsorted(rows, ranked[1]),
            reranked=np.searchsorted(rows, ranked[0]),
            mode=reranked.modes[query],
            num_candidates=int(reranked.num_candidates[query]),
            _rows=rows,
            _searched_log_probs=column(reranked.level_log_probs, plain.level_log_probs),
            _engine=engine,
            _searcher=self,
            query=batch[number],
            _modality_code=modality_code[number],
        )

    def _of_modality(self, want: int) -> list[SegmentView]:
        """The views restricted to items of the wanted modality."""
        if want not in self._views_of:
            self._views_of[want] = [
                view.restricted(segment.modality == want)
                for view, segment in zip(self.views, self._segments, strict=True)
            ]
        return self._views_of[want]


@dataclass(frozen=True, eq=False)
class _Task:
    """How the queries of one call are searched; see `Searcher.search`."""

    decoder: Decoder
    k: int
    beams: int
    mode: Mode
    by_codes: bool


def both_rankings(
    engine: Engine,
    candidates: Candidates,
    scorer: Scorer,
    k: int,
    *,
    by_codes: bool,
    buckets_in_order: bool = False,
) -> tuple[EngineResult, EngineResult]:
    """The candidates re-ranked, and ranked plainly: by code score, or by log-probability and then as the
    other, or in the order in which items were added (`buckets_in_order`).

    Both are the same where no code was searched.
    """
    reranked = engine.rank(candidates, scorer, k, plain=False)
    if by_codes:
        by_code_score = scorer.codes_only() or engine.scorer(candidates, None)
        return reranked, engine.rank(candidates, by_code_score, k, plain=False)
    if all(mode == "scan" for mode in candidates.modes):
        return reranked, reranked
    return reranked, engine.rank(candidates, Scorer(None) if buckets_in_order else scorer, k, plain=True)


def _count(views: Sequence[SegmentView]) -> int:
    """How many rows may be returned."""
    return sum(int(view.count_allowed(*np.array(view.all_rows()))) for view in views)
