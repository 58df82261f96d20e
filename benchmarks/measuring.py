"""What the scripts that measure searches share: a split as a model sees it, figures that are kept, a table.

No script of its own.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from genius.corpus.coded import CodedCorpus
from genius.corpus.embedded import EmbeddedCorpus, embed_corpus
from genius.corpus.items import read_items
from genius.corpus.queries import TaskQueries, read_queries
from genius.corpus.source import open_source
from genius.data.mbeir import Split, Tree
from genius.decode.decoder import Decoder
from genius.decode.onnx_decoder import TABLE, OnnxDecoder
from genius.display import Table
from genius.encode import pipeline
from genius.evaluate.run import seen_answers
from genius.evaluate.systems import DenseSearch, of_wanted_modality, pool_segment
from genius.model import Model
from genius.search.beam import History, gather, prefix_survival
from genius.search.engine import Candidates, Engine
from genius.search.segment_view import SegmentView
from genius.train.decoder import DecoderStage
from genius.train.pairs import hit_rate
from genius.train.run import Recipe, read_recipe

ROOT = Path(__file__).parents[1]
K = 5


def add_split(parser: argparse.ArgumentParser) -> None:
    """The options of every script: which split, and that test is for the end."""
    parser.add_argument("--split", choices=("val", "test"), default="val")
    parser.add_argument("--final", action="store_true", help="allow the test split")
    parser.add_argument("--json", action="store_true", help="also print a JSON line for each row")


def check_split(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Split:
    """The split, if it may be looked at."""
    if options.split == "test" and not options.final:
        parser.error("the test split is looked at with --final only")
    return "test" if options.split == "test" else "val"


def add_recipe(parser: argparse.ArgumentParser) -> None:
    """The options of scripts that train a model of their own."""
    parser.add_argument("--recipe", type=Path, default=ROOT / "recipes" / "minibeir.toml")
    parser.add_argument("--model", type=Path, help="where the trained model is kept; by default in out/")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--force", action="store_true", help="train a decoder on broken codes, too")


def recipe_of(options: argparse.Namespace) -> Recipe:
    """The recipe, with another seed if one is given."""
    recipe = read_recipe(options.recipe)
    return recipe if options.seed is None else dataclasses.replace(recipe, seed=options.seed)


class Kept:
    """Figures by name in a file of JSON lines: what is there is not measured again."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text("utf-8").splitlines(keepends=True) if path.is_file() else []
        whole = [line for line in lines if line.endswith("\n")]  # a kill may leave half a line
        if len(whole) < len(lines):
            path.write_text("".join(whole), "utf-8")
        self._path, self._known = path, dict(json.loads(line) for line in whole)

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def __getitem__(self, name: str) -> dict[str, Any]:
        return self._known[name]

    def __setitem__(self, name: str, figures: dict[str, Any]) -> None:
        self._known[name] = figures
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([name, figures]) + "\n")


def show(table: Table, rows: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    """Print a table in Markdown, and if asked for its rows as JSON lines before it."""
    if as_json:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
    print(table.markdown(), flush=True)


def trained_on(arrays: Iterable[np.ndarray], seed: int, settings: Any) -> str:
    """Short for what something is trained with: other arrays, another seed or setting is another run."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array))
    text = json.dumps([digest.hexdigest(), seed, dataclasses.asdict(settings)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def exported(stage: DecoderStage, threads: int | None = None) -> OnnxDecoder:
    """A trained decoder as searching runs it, by default on all cores."""
    graphs, table = stage.export().graphs["fp32"], stage.decoder.state_dict()[TABLE].cpu().numpy()
    return OnnxDecoder(graphs, table, stage.decoder.sizes, threads)


def read_splits(model: Model, tree: Tree, *splits: tuple[Split, int]) -> list[EmbeddedCorpus]:
    """The tree's items, embedded once, with the queries of each split: of a task up to so many, 0 is all.

    The pool is the one in which the last split's queries are answered.
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


@dataclass(frozen=True, eq=False)
class Searched:
    """What an engine found for the queries of a task, with its beams after each level.

    Attributes:
        engine: over the union pool; item keys are item numbers.
        candidates: what is below the beams at the end.
        history: the beams after each level.
        embeddings: of the queries.
    """

    engine: Engine
    candidates: Candidates
    history: History
    embeddings: np.ndarray

    def plain(self) -> np.ndarray:
        """The numbers of the best items by log-probability, [queries, K]."""
        return self._ranked(plain=True)

    def reranked(self) -> np.ndarray:
        """The numbers of the best items by embeddings and codes, [queries, K]."""
        return self._ranked(plain=False)

    def _ranked(self, *, plain: bool) -> np.ndarray:
        scorer = self.engine.scorer(self.candidates, self.embeddings)
        return self.engine.rank(self.candidates, scorer, K, plain=plain).item_keys

    @property
    def num_candidates(self) -> float:
        """How many items are below the beams, on average."""
        return float(self.candidates.beams.num_candidates(self.engine.segments).mean())

    def stopped(self, depth: int) -> Searched:
        """The search as it would be if it had stopped after so many levels."""
        segments, vectors = self.engine.segments, self.candidates.vectors
        beams = gather(segments, self.history[depth - 1], np.full(len(vectors), depth))
        candidates = Candidates(vectors, beams, self.candidates.modes)
        return Searched(self.engine, candidates, self.history[:depth], self.embeddings)


@dataclass(frozen=True, eq=False)
class Field:
    """Coded queries of a split, and the union pool in which they are answered.

    Attributes:
        model: whose codes they are, and how it re-ranks.
        coded: items and queries.
        members: the numbers of the union's items.
    """

    model: Model
    coded: CodedCorpus
    members: np.ndarray

    @property
    def tasks(self) -> list[TaskQueries]:
        """The queries by task."""
        return list(self.coded.embedded.tasks.values())

    @cached_property
    def segment(self) -> SegmentView:
        """The union's items as an index keeps them."""
        return pool_segment(self.model, self.coded, self.members).view(np.zeros(0, np.int64))

    @cached_property
    def row_of_item(self) -> np.ndarray:
        """The sorted row of each item by number, -1 for items outside of the union."""
        rows = np.full(len(self.coded.codes), -1)
        assert self.segment.item_keys is not None
        rows[self.segment.item_keys] = np.arange(len(self.members))
        return rows

    def engine(self, decoder: Decoder) -> Engine:
        """The engine over the union pool."""
        return Engine([self.segment], decoder, self.model.quantizer.codebooks, self.model.rerank_weight)

    def search(self, decoder: Decoder, task: TaskQueries, beams: int) -> Searched:
        """Search all queries of a task through all levels; they know the wanted modality."""
        engine, history = self.engine(decoder), History()
        candidates = engine.find(
            self.coded.queries[task.task],
            modality_code=self.modality_code(task),
            beams=beams,
            mode="paper",
            history=history,
        )
        return Searched(engine, candidates, history, self.coded.embedded.queries[task.task].embeddings)

    def modality_code(self, task: TaskQueries) -> np.ndarray | None:
        """The first code that the queries of a task want."""
        return self.model.modality_codes_for(task.want, len(task))

    def survival(self, searched: Searched, task: TaskQueries) -> np.ndarray:
        """The share of queries with a positive in the beams, after each level."""
        rows = [self.row_of_item[task.positives(query)] for query in range(len(task))]
        return prefix_survival(searched.history, [inside[inside >= 0] for inside in rows])

    @cached_property
    def dense_baseline(self) -> float:
        """Dense search of the wanted modality: hit rate @5 in percent, the mean over tasks."""
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
            wanted = of_wanted_modality(embedded, task.task, self.members)
            numbers = dense.search(task.task, wanted).numbers[:, :K]
            hits.append(100 * hit_rate(task, np.arange(len(task)), numbers))
        return float(np.mean(hits))

    def seen(self, tree: Tree) -> dict[str, np.ndarray]:
        """Of each query by task, whether one of its answers was an answer in the model's training."""
        seen = seen_answers(self.model, tree, self.coded.embedded.pool, self.tasks) or {}
        return {
            str(task.task): np.array(seen.get(task.task, np.zeros(len(task))), bool) for task in self.tasks
        }


def hit(task: TaskQueries, queries: np.ndarray, items: np.ndarray) -> float:
    """Hit rate in percent of some queries, by the numbers of the items found for them."""
    return 100 * hit_rate(task, queries, items)
