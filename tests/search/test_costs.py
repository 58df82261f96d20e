from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from genius.search import costs
from genius.search.costs import Costs, costs_of, measure
from genius.search.rerank import rank
from genius.search.segment_view import SegmentView
from tests.search.geometric_pool import geometric_pool
from tests.search.whole_numbers import FAST, SCAN


def test_a_search_is_measured_and_then_chosen_by_it() -> None:
    engine, vectors, _ = geometric_pool()
    measured = measure(engine, vectors, vectors, None)
    assert measured.fast > 0 and measured.scan > 0 and measured.item >= 0
    for known, modes in (
        (SCAN, ("scan", "scan")),
        (FAST, ("fast", "fast")),
        (Costs(1e-6, 0, 2e-3), ("fast", "scan")),  # a modality of a third of the items is scanned
    ):
        engine.costs = known
        wanted = np.array([-1, 0])
        assert engine.search(vectors[:2], vectors[:2], modality_code=wanted, mode="auto").modes == modes


def test_costs_are_measured_once_and_only_where_they_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, vectors, _ = geometric_pool()
    assert costs_of(engine, vectors, vectors, None) == Costs()  # so few items are scanned anyway
    monkeypatch.setattr(costs, "UNCLEAR", (1, 1_000_000))
    measured = costs_of(engine, vectors, vectors, None)
    assert measured != Costs()
    assert costs_of(engine, vectors, vectors, None) is measured
    monkeypatch.setattr(costs, "UNCLEAR", (1, 2))
    assert costs_of(engine, vectors, vectors, None) is measured


def test_scoring_an_item_is_measured_without_a_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    """To skip an item takes less time than to score it."""
    engine, vectors, _ = geometric_pool()
    allowed_rows: list[int] = []

    def watched(segments: Sequence[SegmentView], *rest: Any) -> Any:
        rows = [int(segment.count_allowed(*np.array(segment.all_rows()))) for segment in segments]
        allowed_rows.append(sum(rows))
        return rank(segments, *rest)

    monkeypatch.setattr(costs, "rank", watched)
    only_first = [np.arange(len(segment)) == 0 for segment in engine.segments]
    measure(engine.restricted(only_first), vectors, vectors, None)
    assert min(allowed_rows) == max(map(len, engine.segments))
