from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("faiss")
pytest.importorskip("usearch")
pytest.importorskip("apsw")
pytest.importorskip("sqlite_vec")

from genius.bench.rivals import faiss_systems, sqlite_vec_system, usearch_system
from genius.bench.world import World


def recall(rows: np.ndarray, truth: np.ndarray) -> float:
    """The mean share of true rows [queries, k] among those found [queries, k]."""
    return float(np.mean([np.isin(best, own).mean() for best, own in zip(truth, rows, strict=True)]))


def test_rivals_that_hold_all_items_find_most_of_what_exact_search_finds(world: World) -> None:
    queries = np.arange(len(world.query_embeddings))
    scores = world.query_embeddings @ world.item_embeddings(np.arange(len(world))).T
    truth = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    systems = [
        *faiss_systems(world, graph_items=700),
        usearch_system(world, items=700),
        sqlite_vec_system(world),
    ]
    least = {
        "faiss flat 8 bit": 0.95,
        "faiss IVF17,SQ8": 0.95,
        "faiss IVF17,PQ8x4np": 0.2,
        "faiss HNSW16,SQ8": 0.95,
        "faiss IVF,SQ8 on our cells": 0.95,
        "usearch HNSW i8": 0.85,
        "sqlite-vec i8": 0.95,
    }
    assert [system.name for system in systems] == list(least)
    for system in systems:
        rows = system.run(queries)
        assert rows is not None
        assert recall(rows, truth) >= least[system.name], system.name


def test_a_graph_holds_a_sample(world: World) -> None:
    held = {system.name: system.num_items for system in faiss_systems(world, graph_items=300)}
    assert held["faiss HNSW16,SQ8"] == 300
    assert held["faiss flat 8 bit"] == 700
    assert usearch_system(world, items=300).num_items == 300
