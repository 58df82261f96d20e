"""Measuring the background of an index, by kind of query and by what is wanted, and keeping it there.

**Texts.** The background queries are made of a few hundred everyday texts that come with genius
(`everyday_texts.txt`). A large collection may well answer many of them; so four are put together as one,
which asks for a lighthouse, a bowl of soup, a receipt and a camel at once, and nothing answers that. Some
queries ask for what a collection is about and some don't, which scores alone tell badly; so a hit is judged
by its score, the level of its query and the hubness of where it leads. The *level* is the score that a tenth
of the collection reaches: how near the query is to the collection as a whole. The *hubness* is what the
nearest items score for background queries on average: drawings and photos in one collection differ in it.
The few background queries with the best hits are left out: the collection may have what they ask for.

**Images, with a text or without.** The background queries are images that show nothing (`empty_images`). With
a text beside the image, it is an everyday one. Hits are judged by score and level. As such images are farther
from everything than photos of something else, only the nearer half of them counts.

**Items.** To find more like an item, items of the collection are the background queries, by what the index
keeps of them. What is like such an item, the nearest tenth of the collection and itself among it, is left
out: it would be an answer. So it is for a model that takes vectors alone.

All samples are bounded: it takes seconds, however many items there are.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from importlib import resources
from pathlib import Path
from typing import Literal

import numpy as np

from genius import storage
from genius.data.images import image_source
from genius.data.records import MODALITIES, ImageSource, Modality, Query
from genius.errors import GeniusError
from genius.index.background import RANKS, ScoreBackground, is_outdated
from genius.index.empty_images import drawn
from genius.index.query import ANY, SearchOptions
from genius.index.query_batch import ARRAYS, QueryBatch, concatenated, embed_item, embed_queries, targeted
from genius.index.searcher import ScoredItems, Searcher
from genius.index.snapshot import Snapshot
from genius.quantize.fusion_inputs import BOTH_QUERY, IMAGE_QUERY
from genius.search.beam import BEAMS

log = logging.getLogger(__name__)

QueryKind = Literal["text", "image", "both", "item"]
"""What a query is: a text, an image, both, or an item that more is to be found like."""

FOLDER, KIND, FORMAT = "background", "background", 2
MAX_SAMPLE = 1024
"""How many items of a collection stand for all of them."""
MAX_QUERIES = 64
"""How many items are background queries."""
MAX_IMAGES = 128
"""How many images are background queries, as encoding images takes long."""
AT_ONCE, ROUNDS = 4, 2
"""How many everyday texts one background query has, and in how many of them each is."""
LEVEL = 0.9
"""The share of the collection that scores below a query's level; the rest counts as like an item."""
NEAREST = 0.05
"""The share of the sample, nearest first, that tells the hubness of a query."""
LEVEL_WEIGHT, HUBNESS_WEIGHT = 1.5, 1.25
"""Of texts."""
LEVEL_WEIGHT_OF_IMAGES = 1.0
COUNTED, COUNTED_IMAGES = (0.05, 1.0), (0.0, 0.5)
"""From which to which share of the background queries count, those with the best hits first."""
BATCH = 64
"""How many background queries are searched at a time."""
FEW = 8
"""How many are embedded at a time: the more images, the more memory an encoder takes."""
SEED = 29


@cache
def everyday_queries() -> tuple[str, ...]:
    """Texts that ask for four things at once, each of which is in several of them."""
    texts = resources.files("genius.index").joinpath("everyday_texts.txt").read_text("utf-8").splitlines()
    sentences = [text[0].upper() + text[1:] + ("" if text.endswith((".", "?")) else ".") for text in texts]
    random = np.random.default_rng(SEED)
    orders = [random.permutation(len(sentences)).reshape(-1, AT_ONCE) for _ in range(ROUNDS)]
    return tuple(" ".join(sentences[place] for place in places) for places in np.concatenate(orders))


@cache
def empty_images() -> tuple[ImageSource, ...]:
    """Images that show nothing, the same ones every time."""
    random = np.random.default_rng(SEED)
    return tuple(image_source(drawn(random)) for _ in range(MAX_IMAGES))


@dataclass(frozen=True, eq=False)
class Sample:
    """Some items of the wanted modalities, in memory, as a query is compared with them.

    Attributes:
        rows: their sorted rows, those of all segments numbered one after another [n].
        items: what is scored of them.
        places: which row of a query, one for each wanted modality, each is compared with [n].
    """

    rows: np.ndarray
    items: ScoredItems
    places: np.ndarray

    @classmethod
    def draw(cls, searcher: Searcher, modalities: Sequence[Modality], seed: int = SEED) -> Sample:
        """At most MAX_SAMPLE items, of each modality as many as its share."""
        random = np.random.default_rng(seed)
        wants = [MODALITIES.index(modality) for modality in modalities] or [ANY]
        counts = np.array([searcher.count(want) for want in wants])
        most = np.ceil(MAX_SAMPLE * counts / max(1, counts.sum())).astype(int)
        chosen = [searcher.sample(want, int(many), random) for want, many in zip(wants, most, strict=True)]
        rows = np.concatenate(chosen)
        places = np.repeat(np.arange(len(wants)), [len(part) for part in chosen])
        return cls(rows, searcher.scored(rows, searcher.codes(rows)), places)

    def __len__(self) -> int:
        return len(self.rows)

    def scores(self, query: QueryBatch) -> np.ndarray:
        """What the items score for one query, which has a row for each wanted modality: float32 [n]."""
        by_row = [self.items.scores(query[slice(place, place + 1)]) for place in range(len(query))]
        return np.asarray(np.stack(by_row)[self.places, np.arange(len(self))])


@dataclass(frozen=True, eq=False)
class Calibration:
    """A background, and what makes the scores of queries comparable with it.

    Attributes:
        background: of judged scores.
        mean_query: the mean of background queries, with a row for each wanted modality; None where hubness
            does not count.
        sample: the items that a query's level and hubness are told by.
        level_weight: how much a query's level counts.
    """

    background: ScoreBackground
    mean_query: QueryBatch | None
    sample: Sample
    level_weight: float = 0.0

    @cached_property
    def _hubness(self) -> np.ndarray:
        """What the sample scores for background queries on average, as scores are linear in the query."""
        assert self.mean_query is not None
        return self.sample.scores(self.mean_query)

    def offset(self, query: QueryBatch) -> float:
        """What is added to the scores of one query's hits to judge them."""
        if not len(self.sample) or (self.mean_query is None and not self.level_weight):
            return 0.0
        scores = self.sample.scores(query)
        offset = self.level_weight * float(np.quantile(scores, LEVEL))
        if self.mean_query is not None:
            nearest = np.argsort(-scores, kind="stable")[: int(np.ceil(NEAREST * len(scores)))]
            offset -= HUBNESS_WEIGHT * float(self._hubness[nearest].mean())
        return offset


@dataclass(frozen=True, eq=False)
class Calibrations:
    """The calibrations of the index at `path`, measured when they are first needed and kept in its folder."""

    path: Path
    _locks: defaultdict[str, threading.Lock] = field(default_factory=partial(defaultdict, threading.Lock))
    _measured: dict[str, tuple[int, int, Calibration]] = field(default_factory=dict)

    def get(self, snapshot: Snapshot, kind: QueryKind, modalities: Sequence[Modality]) -> Calibration:
        """The calibration for this kind of query and these wanted modalities (none for any)."""
        name = "-".join([kind, *(modality.value for modality in modalities)])
        if (known := self._known(name, snapshot)) is not None:
            return known
        with self._locks[name]:  # what is measured already waits for nothing else
            if (known := self._known(name, snapshot)) is not None:
                return known
            sample = Sample.draw(snapshot.searcher, modalities)
            stored = self._read(name, snapshot, sample)
            if stored is None:
                log.info("Measuring what queries without an answer score here, which is kept.")
                calibration = self._measure(snapshot, kind, modalities, sample)
                self._write(name, snapshot, calibration)
                stored = snapshot.next_key, calibration
            self._measured[name] = stored[1].background.items, *stored
            return stored[1]

    def _known(self, name: str, snapshot: Snapshot) -> Calibration | None:
        """What was measured or read before, if it still fits."""
        items, next_key, calibration = self._measured.get(name, (0, 0, None))
        return None if is_outdated(items, len(snapshot), snapshot.next_key - next_key) else calibration

    # --- measuring

    def _measure(
        self, snapshot: Snapshot, kind: QueryKind, modalities: Sequence[Modality], sample: Sample
    ) -> Calibration:
        if kind == "item" or snapshot.model.takes_vectors:
            chosen = snapshot.searcher.sample(ANY, MAX_QUERIES, np.random.default_rng(SEED))
            queries = [embed_item(snapshot.model, item, modalities) for item in snapshot.stored_rows(chosen)]
            return Calibration(_by_items(sample, queries, chosen, len(snapshot)), None, sample)
        texts: Sequence[str | None] = everyday_queries()
        empty = ScoreBackground(np.zeros((0, len(RANKS)), np.float32), len(snapshot))
        if kind == "text":
            queries = self._embed(snapshot, [*map(Query, texts)], modalities)
            calibration = Calibration(empty, _mean(queries), sample, LEVEL_WEIGHT)
            return _by_queries(snapshot, queries, calibration, COUNTED)
        images = empty_images()
        if kind == "image":
            texts = [None] * len(images)
        contents = [Query(text, image) for image, text in zip(images, texts, strict=False)]
        queries = self._embed(snapshot, contents, modalities)
        calibration = Calibration(empty, None, sample, LEVEL_WEIGHT_OF_IMAGES)
        return _by_queries(snapshot, queries, calibration, COUNTED_IMAGES)

    def _embed(
        self, snapshot: Snapshot, queries: Sequence[Query], modalities: Sequence[Modality]
    ) -> list[QueryBatch]:
        """Each query as a search for these modalities embeds it."""
        options, rows = SearchOptions(only=tuple(modalities)), max(1, len(modalities))
        embedded: list[QueryBatch] = []
        for start in range(0, len(queries), FEW):
            block = [targeted(query, options, {}) for query in queries[start : start + FEW]]
            batch = embed_queries(snapshot.model, block)
            embedded += [batch[slice(row, row + rows)] for row in range(0, len(batch), rows)]
        return embedded

    # --- keeping

    def _read(self, name: str, snapshot: Snapshot, sample: Sample) -> tuple[int, Calibration] | None:
        """What is kept under a name, with the next item key of that time, if it still fits."""
        try:
            artifact = storage.open(self.path / FOLDER / name, kind=KIND, format=FORMAT)
            settings = artifact.manifest.settings
            arrays = dict(np.load(artifact.file("background.npz"), allow_pickle=False))
        except (GeniusError, OSError, ValueError):
            return None  # not measured yet, or damaged: what can be measured again need not be mourned
        items, next_key = int(settings["items"]), int(settings["next_key"])
        if artifact.manifest.made_from.get("model") != snapshot.model.fingerprint:
            return None
        if is_outdated(items, len(snapshot), snapshot.next_key - next_key):
            return None
        mean = QueryBatch(**{part: arrays[part] for part in ARRAYS}) if "want" in arrays else None
        background = ScoreBackground(arrays["tails"], items)
        return next_key, Calibration(background, mean, sample, float(settings["level_weight"]))

    def _write(self, name: str, snapshot: Snapshot, calibration: Calibration) -> None:
        """Keep it for later, if the folder can be written to."""
        mean, background = calibration.mean_query, calibration.background
        arrays = {} if mean is None else {part: getattr(mean, part) for part in ARRAYS}
        with (
            contextlib.suppress(OSError, GeniusError),
            storage.create(
                self.path / FOLDER / name,
                kind=KIND,
                format=FORMAT,
                settings={
                    "items": background.items,
                    "next_key": snapshot.next_key,
                    "level_weight": calibration.level_weight,
                },
                made_from={"model": snapshot.model.fingerprint},
            ) as draft,
        ):
            np.savez(draft.folder / "background.npz", tails=background.tails, **arrays)
            draft.counts["queries"] = len(background)


def query_kind(number: int) -> QueryKind:
    """The kind of a query by its number in a batch (`QueryBatch.kinds`)."""
    return "image" if number == IMAGE_QUERY else "both" if number == BOTH_QUERY else "text"


def _by_queries(
    snapshot: Snapshot,
    queries: Sequence[QueryBatch],
    calibration: Calibration,
    counted: tuple[float, float],
) -> Calibration:
    """With the background of queries that nothing answers: what their best hits are judged by."""
    rows = len(queries[0])
    results = [
        result
        for start in range(0, len(queries), BATCH)
        for result in snapshot.searcher.search(concatenated(queries[start : start + BATCH]), RANKS[-1], BEAMS)
    ]
    tails = [
        _tail(
            np.concatenate([result.similarities for result in results[row : row + rows]]),
            calibration.offset(query),
        )
        for row, query in zip(range(0, len(results), rows), queries, strict=True)
    ]
    nearest_first = np.argsort([-tail[0] for tail in tails], kind="stable")
    first, last = (round(share * len(tails)) for share in counted)
    kept = np.array(tails, np.float32)[nearest_first[first:last]]
    return replace(calibration, background=ScoreBackground(kept, len(snapshot)))


def _mean(queries: Sequence[QueryBatch]) -> QueryBatch:
    """The mean of queries, row by row."""
    stacked = (np.stack([getattr(query, name) for query in queries]) for name in ("vectors", "embeddings"))
    vectors, embeddings = (array.mean(axis=0, dtype=np.float64).astype(np.float32) for array in stacked)
    return replace(queries[0], vectors=vectors, embeddings=embeddings)


def _by_items(
    sample: Sample, queries: Sequence[QueryBatch], rows: np.ndarray | None, items: int
) -> ScoreBackground:
    """By items of the collection: what the best of those score that are not like them.

    `rows` are their own, to be left out where the sample has them.
    """
    tails = []
    for number, query in enumerate(queries):
        scores = sample.scores(query)
        others = scores if rows is None else scores[sample.rows != rows[number]]
        alike = int(np.ceil((1 - LEVEL) * len(others)))
        tails.append(_tail(-np.sort(-others)[alike:], 0.0))
    return ScoreBackground(np.array(tails, np.float32).reshape(-1, len(RANKS)), items)


def _tail(scores: np.ndarray, offset: float) -> np.ndarray:
    """The scores at RANKS, best first; -inf where there are fewer."""
    best = np.full(RANKS[-1], -np.inf)
    ordered = -np.sort(-scores)[: RANKS[-1]]
    best[: len(ordered)] = ordered + offset
    return np.asarray(best[np.array(RANKS) - 1])
