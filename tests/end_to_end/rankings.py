"""What an index finds for the test queries of a tree, to be compared with the rows of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

import pytest

from genius import Index, Model
from genius.data.mbeir import Tree
from genius.data.tasks import Task
from genius.index.query import SearchKeywords

TOLERANCE = 1e-6
"""How far scores may be apart: an index embeds queries in other batches than an evaluation does."""

Ranking = list[tuple[str, float]]
"""Item ids with their scores, best first."""


def make_index(path: Path, model: Model, tree: Tree, cache: Path) -> Index:
    """An index of all items of a tree that can be read."""
    index = Index.create(path, model)
    index.add(tree, cache=cache)
    return index


def rankings(index: Index, tree: Tree, task: Task, **options: Unpack[SearchKeywords]) -> dict[str, Ranking]:
    """What an index finds for each test query of a task, which has its own instruction, by query id."""
    queries = list(tree.queries("test", task))
    options["only"] = task.target
    results = index.search_many(queries, **options)
    return {
        query.id: [(hit.item.id, hit.score) for hit in hits]
        for query, hits in zip(queries, results, strict=True)
    }


def readable(rankings: Mapping[str, Ranking], index: Index) -> dict[str, Ranking]:
    """Rankings without items that are not in the index."""
    return {
        query: [(item, score) for item, score in ranking if item in index]
        for query, ranking in rankings.items()
    }


def assert_same_rankings(
    actual: Mapping[str, Ranking], expected: Mapping[str, Ranking], tolerance: float = TOLERANCE
) -> None:
    """Whether items and scores are the same; items whose scores tie may be in any order."""
    assert list(actual) == list(expected)
    for query, ranking in expected.items():
        scores = [score for _, score in actual[query]]
        assert scores == pytest.approx([score for _, score in ranking], abs=tolerance, rel=0), query
        assert _by_score(actual[query], tolerance) == _by_score(ranking, tolerance), query


def _by_score(ranking: Ranking, tolerance: float) -> list[set[str]]:
    """The items in groups of equal scores: each is within twice the tolerance of the one before it."""
    groups: list[set[str]] = []
    last = float("inf")
    for item, score in ranking:
        if last - score > 2 * tolerance:
            groups.append(set())
        groups[-1].add(item)
        last = score
    return groups
