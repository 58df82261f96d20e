"""When what shards answer is as good as what a whole index does."""

from __future__ import annotations

from typing import Any

import pytest

from genius.index.hits import Hits

MODES: tuple[Any, ...] = ("auto", "fast", "safe", "exact", "scan", "paper")
FILTERS: tuple[dict[str, Any] | None, ...] = (None, {"even": True}, {"number": {"$lt": 9}})
ROUNDING = 2e-6
"""Of scores in 32 bits: their last bit depends on how many items are scored together."""


def check(actual: Hits, expected: Hits, mode: str) -> None:
    """Every hit that is expected is there with the same score, or as many that score as high."""
    assert len(actual) == len(expected)
    if mode == "scan":
        assert [hit.score for hit in actual] == pytest.approx([hit.score for hit in expected], abs=ROUNDING)
    scores = {hit.item.id: hit.score for hit in actual}
    for hit in expected:
        as_good = sum(other >= hit.score - ROUNDING for other in scores.values())
        assert abs(scores.get(hit.item.id, -1e9) - hit.score) <= ROUNDING or as_good >= len(expected)
