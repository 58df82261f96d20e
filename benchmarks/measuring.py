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

from genius.corpus.embedded import Embedded, embed
from genius.corpus.records import Pool, TaskQueries, read_pool, read_queries
from genius.data.mbeir import UNION, Split, Tree
from genius.decode.decoder import Decoder
from genius.decode.onnx_decoder import TABLE, OnnxDecoder
from genius.display import Table
from genius.doctor.examine import sampled
from genius.encode import pipeline
from genius.evaluate.beamed import Coded
from genius.evaluate.dense import Indexes
from genius.evaluate.run import corpus_source, seen_answers
from genius.model import Model
from genius.train.decoder import DecoderStage
from genius.train.pairs import hit_rate
from genius.train.run import Recipe, read_recipe
from tests.oracles.beam import Beams, beam_search, items_under
from tests.oracles.blend import blended_items, blended_queries
from tests.oracles.rerank import rerank
from tests.oracles.trie import Trie

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


def read_splits(model: Model, tree: Tree, *splits: tuple[Split, int]) -> list[Embedded]:
    """The tree's items, embedded once, with the queries of each split: of a task up to so many, 0 is all.

    The pool is the one in which the last split's queries are answered.
    """
    source = corpus_source(model, tree, pipeline.default_cache())
    pool = read_pool(tree, source, splits[-1][0])
    found: list[Embedded] = []
    for split, queries in splits:
        tasks = read_queries(tree, source, pool, split, apart=model.instruction_apart)
        if queries:
            tasks = [sampled(task, queries, seed=0) for task in tasks]
        found.append(embed(model, source, pool, tasks, items=found[0].items if found else None))
    return found


def union_members(tree: Tree, pool: Pool, split: Split) -> np.ndarray:
    """The numbers of the items in the union pool of a split, or of all items where a tree has none."""
    if UNION not in tree.pools:
        return np.arange(len(pool.ids))
    return np.array([pool.numbers[item.id] for item in tree.pool(UNION, split)], np.int64)


@dataclass(frozen=True, eq=False)
class Field:
    """Coded queries of a split, and the union pool in which they are answered.

    Attributes:
        model: whose codes they are, and how it re-ranks.
        coded: items and queries.
        members: the numbers of the union's items.
    """

    model: Model
    coded: Coded
    members: np.ndarray

    @property
    def tasks(self) -> list[TaskQueries]:
        """The queries by task."""
        return list(self.coded.embedded.tasks.values())

    @cached_property
    def trie(self) -> Trie:
        """Of the union's codes."""
        return Trie.build(self.coded.codes[self.members])

    @cached_property
    def items(self) -> np.ndarray:
        """What the union's items are re-ranked by."""
        quantized = self.model.quantizer.reconstruct(self.coded.codes[self.members])
        return blended_items(self.coded.embedded.items.embeddings[self.members], quantized)

    @cached_property
    def places(self) -> np.ndarray:
        """The place of each item in the union, -1 for none."""
        places = np.full(len(self.coded.codes), -1)
        places[self.members] = np.arange(len(self.members))
        return places

    def search(self, decoder: Decoder, task: TaskQueries, beams: int) -> Beams:
        """The beams of all queries of a task, which are told the wanted modality."""
        vectors = self.coded.queries[task.task]
        return beam_search(decoder, self.trie, vectors, beams, first=self._first(task))

    def reranked(self, task: TaskQueries, beams: Beams) -> np.ndarray:
        """The best items under a decoder's beams by joined embeddings and codes."""
        embeddings, vectors = self.coded.embedded.queries[task.task].embeddings, self.coded.queries[task.task]
        queries = blended_queries(embeddings, vectors, self.model.rerank_weight)
        return rerank(self.trie, beams, queries, self.items, K)[1]

    def _first(self, task: TaskQueries) -> np.ndarray:
        return self.model.modality_codes_for(task.want, len(task))

    def under(self, beams: Beams) -> float:
        """How many items are under the beams, on average."""
        return float(items_under(self.trie, beams).mean())

    def hit(self, task: TaskQueries, rows: np.ndarray, found: np.ndarray) -> float:
        """Hit rate in percent of some queries, by what was found for them: places in the union."""
        return 100 * hit_rate(task, rows, np.where(found >= 0, self.members[found], -1))

    @cached_property
    def dense_baseline(self) -> float:
        """Fair dense search: hit rate @5 in percent, the mean over tasks."""
        embedded, by_vectors = self.coded.embedded, self.model.dense_baseline == "vectors"
        index = Indexes(self.coded.vectors if by_vectors else embedded.items.embeddings)
        hits = []
        for task in self.tasks:
            own = self.coded.queries[task.task]
            asked = own if by_vectors else embedded.queries[task.task].embeddings
            wanted = self.members[embedded.pool.modality[self.members] == task.want]
            found = index.search(asked, wanted).numbers[:, :K]
            hits.append(100 * hit_rate(task, np.arange(len(task)), found))
        return float(np.mean(hits))

    def seen(self, tree: Tree) -> dict[str, np.ndarray]:
        """Of each query by task, whether one of its answers was an answer in the model's training."""
        known = seen_answers(self.model, tree, self.coded.embedded.pool, self.tasks) or {}
        return {
            str(task.task): np.array(known.get(task.task, np.zeros(len(task))), bool) for task in self.tasks
        }


def stopped(beams: Beams, depth: int) -> Beams:
    """The beams as they were after so many levels: what a search that stops there would have."""
    return Beams(beams.scores, beams.codes[:, :, :depth], beams.alive[:depth], beams.gains[:, :, :depth])
