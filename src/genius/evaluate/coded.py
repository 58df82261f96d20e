"""The systems that search by vectors and codes, without a learned decoder.

`dense-z` is exact search by fused vectors; `codes` looks at the quantized vector of every item of the
wanted modality; `geometry` is the beam search under the trie, scored by distances alone; `geometry+rerank`
orders all items under its beams by joined embeddings and codes together (search/blend.py); `cells` takes all
items in the cells nearest to the query (those of the first semantic level) and orders them likewise, as an
inverted file would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from genius.data.tasks import Task
from genius.evaluate.dense import Indexes, without
from genius.evaluate.embedded import Embedded
from genius.evaluate.per_pool import PerPool
from genius.evaluate.protocol import DEPTH, Found, Search
from genius.model import Model
from genius.search.beam import BEAMS, Beams, beam_search, ranked_items
from genius.search.blend import blended_items, blended_queries
from genius.search.rerank import rerank
from genius.search.trie import Trie


@dataclass(frozen=True)
class Coded:
    """Items and queries of a benchmark by their vectors, and the items by their codes."""

    embedded: Embedded
    vectors: np.ndarray
    codes: np.ndarray
    queries: Mapping[Task, np.ndarray]


def code(model: Model, embedded: Embedded) -> Coded:
    """Fuse what is embedded, and code the items."""
    vectors = model.vectors(embedded.items)
    codes = model.quantizer.codes(vectors, embedded.pool.modality)
    queries = {task: model.vectors(parts) for task, parts in embedded.queries.items()}
    return Coded(embedded, vectors, codes, queries)


def coded_systems(
    model: Model,
    coded: Coded,
    *,
    beams: int = BEAMS,
    want: bool = True,
    excluding: Mapping[Task, list[np.ndarray]] | None = None,
) -> dict[str, Search]:
    """The systems by name. Without `want` the searches by beam are not told the wanted modality.

    `excluding` names for each query the items that are left out of its results.
    """
    embedded, levels = coded.embedded, len(model.quantizer.sizes)
    by_vectors, by_codes = Indexes(coded.vectors), Indexes(model.quantizer.units(coded.codes))
    blended = blended_items(embedded.items.joined, model.quantizer.reconstruct(coded.codes))
    tries = PerPool(lambda members: Trie.build(coded.codes[members]))

    def wanted(task: Task, members: np.ndarray) -> np.ndarray:
        return np.asarray(members[embedded.pool.modality[members] == embedded.tasks[task].want])

    last: dict[tuple[Task, bytes, int], tuple[Trie, Beams]] = {}

    def search(task: Task, members: np.ndarray, depth: int) -> tuple[Trie, Beams]:
        key = task, members.tobytes(), depth
        if key not in last:  # one decode serves both rankings
            trie, queries = tries(members), coded.queries[task]
            first = model.wanted_codes(embedded.tasks[task].want, len(queries)) if want else None
            last.clear()
            last[key] = trie, beam_search(model.geometry, trie, queries, beams, first=first, depth=depth)
        return last[key]

    def plain(task: Task, members: np.ndarray) -> Found:
        scores, found = ranked_items(*search(task, members, levels), DEPTH)
        return scores, np.where(found >= 0, members[found], -1)

    def reranked(task: Task, members: np.ndarray, depth: int) -> Found:
        trie, found = search(task, members, depth)
        queries = blended_queries(embedded.queries[task].joined, coded.queries[task], model.rerank_weight)
        scores, rows = rerank(trie, found, queries, blended[members], DEPTH)
        return scores, np.where(rows >= 0, members[rows], -1)

    systems: dict[str, Search] = {
        "dense-z": lambda task, members: by_vectors.search(coded.queries[task], members),
        "codes": lambda task, members: by_codes.search(coded.queries[task], wanted(task, members)),
        "geometry": plain,
        "geometry+rerank": lambda task, members: reranked(task, members, levels),
        "cells": lambda task, members: reranked(task, members, model.quantizer.semantic + 1),
    }
    if excluding is None:
        return systems
    return {name: _excluding(system, excluding) for name, system in systems.items()}


def _excluding(system: Search, left_out: Mapping[Task, list[np.ndarray]]) -> Search:
    return lambda task, members: without(*system(task, members), left_out[task])
