"""The systems that search by vectors and codes.

`dense-z` is exact search by fused vectors; `codes` looks at the quantized vector of every item of the wanted
modality. `geometry` is the beam search under the trie, scored by distances alone; `genius` is scored by the
learned decoder, as published. With `+rerank`, all items under the beams are ordered by joined embeddings and
codes together (search/blend.py). `cells` takes all items in the cells nearest to the query (those of the
first semantic level) and orders them likewise, as an inverted file would. `default` is what an index does of
its own: its decoder's beams stop at the first semantic level, and all items below are ordered by how near the
query is to their codes, and in `default+rerank` by embeddings and codes together.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from genius.corpus.embedded import Embedded
from genius.data.tasks import Task
from genius.decode.decoder import Decoder
from genius.evaluate.beamed import Beamed, Coded, Pools
from genius.evaluate.dense import Indexes, without
from genius.evaluate.protocol import Found, Search
from genius.model import Model
from genius.search.beam import BEAMS


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
    by_vectors, by_codes = Indexes(coded.vectors), Indexes(model.quantizer.units(coded.codes))
    embedded, pools = coded.embedded, Pools(model, coded)

    def wanted(task: Task, members: np.ndarray) -> np.ndarray:
        return np.asarray(members[embedded.pool.modality[members] == embedded.tasks[task].want])

    by_decoder: dict[int, Beamed] = {}

    def beamed(decoder: Decoder) -> Beamed:
        # A default that is one of the others shares its decodes.
        if id(decoder) not in by_decoder:
            by_decoder[id(decoder)] = Beamed(model, coded, pools, decoder, beams=beams, want=want)
        return by_decoder[id(decoder)]

    geometry, default = beamed(model.geometry), beamed(model.geometry)
    cells = model.quantizer.semantic + 1
    systems: dict[str, Search] = {
        "dense-z": lambda task, members: by_vectors.search(coded.queries[task], members),
        "codes": lambda task, members: by_codes.search(coded.queries[task], wanted(task, members)),
        "cells": lambda task, members: geometry.reranked(task, members, cells),
        **_rankings("geometry", geometry),
    }
    if "decoder" in model.stages:
        systems |= _rankings("genius", beamed(model.learned))
    systems |= {
        "default": lambda task, members: default.finished(task, members, cells),
        "default+rerank": lambda task, members: default.reranked(task, members, cells),
    }
    if excluding is None:
        return systems
    return {name: _excluding(system, excluding) for name, system in systems.items()}


def _rankings(name: str, searched: Beamed) -> dict[str, Search]:
    return {
        name: searched.plain,
        f"{name}+rerank": lambda task, members: searched.reranked(task, members, searched.levels),
    }


def _excluding(system: Search, left_out: Mapping[Task, list[np.ndarray]]) -> Search:
    def search(task: Task, members: np.ndarray) -> Found:
        return without(system(task, members), left_out[task])

    return search
