"""Searches by beams with one decoder: ranked as they come, or everything under them by codes or re-ranked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from genius.corpus.embedded import Embedded
from genius.data.tasks import Task
from genius.decode.decoder import Decoder
from genius.evaluate.per_pool import PerPool
from genius.evaluate.protocol import DEPTH, Found
from genius.model import Model
from tests.oracles.beam import Beams, beam_search, items_under, ranked_items
from tests.oracles.blend import blended_items, blended_queries
from tests.oracles.rerank import rerank
from tests.oracles.trie import Trie

KEPT = 2
"""How many decodes are remembered: one to the end of the code, one that stops early."""


@dataclass(frozen=True)
class Coded:
    """Items and queries of a benchmark by their vectors, and the items by their codes."""

    embedded: Embedded
    vectors: np.ndarray
    codes: np.ndarray
    queries: Mapping[Task, np.ndarray]


class Pools:
    """What searches in the same pools share: the trees of codes, and what items are re-ranked by."""

    def __init__(self, model: Model, coded: Coded) -> None:
        quantized = model.quantizer.reconstruct(coded.codes)
        self.items = blended_items(coded.embedded.items.embeddings, quantized)
        self.trie = PerPool(lambda members: Trie.build(coded.codes[members]))


class Beamed:
    """Beam search with one decoder; one decode serves all rankings of the same depth."""

    def __init__(
        self,
        model: Model,
        coded: Coded,
        pools: Pools,
        decoder: Decoder,
        *,
        beams: int,
        want: bool,
    ) -> None:
        self._model, self._coded, self._pools, self._decoder = model, coded, pools, decoder
        self._beams, self._want = beams, want
        self._last: dict[tuple[Task, bytes, int], tuple[Trie, Beams]] = {}

    @property
    def levels(self) -> int:
        """Of a whole code."""
        return len(self._decoder.sizes)

    def plain(self, task: Task, members: np.ndarray) -> Found:
        """The items under the beams, by the beams' scores."""
        trie, beams = self._search(task, members, self.levels)
        scores, found = ranked_items(trie, beams, DEPTH)
        return Found(scores, np.where(found >= 0, members[found], -1), items_under(trie, beams))

    def finished(self, task: Task, members: np.ndarray, depth: int) -> Found:
        """All items under beams that stop at a depth, by how near the query is to their codes."""
        return self._ranked(task, members, depth, weight=0.0)

    def reranked(self, task: Task, members: np.ndarray, depth: int) -> Found:
        """All items under beams that stop at a depth, by joined embeddings and codes."""
        return self._ranked(task, members, depth, self._model.rerank_weight)

    def _ranked(self, task: Task, members: np.ndarray, depth: int, weight: float) -> Found:
        trie, beams = self._search(task, members, depth)
        embeddings, vectors = self._coded.embedded.queries[task].embeddings, self._coded.queries[task]
        queries = blended_queries(embeddings, vectors, weight)
        scores, rows = rerank(trie, beams, queries, self._pools.items, DEPTH, None, members)
        return Found(scores, np.where(rows >= 0, members[rows], -1), items_under(trie, beams))

    def _first(self, task: Task) -> np.ndarray | None:
        """The first code that a task's queries want, if they are told."""
        wanted = self._coded.embedded.tasks[task].want
        return self._model.modality_codes_for(wanted, len(self._coded.queries[task])) if self._want else None

    def _search(self, task: Task, members: np.ndarray, depth: int) -> tuple[Trie, Beams]:
        key = task, members.tobytes(), depth
        if key not in self._last:
            found = self._decode(task, members, depth)
            if len(self._last) >= KEPT:
                self._last.pop(next(iter(self._last)))
            self._last[key] = self._pools.trie(members), found
        return self._last[key]

    def _decode(self, task: Task, members: np.ndarray, depth: int) -> Beams:
        queries, first, trie = self._coded.queries[task], self._first(task), self._pools.trie(members)
        return beam_search(self._decoder, trie, queries, self._beams, first=first, depth=depth)
