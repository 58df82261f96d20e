"""A correction behind stage 1, learned from answers that stages 0 and 1 never saw, and from those they did.

    python benchmarks/correction.py --tree TREE --model MODEL [--steps 100] [--queries 300] [--json]
    python benchmarks/correction.py --tree TREE --model MODEL --split test --final

The model's recipe has `held_out` (a row of benchmarks/systems.toml has 0.2). Two corrections of vectors, not
of symbols: a low-rank map of queries, and new vectors for the codes. Each is trained on queries whose answers
were held out, and on as many of those that the stages learned from, by cross-entropy over the answers of a
batch and other items. Measured is the exhaustive search by codes among the items of the wanted modality in
the union pool: hit rate @5 in percent, the mean over tasks and over data sets, that of unseen answers, and by
data set.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from figures import print_table
from options import add_sample_size, add_split, add_tree_and_model, check_split, script_parser
from torch import nn
from torch.nn import functional
from union_pool import K, UnionPool, read_splits

from genius.corpus.coded import CodedCorpus, code_corpus
from genius.corpus.items import union_members
from genius.corpus.queries import TaskQueries
from genius.corpus.source import training_view
from genius.data.mbeir import Split, Tree
from genius.display import Table
from genius.errors import InputError
from genius.model import Model
from genius.search.dense import nearest
from genius.train.loop import prepare_torch
from genius.train.pairs import held_out_items

RANK, BATCH, OTHERS = 32, 256, 1024
RATE, TEMPERATURE = 1e-3, 0.03
KINDS = ("query map", "code vectors")
SOURCES = ("held-out answers", "answers that were learned from")


def main() -> None:
    """Train every correction on both kinds of pairs, and print."""
    options, model, training, pool, pairs, seen = read_trial(__doc__, steps=100)
    rows = [{"correction": "none", "pairs": 0, **measure(pool, Correction(model, ""), seen)}]
    for kind in KINDS:
        for source, chosen in zip(SOURCES, pairs, strict=True):
            corrected = Correction(model, kind)
            train_correction(corrected, training, chosen, options.steps, options.seed)
            name = f"{kind}, {source}"
            rows.append({"correction": name, "pairs": len(chosen[0]), **measure(pool, corrected, seen)})
    table = Table(tuple(rows[0]))
    for row in rows:
        table.add(*row.values())
    print_table(table, rows, as_json=options.json)


Pairs = tuple[np.ndarray, np.ndarray]
"""Vectors of queries [n, width], and the numbers of their first answers [n]."""


class Trial(NamedTuple):
    """What is learned from, held-out pairs and others, and what it is measured on."""

    options: argparse.Namespace
    model: Model
    training: CodedCorpus
    pool: UnionPool
    pairs: tuple[Pairs, Pairs]
    seen: dict[str, np.ndarray]


def read_trial(docstring: str | None, *, steps: int) -> Trial:
    """What the command line asks for; `steps` is how many are taken by default."""
    parser = script_parser(docstring)
    add_tree_and_model(parser, "a model with codes whose recipe has held_out")
    parser.add_argument("--steps", type=int, default=steps, help=f"of training (default: {steps})")
    parser.add_argument("--seed", type=int, default=0)
    add_sample_size(parser, 300)
    add_split(parser)
    options = parser.parse_args()
    split = check_split(parser, options)
    model, tree = Model.open(options.model), Tree(options.tree)
    share = model.settings["recipe"].get("held_out", 0.0)
    if not share:
        raise InputError(f"{model.path} was trained on all answers: say held_out = 0.2 in its recipe")
    training, pool = read_corpora(model, tree, split, options.queries)
    pairs = training_pairs(training, held_out_items(training.embedded.pool.ids, share), options.seed)
    return Trial(options, model, training, pool, pairs, pool.seen(tree))


def read_corpora(model: Model, tree: Tree, split: Split, queries: int) -> tuple[CodedCorpus, UnionPool]:
    """The training queries, and at most `queries` queries of each task of a split, with the items of both."""
    view = training_view(tree, model.settings["recipe"])
    training, measured = read_splits(model, view, ("train", 0), (split, queries))
    coded = code_corpus(model, training)
    vectors = {task: model.query_vectors(inputs) for task, inputs in measured.queries.items()}
    searched = CodedCorpus(measured, coded.vectors, coded.codes, vectors)
    return coded, UnionPool(model, searched, union_members(view, measured.pool, split))


def training_pairs(training: CodedCorpus, held_out: np.ndarray, seed: int) -> tuple[Pairs, Pairs]:
    """The pairs whose answer is held out, and as many of the others, drawn at random."""
    vectors = np.concatenate([training.queries[task] for task in training.embedded.tasks])
    answers = np.concatenate([task.items[task.starts[:-1]] for task in training.embedded.tasks.values()])
    is_new = held_out[answers]
    new, known = np.flatnonzero(is_new), np.flatnonzero(~is_new)
    known = np.random.default_rng(seed).permutation(known)[: len(new)]
    return (vectors[new], answers[new]), (vectors[known], answers[known])


@dataclass(eq=False)
class Correction:
    """What is changed: queries' vectors by a map of low rank, or the vectors of codes; at first neither."""

    model: Model
    kind: str

    def __post_init__(self) -> None:
        width, books = self.model.vector_width, self.model.quantizer.codebooks
        generator = torch.Generator().manual_seed(0)
        self.down = nn.Parameter(torch.randn(width, RANK, generator=generator) / width**0.5)
        self.up = nn.Parameter(torch.zeros(RANK, width))
        self.books = [nn.Parameter(torch.from_numpy(np.array(book, np.float32))) for book in books]

    @property
    def parameters(self) -> list[nn.Parameter]:
        """Those that are trained."""
        return [self.down, self.up] if self.kind == "query map" else self.books

    def queries(self, vectors: np.ndarray) -> torch.Tensor:
        """The vectors of queries, corrected [n, width]."""
        plain = torch.from_numpy(np.asarray(vectors, np.float32))
        return plain + plain @ self.down @ self.up

    def items(self, codes: np.ndarray) -> torch.Tensor:
        """The quantized vectors of items with these codes, corrected [n, width]."""
        known = torch.from_numpy(codes.astype(np.int64))
        return torch.stack([book[known[:, level]] for level, book in enumerate(self.books)]).sum(0)


def code_scores(queries: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
    """How well codes match queries [queries, items], as an index ranks them."""
    return queries @ items.T - 0.5 * items.square().sum(1)


def train_correction(
    correction: Correction, training: CodedCorpus, pairs: Pairs, steps: int, seed: int
) -> None:
    """Train by cross-entropy of the answers of a batch among these and other items of the collection."""
    prepare_torch(seed)
    vectors, answers = pairs
    optimizer = torch.optim.AdamW(correction.parameters, lr=RATE)
    for step in range(steps):
        random = np.random.default_rng([seed, step])
        rows = random.choice(len(vectors), min(BATCH, len(vectors)), replace=False)
        others = random.choice(len(training.codes), min(OTHERS, len(training.codes)), replace=False)
        candidates, targets = np.unique(np.concatenate([answers[rows], others]), return_inverse=True)
        scores = code_scores(correction.queries(vectors[rows]), correction.items(training.codes[candidates]))
        loss = functional.cross_entropy(scores / TEMPERATURE, torch.from_numpy(targets[: len(rows)]))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


@torch.no_grad()
def measure(pool: UnionPool, correction: Correction, seen: dict[str, np.ndarray]) -> dict[str, Any]:
    """Hit rates of the search by codes, in percent."""
    items = correction.items(pool.coded.codes)
    # Half a squared length as one more number, so that the score is an inner product.
    flat = torch.cat([items, -0.5 * items.square().sum(1, keepdim=True)], dim=1).numpy()

    def find(task: TaskQueries) -> np.ndarray:
        vectors, wanted = correction.queries(pool.coded.queries[task.task]), pool.wanted(task)
        queries = torch.cat([vectors, torch.ones(len(vectors), 1)], dim=1).numpy()
        return np.asarray(wanted[nearest(queries, flat[wanted], K)[1]])

    return pool.hit_percents(find, seen)


if __name__ == "__main__":
    main()
