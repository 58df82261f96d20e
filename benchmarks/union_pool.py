"""The union pool of a benchmark, searched by a model's engine and decoders; not a script itself.

`read_splits` embeds items and queries, `UnionPool` searches them, and `SearchTrace` is one such search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from genius.corpus.coded import CodedCorpus, code_corpus
from genius.corpus.embedded import EmbeddedCorpus, embed_corpus
from genius.corpus.items import read_items, union_members
from genius.corpus.queries import TaskQueries, read_queries
from genius.corpus.source import open_source
from genius.data.mbeir import Split, Tree
from genius.decode.decoder import Decoder
from genius.encode import pipeline
from genius.evaluate.run import seen_answers
from genius.evaluate.systems import DenseSearch, of_wanted_modality, pool_segment
from genius.model import Model
from genius.quantize.fusion_inputs import FusionInputs
from genius.search.beam import History, gather, prefix_survival
from genius.search.engine import Candidates, Engine
from genius.search.scoring import Scorer
from genius.search.segment_view import SegmentView
from genius.train.pairs import hit_rate

K = 5
"""Hit rates are @5."""


def read_splits(model: Model, tree: Tree, *splits: tuple[Split, int]) -> list[EmbeddedCorpus]:
    """A corpus for each split, with at most the given number of queries of each task, or all for 0.

    All share the tree's items, embedded once; the pool is the one of the last split.
    """
    source = open_source(model, tree, pipeline.default_cache())
    pool = read_items(tree, source, splits[-1][0])
    embedded: list[EmbeddedCorpus] = []
    for split, queries in splits:
        tasks = read_queries(tree, source, pool, split, apart=model.instruction_apart)
        if queries:
            tasks = [task.sampled(queries, seed=0) for task in tasks]
        items = embedded[0].items if embedded else None
        embedded.append(embed_corpus(model, source, pool, tasks, items=items))
    return embedded


def code_queries(
    embedded: EmbeddedCorpus,
    vectors: np.ndarray,
    codes: np.ndarray,
    fuse: Callable[[FusionInputs], np.ndarray],
) -> CodedCorpus:
    """A corpus whose items already have vectors [items, width] and codes [items, levels].

    `fuse` makes the vectors [queries, width] of its queries.
    """
    queries = {task: fuse(inputs) for task, inputs in embedded.queries.items()}
    return CodedCorpus(embedded, vectors, codes, queries)


def hit_percent(task: TaskQueries, queries: np.ndarray, items: np.ndarray) -> float:
    """The hit rate in percent of queries, by number [n], with their results, item numbers [n, k]."""
    return 100 * hit_rate(task, queries, items)


@dataclass(frozen=True, eq=False)
class SearchTrace:
    """A search of the queries of a task, with its beams after each level.

    Attributes:
        engine: over the union pool; item keys are item numbers.
        candidates: the items below the beams at the end.
        history: the beams after each level.
        scorer: what candidates are re-ranked by.
    """

    engine: Engine
    candidates: Candidates
    history: History
    scorer: Scorer

    def plain(self) -> np.ndarray:
        """The numbers of the best items by log-probability, [queries, K]."""
        return self._rank(plain=True)

    def reranked(self) -> np.ndarray:
        """The numbers of the best items by embeddings and codes, [queries, K]."""
        return self._rank(plain=False)

    def _rank(self, *, plain: bool) -> np.ndarray:
        return self.engine.rank(self.candidates, self.scorer, K, plain=plain).item_keys

    @property
    def num_candidates(self) -> float:
        """The mean number of items below the beams of a query."""
        return float(self.candidates.beams.num_candidates.mean())

    def stopped(self, depth: int) -> SearchTrace:
        """The same search, stopped after `depth` levels."""
        segments, vectors = self.engine.segments, self.candidates.vectors
        beams = gather(segments, self.history[depth - 1], np.full(len(vectors), depth))
        candidates = Candidates(vectors, beams, self.candidates.modes)
        return SearchTrace(self.engine, candidates, self.history[:depth], self.scorer)


@dataclass(frozen=True, eq=False)
class UnionPool:
    """Coded queries of a split, and the union pool that they are searched in.

    Attributes:
        model: made the codes, and says how candidates are re-ranked.
        coded: items and queries.
        members: the numbers of the items in the union pool.
    """

    model: Model
    coded: CodedCorpus
    members: np.ndarray

    @classmethod
    def read(cls, model: Model, tree: Tree, split: Split, queries: int) -> UnionPool:
        """Embed and code the items of a tree and at most `queries` queries of each task, or all for 0."""
        (embedded,) = read_splits(model, tree, (split, queries))
        # Identifiers of a rival may be made of the items' texts.
        source = None if model.has_code_vectors else open_source(model, tree, pipeline.default_cache())
        return cls(model, code_corpus(model, embedded, source), union_members(tree, embedded.pool, split))

    @property
    def tasks(self) -> list[TaskQueries]:
        """The queries by task."""
        return list(self.coded.embedded.tasks.values())

    @cached_property
    def segment(self) -> SegmentView:
        """The items as an index keeps them."""
        return pool_segment(self.model, self.coded, self.members).view(np.zeros(0, np.int64))

    @cached_property
    def row_of_item(self) -> np.ndarray:
        """The sorted row of each item by number, -1 for items outside of the union pool."""
        rows = np.full(len(self.coded.codes), -1)
        assert self.segment.item_keys is not None
        rows[self.segment.item_keys] = np.arange(len(self.members))
        return rows

    def engine(self, decoder: Decoder) -> Engine:
        """An engine over the pool."""
        return Engine([self.segment], decoder, self.model.code_space.codebooks)

    def scorer(self, engine: Engine, candidates: Candidates, task: TaskQueries) -> Scorer:
        """What the candidates of a task's queries are re-ranked by."""
        inputs = self.coded.embedded.queries[task.task]
        return engine.scorer(candidates, inputs.embeddings, self.model.rerank_weights(inputs.kinds))

    def search(self, decoder: Decoder, task: TaskQueries, beams: int) -> SearchTrace:
        """Search all queries of a task through all levels, the wanted modality known."""
        engine, history = self._engine_for(task, decoder), History()
        candidates = engine.find(
            self.coded.queries[task.task],
            modality_code=self.modality_code(task),
            beams=beams,
            mode="paper",
            history=history,
        )
        return SearchTrace(engine, candidates, history, self.scorer(engine, candidates, task))

    def _engine_for(self, task: TaskQueries, decoder: Decoder) -> Engine:
        """An engine over the items that a task wants; where a given modality code says so, over all."""
        engine = self.engine(decoder)
        if self.model.code_space.modality_code == "given":
            return engine
        assert self.segment.item_keys is not None
        return engine.restricted([self.coded.embedded.pool.modality[self.segment.item_keys] == task.want])

    def modality_code(self, task: TaskQueries) -> np.ndarray | None:
        """The modality code that each query of a task wants [queries]; None without such a code."""
        return self.model.modality_codes_for(task.want, len(task))

    def survival(self, trace: SearchTrace, task: TaskQueries) -> np.ndarray:
        """The share of queries with a positive in the beams after each level, [levels]."""
        rows = [self.row_of_item[task.positives(query)] for query in range(len(task))]
        return prefix_survival(trace.history, [inside[inside >= 0] for inside in rows])

    @cached_property
    def dense_baseline(self) -> float:
        """Dense search among items of the wanted modality: hit rate @5 in percent, the mean over tasks."""
        embedded, coded = self.coded.embedded, self.coded
        dense = (
            DenseSearch(coded.vectors, coded.queries)
            if self.model.dense_baseline == "vectors"
            else DenseSearch(
                embedded.items.embeddings,
                {task: inputs.embeddings for task, inputs in embedded.queries.items()},
            )
        )
        hits = []
        for task in self.tasks:
            numbers = dense.search(task.task, self.wanted(task)).numbers[:, :K]
            hits.append(hit_percent(task, np.arange(len(task)), numbers))
        return float(np.mean(hits))

    def wanted(self, task: TaskQueries) -> np.ndarray:
        """The numbers of the items in the union pool that have the modality that a task wants."""
        return of_wanted_modality(self.coded.embedded, task.task, self.members)

    def hit_percents(
        self, find: Callable[[TaskQueries], np.ndarray], seen: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """Hit rates of a search in percent: the mean over tasks, over data sets, of queries whose answers are
        not among those `seen`, and each data set's.

        `find` gives the numbers of the items found for each query of a task [queries, K].
        """
        by_task, unseen, by_dataset = [], [], dict[str, list[float]]()
        for task in self.tasks:
            results, rows = find(task), np.arange(len(task))
            by_task.append(hit_percent(task, rows, results))
            by_dataset.setdefault(task.task.dataset, []).append(by_task[-1])
            new = ~seen[str(task.task)]
            if new.any():
                unseen.append(hit_percent(task, rows[new], results[new]))
        datasets = {name: float(np.mean(values)) for name, values in by_dataset.items()}
        means = {"mean": by_task, "over data sets": list(datasets.values()), "unseen": unseen}
        return {name: float(np.mean(values)) for name, values in means.items() if values} | datasets

    def seen(self, tree: Tree) -> dict[str, np.ndarray]:
        """By task: whether an answer of each query was an answer in the model's training, bool [queries]."""
        seen = seen_answers(self.model, tree, self.coded.embedded.pool, self.tasks) or {}
        return {
            str(task.task): np.array(seen.get(task.task, np.zeros(len(task))), bool) for task in self.tasks
        }
