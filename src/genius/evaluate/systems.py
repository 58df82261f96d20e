"""The systems that an evaluation compares.

By exact search over vectors (`DenseSearch`):

`dense`        the whole pool by embeddings
`dense-fair`   the items of the wanted modality, by embeddings or by vectors, whichever validation found
better: the
               ceiling of the published method
`dense-z`      the whole pool by fused vectors
`codes`        the items of the wanted modality by their quantized vectors

By the engine, over a segment that holds what an index of the pool would hold (`EngineSearch`):

`geometry`     mode `paper` with geometry as decoder: beam search through all levels, ranked by
log-probability
`genius`       mode `paper` with the learned decoder: the published method
`default`      what `Index.search` does without further options, ranked by codes alone (its mode is `auto`:
where
               scanning is quicker, it scans, and the measurement `scanned` says for how many queries)
`fast` …       the same in another mode that was asked for

A model with identifiers of a rival (`genius.identifiers`) has the row of that method instead of these, such
as `grace-structured-like`: mode `paper` with its learned decoder.

For the paper's tables, `genius-b30` and `genius-b50` are `genius` with so many beams; a model without a
learned decoder has `geometry-b30` and `geometry-b50` instead.

With `+rerank`, all candidates are ranked by embeddings and codes together (`genius.search.scoring`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from genius.corpus.coded import CodedCorpus
from genius.corpus.embedded import EmbeddedCorpus
from genius.corpus.items import CorpusItems
from genius.corpus.queries import TaskQueries
from genius.corpus.records import RecordSource
from genius.data.tasks import Task
from genius.decode.geometry import Geometry
from genius.encode.features import ABSENT
from genius.evaluate import published
from genius.evaluate.protocol import DEPTH, Rankings, System
from genius.identifiers.scheme import row_name
from genius.index.decoders import DecoderName, Decoders
from genius.index.query import ANY
from genius.index.query_batch import QueryBatch
from genius.index.searcher import RankedItems, Searcher
from genius.index.segments import Block, Segment, SegmentFormat
from genius.model import Model
from genius.runtime import cores
from genius.search.beam import BEAMS
from genius.search.dense import DenseIndex
from genius.search.engine import Mode

QUERIES = 128
"""How many queries a thread searches at a time."""
CACHED_POOLS = 4
CACHED_SEARCHES = 2

T = TypeVar("T")


class PerPool(Generic[T]):
    """Makes something for the items with given numbers, and keeps the last few: tasks share pools."""

    def __init__(self, make: Callable[[np.ndarray], T]) -> None:
        self._make = make
        self._made: dict[bytes, T] = {}

    def __call__(self, members: np.ndarray) -> T:
        """What belongs to these items."""
        key = members.tobytes()
        if key not in self._made:
            if len(self._made) >= CACHED_POOLS:
                self._made.pop(next(iter(self._made)))
            self._made[key] = self._make(members)
        return self._made[key]


# --- dense systems


class DenseSearch:
    """Exact search of tasks' queries [queries, width] among some of the items [items, width], by inner
    product."""

    def __init__(self, items: np.ndarray, queries: Mapping[Task, np.ndarray]) -> None:
        self._index = PerPool(lambda members: DenseIndex(items[members]))
        self._queries = queries

    def search(
        self, task: Task, members: np.ndarray, excluded: Sequence[np.ndarray] | None = None
    ) -> Rankings:
        """The best of the items with these numbers for each query, without those that are excluded for it."""
        more = max((len(items) for items in excluded), default=0) if excluded else 0
        scores, rows = self._index(members).search(self._queries[task], DEPTH + more)
        rankings = Rankings(scores, members[rows])
        return rankings if excluded is None else without(rankings, excluded)


def dense_systems(
    embedded: EmbeddedCorpus,
    *,
    baseline: DenseSearch | None = None,
    excluding: Mapping[Task, list[np.ndarray]] | None = None,
) -> dict[str, System]:
    """`dense` and `dense-fair`, the latter by `baseline` or else by embeddings.

    `excluding` names for each query the items that are left out of its results.
    """
    queries = {task: inputs.embeddings for task, inputs in embedded.queries.items()}
    dense = DenseSearch(embedded.items.embeddings, queries)
    baseline = baseline or dense

    def excluded(task: Task) -> list[np.ndarray] | None:
        return excluding[task] if excluding else None

    return {
        "dense": lambda task, members: dense.search(task, members, excluded(task)),
        "dense-fair": lambda task, members: baseline.search(
            task, of_wanted_modality(embedded, task, members), excluded(task)
        ),
    }


def of_wanted_modality(embedded: EmbeddedCorpus, task: Task, members: np.ndarray) -> np.ndarray:
    """Those of the items that have the modality that a task wants."""
    return np.asarray(members[embedded.pool.modality[members] == embedded.tasks[task].want])


# --- systems of the engine


@dataclass(frozen=True)
class EngineSettings:
    """How the engine searches: by which decoder, in which mode, whether plainly by code score, with how many
    beams (0: as many as usual) and for how many results (0: as many as usual)."""

    decoder: DecoderName
    mode: Mode
    by_codes: bool
    beams: int = 0
    depth: int = 0


class EngineSearch:
    """Searches the queries of tasks as an index of the pool's items would, by the same `Searcher`.

    Args:
        model: has the quantizer, the decoders and the weight of re-ranking.
        coded: items and queries.
        beams: how many.
        want: whether searches know the wanted modality.
    """

    def __init__(self, model: Model, coded: CodedCorpus, *, beams: int = BEAMS, want: bool = True) -> None:
        self._model, self._coded, self._beams, self._want = model, coded, beams, want
        self._decoders = Decoders(model)
        self._geometry = PerPool(self._make_geometry)
        self._searcher = PerPool(self._make_searcher)
        self._last: dict[tuple[Task, bytes, EngineSettings], tuple[Rankings, Rankings]] = {}

    def plain(self, settings: EngineSettings) -> System:
        """The system that ranks by codes alone."""
        return lambda task, members: self._search(task, members, settings)[0]

    def reranked(self, settings: EngineSettings) -> System:
        """The system that ranks by embeddings and codes."""
        return lambda task, members: self._search(task, members, settings)[1]

    def queries(self, task: Task) -> QueryBatch:
        """The queries of a task as an index would search them."""
        vectors = self._coded.queries[task]
        want = self._coded.embedded.tasks[task].want if self._want else ANY
        codes = self._model.modality_codes_for(want, len(vectors)) if self._want else None
        modality_code = np.full(len(vectors), ANY) if codes is None else codes
        inputs = self._coded.embedded.queries[task]
        weights, wants = self._model.rerank_weights(inputs.kinds), np.full(len(vectors), want)
        return QueryBatch(vectors, inputs.embeddings, wants, modality_code, weights, inputs.kinds)

    def ranked_items(self, task: Task, members: np.ndarray, settings: EngineSettings) -> list[RankedItems]:
        """What is found for each query of a task; one search serves both rankings."""
        searcher, queries = self._searcher(members), self.queries(task)
        decoder = self._decoders.choose(
            settings.mode, settings.decoder, pool_geometry=lambda: self._geometry(members)
        ).decoder

        def search(start: int) -> list[RankedItems]:
            return searcher.search(
                queries[slice(start, start + QUERIES)],
                settings.depth or DEPTH,
                settings.beams or self._beams,
                settings.mode,
                decoder,
                by_codes=settings.by_codes,
            )

        # The first block alone: it may measure what `auto` decides by.
        blocks = [search(0)]
        with ThreadPoolExecutor(cores()) as threads:
            blocks += threads.map(search, range(QUERIES, len(queries), QUERIES))
        return [ranked for block in blocks for ranked in block]

    def _search(self, task: Task, members: np.ndarray, settings: EngineSettings) -> tuple[Rankings, Rankings]:
        key = task, members.tobytes(), settings
        if key not in self._last:
            ranked = self.ranked_items(task, members, settings)
            if len(self._last) >= CACHED_SEARCHES:
                self._last.pop(next(iter(self._last)))
            depth = settings.depth or DEPTH
            self._last[key] = (
                _rankings(ranked, lambda items: (items.plain, items.plain_scores), depth),
                _rankings(ranked, lambda items: (items.reranked, items.scores), depth),
            )
        return self._last[key]

    def _make_searcher(self, members: np.ndarray) -> Searcher:
        model, segments = self._model, [pool_segment(self._model, self._coded, members)]
        no_tombstones = np.zeros(0, np.int64)
        decoder = self._decoders.choose("auto", pool_geometry=lambda: self._geometry(members)).decoder
        return Searcher(decoder, model.code_space, segments, no_tombstones, settings=model.search_settings)

    def _make_geometry(self, members: np.ndarray) -> Geometry:
        """The geometry with a temperature that depends on the pool."""
        embeddings = self._coded.embedded.items.embeddings
        return self._model.geometry_for(embeddings[members], self._coded.codes[members])


def pool_segment(model: Model, coded: CodedCorpus, members: np.ndarray) -> Segment:
    """The items with these numbers as an index keeps them, in memory; their numbers are the item keys."""
    space, embedded, codes = model.code_space, coded.embedded, coded.codes[members]
    block = Block(
        codes=codes,
        modality=embedded.pool.modality[members],
        embeddings=embedded.items.embeddings[members].astype(np.float16),
        item_keys=members,
        half_sq_norms=space.half_sq_norms(codes),
    )
    format = SegmentFormat(space.sizes, space.semantic, space.modality_code == "given")
    return Segment.in_memory(block, format)


def _rankings(
    ranked: Sequence[RankedItems], order: Callable[[RankedItems], tuple[np.ndarray, np.ndarray]], depth: int
) -> Rankings:
    scores = np.full((len(ranked), depth), -np.inf, np.float32)
    numbers = np.full((len(ranked), depth), -1, np.int64)
    for query, items in enumerate(ranked):
        places, values = order(items)
        places = places[:depth]
        scores[query, : len(places)] = values[places]
        numbers[query, : len(places)] = items.item_keys[places]
    return Rankings(
        scores,
        numbers,
        np.array([items.num_candidates for items in ranked]),
        np.array([items.mode == "scan" for items in ranked]),
    )


def coded_systems(
    model: Model,
    coded: CodedCorpus,
    *,
    beams: int = BEAMS,
    modes: Sequence[Mode] = ("auto",),
    want: bool = True,
    excluding: Mapping[Task, list[np.ndarray]] | None = None,
) -> dict[str, System]:
    """The systems that search by vectors and codes, by name.

    `modes` has rows by geometry for each; `auto` is the row `default`. Without `want` the searches by the
    engine do not know the wanted modality. `excluding` names for each query the items that are left out of
    its results.
    """
    if not model.has_code_vectors:
        return _excluding_all(rival_systems(model, coded, beams=beams, want=want), excluding)
    vectors = DenseSearch(coded.vectors, coded.queries)
    units = DenseSearch(model.quantizer.units(coded.codes), coded.queries)
    engine = EngineSearch(model, coded, beams=beams, want=want)
    systems: dict[str, System] = {
        "dense-z": vectors.search,
        "codes": lambda task, members: units.search(task, of_wanted_modality(coded.embedded, task, members)),
    }
    rows = {"geometry": EngineSettings("geometry", "paper", by_codes=False)}
    if "decoder" in model.stages:
        rows["genius"] = EngineSettings("learned", "paper", by_codes=False)
    for mode in modes:
        row = "default" if mode == "auto" else str(mode)
        rows[row] = EngineSettings("geometry", mode, by_codes=mode != "paper")
    for name, settings in rows.items():
        systems[name] = engine.plain(settings)
        systems[f"{name}+rerank"] = engine.reranked(settings)
    return _excluding_all(systems, excluding)


def rival_systems(model: Model, coded: CodedCorpus, *, beams: int, want: bool) -> dict[str, System]:
    """The systems of a model with identifiers of a rival: by its learned decoder, in the mode `paper`, plain
    and re-ranked by embeddings. Without a decoder there are none."""
    name = model.identifier_name
    if name == "codes" or "decoder" not in model.stages:
        return {}
    engine = EngineSearch(model, coded, beams=beams, want=want)
    settings, row = EngineSettings("learned", "paper", by_codes=False), row_name(name)
    return {row: engine.plain(settings), f"{row}+rerank": engine.reranked(settings)}


# --- systems of the paper's tables


def code_row(stages: Sequence[str]) -> str:
    """The row that is searched by codes as published: by the learned decoder, if a model has it."""
    return "genius" if "decoder" in stages else "geometry"


def paper_systems(
    model: Model, embedded: EmbeddedCorpus, coded: CodedCorpus | None, *, want: bool
) -> dict[str, System]:
    """The systems of the paper's tables: exact search by embeddings in the whole pool, and search by codes
    with 30 and with 50 beams, plain and re-ranked. Without `coded`, the first alone.

    A search ranks no more than what the tables look at, so that it never needs more beams than it may have.
    """
    systems = {"dense": dense_systems(embedded)["dense"]}
    if coded is None:
        return systems
    engine, row = EngineSearch(model, coded, want=want), code_row(model.stages)
    for beams in published.BEAMS:
        settings = EngineSettings(
            "learned" if row == "genius" else "geometry",
            "paper",
            by_codes=False,
            beams=beams,
            depth=published.DEPTH,
        )
        systems[f"{row}-b{beams}"] = engine.plain(settings)
        systems[f"{row}-b{beams}+rerank"] = engine.reranked(settings)
    return systems


# --- items that are left out of results


def _excluding_all(
    systems: dict[str, System], excluded: Mapping[Task, list[np.ndarray]] | None
) -> dict[str, System]:
    if excluded is None:
        return systems
    return {name: _excluding(system, excluded) for name, system in systems.items()}


def _excluding(system: System, excluded: Mapping[Task, list[np.ndarray]]) -> System:
    return lambda task, members: without(system(task, members), excluded[task])


def without(rankings: Rankings, excluded: Sequence[np.ndarray]) -> Rankings:
    """Results without those that are excluded for each query."""
    scores = np.full((len(rankings.scores), DEPTH), -np.inf, np.float32)
    numbers = np.full(scores.shape, -1, np.int64)
    for query, unwanted in enumerate(excluded):
        kept = np.flatnonzero(~np.isin(rankings.numbers[query], unwanted))[:DEPTH]
        scores[query, : len(kept)] = rankings.scores[query, kept]
        numbers[query, : len(kept)] = rankings.numbers[query, kept]
    return rankings._replace(scores=scores, numbers=numbers)


def own_items(
    source: RecordSource, pool: CorpusItems, tasks: Sequence[TaskQueries]
) -> dict[Task, list[np.ndarray]]:
    """For each query the items whose image or text is its own, under whatever name."""
    images = _by_content(source.image_key, pool.contents.image)
    texts = _by_content(source.text_key, pool.contents.text)
    nothing = np.zeros(0, np.int64)
    own = {}
    for task in tasks:
        own[task.task] = [
            np.concatenate(
                [
                    images.get(source.image_key(image), nothing) if image != ABSENT else nothing,
                    texts.get(source.text_key(text), nothing) if text != ABSENT else nothing,
                ]
            )
            for image, text in zip(task.contents.image, task.own_texts, strict=True)
        ]
    return own


def _by_content(key: Callable[[int], bytes], rows: np.ndarray) -> dict[bytes, np.ndarray]:
    items: dict[bytes, list[int]] = {}
    for number, row in enumerate(rows):
        if row != ABSENT:
            items.setdefault(key(row), []).append(number)
    return {content: np.array(numbers, np.int64) for content, numbers in items.items()}
