"""The engine: from query vectors to items, in one of several modes.

mode     searches                                                   returns
`paper`  all levels, as published                                   the items of the best codes
`exact`  until the different codes below are no more than beams     the same items, often levels earlier
`safe`   also until at most 2,000 items are below                   those and more
`fast`   also until at most 128,000 items are below                 those and more still
`scan`   nothing                                                    all items, or all of the wanted modality
`auto`   as `scan` where that is quicker than `fast`, else `fast`   either; `EngineResult.modes` says which

All items below the beams are candidates. They are ranked by score (`scoring`), or plainly by the
log-probability of their codes and then by score. You get k results whenever k exist: if the beams cover
fewer, the beam is doubled, and finally everything is scanned.

Two rules keep the time of `fast` flat in collections of very many items. Where more than 128,000 are below
the first semantic codes, it keeps to the best of these codes that have no more together, and goes on only if
the best alone has more. And of very many candidates, their codes tell which are worth comparing by embeddings
(`preselection`).

    engine = Engine([SegmentView(packed, …)], decoder, codebooks, weight)
    result = engine.search(vectors, embeddings, modality_code=codes, k=10, beams=50, mode="fast")

`vectors` [queries, width] are decoded, `embeddings` [queries, width] are compared with items, `modality_code`
[queries] is the wanted first code or -1. The result is [queries, k], best first; see `EngineResult`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from genius.decode.decoder import Decoder
from genius.errors import InputError
from genius.search.beam import BEAMS, BeamResult, History, all_items, check, gather, search_beams
from genius.search.costs import Costs
from genius.search.preselection import Preselection
from genius.search.rerank import RankedRows, item_keys, rank, row_offsets
from genius.search.scoring import Scorer, half_sq_norms
from genius.search.segment_view import Prefixes, SegmentView

Mode = Literal["paper", "exact", "safe", "fast", "scan", "auto"]
MODES: tuple[Mode, ...] = get_args(Mode)

LIMITS: dict[Mode, int | None] = {"paper": None, "exact": 0, "safe": 2_000, "fast": 128_000}
"""A search ends with at most so many items below its beams; None searches all levels."""

MAX_BEAMS = 2048
"""The beam is doubled up to this to cover k items."""


@dataclass(frozen=True, eq=False)
class EngineResult:
    """The best items of each query, best first; padded with -1 and -inf. k is at most the number of rows.

    Attributes:
        rows: sorted rows, those of all segments numbered one after another, int64 [queries, k].
        item_keys: the item keys of those rows, int64 [queries, k].
        scores: by embeddings, codes or both, as the engine weighs them, float32 [queries, k].
        log_probs: the summed log-probability of the codes that were searched, float32 [queries, k].
        level_log_probs: each level's part of it, float32 [queries, k, levels]; NaN for levels that were not
            searched.
        depths: how many levels were searched, int64 [queries].
        num_candidates: how many items were ranked, int64 [queries].
        modes: the mode that each query was searched in.
    """

    rows: np.ndarray
    item_keys: np.ndarray
    scores: np.ndarray
    log_probs: np.ndarray
    level_log_probs: np.ndarray
    depths: np.ndarray
    num_candidates: np.ndarray
    modes: tuple[Mode, ...]


@dataclass(frozen=True, eq=False)
class Candidates:
    """What is below the beams of each query, and the mode it was searched in."""

    vectors: np.ndarray
    beams: BeamResult
    modes: tuple[Mode, ...]


class Engine:
    """Segments that are searched as one pool.

    Args:
        segments: packed codes, with masks and embeddings.
        decoder: scores codes.
        codebooks: the vectors of each level, [codes, width]: to score items by their codes.
        weight: of embeddings in the score, from 0 to 1.
        costs: what `auto` decides by; `costs_of` measures them on this machine.
    """

    def __init__(
        self,
        segments: Sequence[SegmentView],
        decoder: Decoder,
        codebooks: Sequence[np.ndarray] | None = None,
        weight: float = 1.0,
        costs: Costs | None = None,
    ) -> None:
        if not segments:
            raise InputError("a search needs at least one segment to search in")
        if not 0 <= weight <= 1:
            raise InputError(f"the weight of embeddings must be from 0 to 1, not {weight}")
        self.segments, self.decoder, self.codebooks, self.weight = list(segments), decoder, codebooks, weight
        self.costs = Costs() if costs is None else costs

    def __len__(self) -> int:
        """How many items may be returned."""
        return sum(int(segment.count_allowed(*np.array(segment.all_rows()))) for segment in self.segments)

    def restricted(self, allowed: Sequence[np.ndarray]) -> Engine:
        """The same, where only rows may be returned that a mask for each segment, bool [n], allows too."""
        if self.weight < 1:
            self._fill_half_sq_norms()  # once, and not for each filter
        segments = [segment.restricted(mask) for segment, mask in zip(self.segments, allowed, strict=True)]
        return Engine(segments, self.decoder, self.codebooks, self.weight, self.costs)

    def search(
        self,
        vectors: np.ndarray,
        embeddings: np.ndarray | None = None,
        *,
        modality_code: np.ndarray | None = None,
        k: int = 10,
        beams: int = BEAMS,
        mode: Mode = "auto",
        plain: bool | None = None,
    ) -> EngineResult:
        """The k best items for each query.

        Args:
            vectors: what is decoded, [queries, width].
            embeddings: what items' embeddings are compared with, [queries, width]; without it, items are
                scored by their codes.
            modality_code: the first code that each query wants [queries], -1 for any.
            k: how many.
            beams: how many prefixes are kept after each level.
            mode: how deep codes are searched; see above.
            plain: whether items are ordered by the log-probability of their codes first; by default only in
                the mode
                `paper`.
        """
        candidates = self.find(vectors, modality_code=modality_code, k=k, beams=beams, mode=mode)
        plain = mode == "paper" if plain is None else plain
        return self.rank(candidates, self.scorer(candidates, embeddings), k, plain=plain)

    def find(
        self,
        vectors: np.ndarray,
        *,
        modality_code: np.ndarray | None = None,
        k: int = 1,
        beams: int = BEAMS,
        mode: Mode = "auto",
        history: History | None = None,
    ) -> Candidates:
        """What is below each query's beams: at least k items, or all that exist of its modality code. With
        k = 0, whatever is below the beams that were asked for.

        `history`, if given, records the beams of the first search after each level (see
        `beam.prefix_survival`).
        """
        if mode not in MODES:
            raise InputError(f"unknown mode {mode!r}: expected one of {', '.join(MODES)}")
        if k < 0:
            raise InputError(f"k must be at least 0, not {k}")
        check(self.decoder, self.segments, vectors, beams, modality_code)
        beams = min(beams, max(1, sum(map(len, self.segments))))  # there are no more codes than items
        modes = np.full(len(vectors), mode, object)
        if mode == "auto":
            available = self._available(len(vectors), modality_code)
            modes = np.where(self.costs.prefer_scan(available), "scan", "fast").astype(object)
        finished: list[Prefixes] = []
        depths = np.zeros(len(vectors), np.int64)
        lacking = np.flatnonzero(modes != "scan")
        limit = LIMITS["fast" if mode == "auto" else mode] if len(lacking) else None
        while len(lacking):
            wanted = None if modality_code is None else modality_code[lacking]
            result = search_beams(
                self.decoder,
                self.segments,
                vectors[lacking],
                beams,
                modality_code=wanted,
                limit=limit,
                budget=mode in ("fast", "auto"),
                history=history,
            )
            history = None
            enough = self._has_enough(result, k, wanted)
            if not finished and len(lacking) == len(vectors) and enough.all():
                return Candidates(vectors, result, tuple(modes.tolist()))  # as most searches end
            depths[lacking[enough]] = result.depths[enough]
            prefixes = result.renumbered(lacking)
            finished.append(prefixes[np.flatnonzero(enough[result.query_ids])])
            lacking = lacking[~enough]
            if beams >= MAX_BEAMS:
                break
            beams = min(2 * beams, MAX_BEAMS)
        modes[lacking] = "scan"
        scanned = modes == "scan"
        everything = all_items(self.segments, len(vectors), modality_code)
        prefixes = everything.renumbered(np.arange(len(vectors)))
        finished.append(prefixes[np.flatnonzero(scanned[everything.query_ids])])
        depths[scanned] = everything.depths[scanned]
        return Candidates(vectors, gather(self.segments, finished, depths), tuple(modes.tolist()))

    def scorer(
        self, candidates: Candidates, embeddings: np.ndarray | None, weights: np.ndarray | None = None
    ) -> Scorer:
        """What candidates are scored by: the queries' embeddings, codes, or both, with the weight of the
        engine or of each query [queries]."""
        if embeddings is not None and len(embeddings) != len(candidates.vectors):
            raise InputError(
                f"{len(candidates.vectors)} queries need an embedding each, and there are {len(embeddings)}"
            )
        scorer = Scorer.blend(
            embeddings, candidates.vectors, self.codebooks, self.weight if weights is None else weights
        )
        if scorer.code_weights is not None:
            self._fill_half_sq_norms()
        return scorer

    def rank(self, candidates: Candidates, scorer: Scorer, k: int, *, plain: bool) -> EngineResult:
        """The k best candidates: by score, or plainly by log-probability first."""
        if k < 1:
            raise InputError(f"k must be at least 1, not {k}")
        if not plain and scorer.embeddings is None and scorer.tables is None:
            raise InputError("to order items, queries need embeddings, or the engine needs the codebooks")
        beams = candidates.beams
        if plain:
            ranked = self._rank_plainly(beams, scorer, k)
        else:
            preselection = self._preselection(candidates, scorer)
            ranked = rank(
                self.segments, beams.bounds, beams.starts, beams.ends, scorer, k, preselection=preselection
            )
        ranked = ranked.padded(min(k, sum(map(len, self.segments))))
        filled = ranked.rows >= 0
        runs = ranked.runs[filled]
        level_log_probs = np.full((*filled.shape, beams.level_log_probs.shape[1]), np.nan, np.float32)
        log_probs = np.full(filled.shape, -np.inf, np.float32)
        level_log_probs[filled], log_probs[filled] = beams.level_log_probs[runs], beams.log_probs[runs]
        return EngineResult(
            ranked.rows,
            item_keys(self.segments, ranked.rows),
            ranked.scores,
            log_probs,
            level_log_probs,
            beams.depths,
            beams.num_candidates,
            candidates.modes,
        )

    def _preselection(self, candidates: Candidates, scorer: Scorer) -> Preselection | None:
        """Of the candidates of queries that were searched in the mode `fast`."""
        if self.codebooks is None or scorer.embeddings is None:
            return None
        semantic = self.segments[0].packed.layout.semantic
        weights = scorer.code_weights
        return Preselection(
            candidates.vectors,
            self.codebooks,
            (candidates.beams.depths > semantic) & (np.array(candidates.modes) == "fast"),
            np.zeros(len(candidates.vectors), np.float32) if weights is None else weights,
        )

    def codes(self, rows: np.ndarray) -> np.ndarray:
        """The codes uint16 [n, levels] of sorted rows [n], those of all segments numbered in a row."""
        codes = np.empty((len(rows), len(self.decoder.sizes)), np.uint16)
        bounds = row_offsets(self.segments)
        for number, segment in enumerate(self.segments):
            inside = (rows >= bounds[number]) & (rows < bounds[number + 1])
            codes[inside] = segment.packed.codes(rows[inside] - bounds[number])
        return codes

    def _has_enough(self, result: BeamResult, k: int, modality_code: np.ndarray | None) -> np.ndarray:
        """Which queries have k candidates, or all that exist: bool [queries]."""
        enough = result.num_candidates >= k
        if not enough.all():
            enough = result.num_candidates >= np.minimum(k, self._available(len(result), modality_code))
        return enough

    def _available(self, count: int, modality_code: np.ndarray | None) -> np.ndarray:
        """How many items each of `count` queries may get, int64 [count]."""
        wanted = np.full(count, -1) if modality_code is None else np.asarray(modality_code, np.int64)
        available = np.zeros(count, np.int64)
        for segment in self.segments:
            for code in np.unique(wanted).tolist():
                run = segment.first_level_rows(code) if code >= 0 else segment.all_rows()
                available[wanted == code] += segment.count_allowed(*np.array(run))
        return available

    def _fill_half_sq_norms(self) -> None:
        """Compute the norms of segments that lack them; an index stores them."""
        if self.codebooks is not None:
            for number, segment in enumerate(self.segments):
                if segment.half_sq_norms is None:
                    norms = half_sq_norms(segment.packed, self.codebooks)
                    self.segments[number] = replace(segment, half_sq_norms=norms)

    def _rank_plainly(self, beams: BeamResult, scorer: Scorer, k: int) -> RankedRows:
        """Items by their prefix, the best first, and those of one prefix by score."""
        items, query_ids = beams.items, beams.query_ids
        before = np.cumsum(items) - items
        before -= before[beams.bounds[query_ids]]
        needed = np.flatnonzero(before < k)  # prefixes behind the k-th item are not opened
        ranked = rank(
            self.segments,
            np.arange(len(needed) + 1),
            beams.starts[:, needed],
            beams.ends[:, needed],
            scorer,
            k,
            query_ids[needed],
        )
        groups, places = np.nonzero(ranked.rows >= 0)
        queries = query_ids[needed][groups]
        columns = np.arange(len(groups)) - np.searchsorted(queries, queries)
        kept = columns < k
        source, target = (groups[kept], places[kept]), (queries[kept], columns[kept])
        plain = RankedRows.empty(len(beams), int(columns[kept].max(initial=-1)) + 1)
        plain.rows[target], plain.scores[target] = ranked.rows[source], ranked.scores[source]
        plain.runs[target] = needed[groups[kept]]
        return plain
