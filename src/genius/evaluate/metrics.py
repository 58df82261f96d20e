"""Metrics of a ranking, computed by ir_measures.

`hit@k` is what M-BEIR calls recall: whether any relevant item is among the first k. `recall@5` is the share
of the relevant items that are. A query without a result counts as a miss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from genius.errors import require

METRICS = ("hit@1", "hit@5", "hit@10", "recall@5", "ndcg@10", "mrr")

Ranking = Mapping[str, Sequence[str]]
"""The items returned for each query, best first."""
Relevant = Mapping[str, Sequence[str]]
"""The items that answer each query."""


def by_query(
    ranking: Ranking, relevant: Relevant, metrics: Sequence[str] = METRICS
) -> dict[str, dict[str, float]]:
    """Each metric of each query of `relevant` that anything answers."""
    measures = require("ir_measures", "evaluate", "evaluating")
    names = {_measure(measures, name): name for name in metrics}
    judged = {query: dict.fromkeys(items, 1) for query, items in relevant.items() if items}
    # By ranks instead of scores: equal scores must not be put into another order.
    ranked = {
        query: {item: float(-rank) for rank, item in enumerate(items)}
        for query, items in ranking.items()
        if items
    }
    values: dict[str, dict[str, float]] = {name: {} for name in metrics}
    for result in measures.iter_calc(list(names), judged, ranked):
        values[names[result.measure]][result.query_id] = result.value
    return values


def mean(values: Mapping[str, float]) -> float:
    """Of one metric, over all queries; NaN without any."""
    return sum(values.values()) / len(values) if values else math.nan


def _measure(measures: object, name: str) -> object:
    """ir_measures' name for ours."""
    kind, _, cutoff = name.partition("@")
    names = {"hit": "Success", "recall": "R", "ndcg": "nDCG", "mrr": "RR"}
    return measures.parse_measure(f"{names[kind]}@{cutoff}" if cutoff else names[kind])  # type: ignore[attr-defined]
