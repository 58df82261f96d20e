"""A learned first code for searches of few beams, beside geometry's.

    python benchmarks/routing.py --tree TREE --model MODEL [--steps 300] [--queries 300] [--json]
    python benchmarks/routing.py --tree TREE --model MODEL --split test --final

A search of one to three beams looks into as many cells (the items of a first semantic code), so that much
depends on which. A network adds to geometry's scores of cells what it learned from queries and the cells of
their answers: of answers that stages 0 and 1 never saw (the model's recipe has `held_out`), and of as many
that they did. Below a cell everything is ranked by codes. Measured in the union pool among items of the
wanted modality: hit rate @5 in percent, as `correction.py` has it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from correction import SOURCES, Pairs, read_trial
from figures import print_table
from torch import nn
from torch.nn import functional
from union_pool import K, UnionPool

from genius.corpus.coded import CodedCorpus
from genius.corpus.queries import TaskQueries
from genius.display import Table
from genius.index.decoders import Decoders
from genius.model import Model
from genius.train.loop import prepare_torch

BEAMS = (1, 2, 3, 10, 50)
BATCH, RATE, HIDDEN, DECAY = 256, 1e-3, 512, 0.05


def main() -> None:
    """Train the network on both kinds of pairs, and print."""
    options, model, training, pool, pairs, seen = read_trial(__doc__, steps=300)
    rows: list[dict[str, Any]] = []
    routers: dict[str, Router] = {"geometry": Router(model)}
    for source, chosen in zip(SOURCES, pairs, strict=True):
        router = Router(model)
        router.train_on(training, chosen, options.steps, options.seed)
        routers[f"learned from {source}"] = router
    for beams in BEAMS:
        for name, router in routers.items():
            hits = pool.hit_percents(lambda task, r=router, b=beams: search(pool, r, task, b), seen)  # type: ignore[misc]
            rows.append({"first code": name, "beams": beams, **hits})
    table = Table(tuple(rows[0]))
    for row in rows:
        table.add(*row.values())
    print_table(table, rows, as_json=options.json)


class Router:
    """Scores of the first semantic codes: geometry's, and what a network adds to them, at first nothing."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._geometry = Decoders(model).choose("fast", "geometry").decoder
        self.level = model.quantizer.semantic
        cells = model.quantizer.sizes[self.level]
        prepare_torch(0)
        self._network = nn.Sequential(
            nn.Linear(model.vector_width, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, cells)
        )
        for parameter in self._network[2].parameters():
            nn.init.zeros_(parameter)

    def scores(self, vectors: np.ndarray, modality_codes: np.ndarray | None) -> torch.Tensor:
        """Of queries [n, width] behind their modality codes, [n, codes]."""
        geometric = self._geometry.begin(vectors, modality_codes).scores()
        learned: torch.Tensor = self._network(torch.from_numpy(np.asarray(vectors, np.float32)))
        return torch.from_numpy(np.asarray(geometric)) + learned

    def train_on(self, training: CodedCorpus, pairs: Pairs, steps: int, seed: int) -> None:
        """Train by cross-entropy of the cells of queries' answers."""
        vectors, answers = pairs
        codes = training.codes[answers]
        optimizer = torch.optim.AdamW(self._network.parameters(), lr=RATE, weight_decay=DECAY)
        for step in range(steps):
            random = np.random.default_rng([seed, step])
            rows = random.choice(len(vectors), min(BATCH, len(vectors)), replace=False)
            known = codes[rows, 0].astype(np.int64) if self.level else None
            targets = torch.from_numpy(codes[rows, self.level].astype(np.int64))
            loss = functional.cross_entropy(self.scores(vectors[rows], known), targets)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def search(pool: UnionPool, router: Router, task: TaskQueries, beams: int) -> np.ndarray:
    """The best items by codes [queries, K] in the best cells of each query; −1 where there are no more."""
    wanted = pool.wanted(task)
    scores = scores_in_cells(pool, router, task, pool.coded.codes[wanted], beams)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :K]
    return np.where(np.isfinite(np.take_along_axis(scores, best, 1)), wanted[best], -1)


@torch.no_grad()
def scores_in_cells(
    pool: UnionPool, router: Router, task: TaskQueries, codes: np.ndarray, beams: int
) -> np.ndarray:
    """The scores [queries, n] of codes [n, levels], −∞ outside of the best cells of each query."""
    vectors = pool.coded.queries[task.task]
    cells = router.scores(vectors, pool.modality_code(task)).numpy()
    present = np.unique(codes[:, router.level])  # a beam goes to a cell that exists
    best = np.argsort(-cells[:, present], axis=1, kind="stable")[:, :beams]
    is_chosen = np.zeros(cells.shape, bool)
    np.put_along_axis(is_chosen, present[best], True, axis=1)
    scores = code_scores(pool.model, vectors, codes)
    scores[~is_chosen[:, codes[:, router.level]]] = -np.inf
    return scores


def code_scores(model: Model, vectors: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """How well codes [n, levels] match queries [queries, width], as an index ranks them."""
    quantized = model.quantizer.reconstruct(codes)
    return np.asarray(vectors @ quantized.T - model.quantizer.half_sq_norms(codes))


if __name__ == "__main__":
    main()
