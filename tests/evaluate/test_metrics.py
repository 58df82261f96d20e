from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.evaluate.metrics import METRICS, by_query, mean

ITEMS = [f"{number % 3}:{number}" for number in range(14)]


def by_definition(ranking: list[str], relevant: set[str]) -> dict[str, float]:
    """The protocol, written down."""
    hits = [item in relevant for item in ranking]
    gain = sum(hit / math.log2(rank + 2) for rank, hit in enumerate(hits[:10]))
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(10, len(relevant))))
    return {
        "hit@1": float(any(hits[:1])),
        "hit@5": float(any(hits[:5])),
        "hit@10": float(any(hits[:10])),
        "recall@5": sum(hits[:5]) / len(relevant),
        "ndcg@10": gain / ideal,
        "mrr": 1 / (hits.index(True) + 1) if any(hits) else 0.0,
    }


RANKINGS = st.dictionaries(
    st.sampled_from(["9:1", "9:2", "9:3"]),
    st.tuples(st.lists(st.sampled_from(ITEMS), unique=True), st.sets(st.sampled_from(ITEMS), min_size=1)),
    min_size=1,
)


@given(RANKINGS)
def test_equals_the_definition(queries: dict[str, tuple[list[str], set[str]]]) -> None:
    values = by_query(
        {q: ranked for q, (ranked, _) in queries.items()}, {q: sorted(r) for q, (_, r) in queries.items()}
    )
    for metric in METRICS:
        expected = {query: by_definition(*both)[metric] for query, both in queries.items()}
        assert values[metric] == pytest.approx(expected), metric
        assert mean(values[metric]) == pytest.approx(sum(expected.values()) / len(expected))


def test_the_order_given_decides_where_scores_tie() -> None:
    """Equal scores: the ranking as returned counts, not the order of ids."""
    for order, expected in ((["b", "a"], 1.0), (["a", "b"], 0.5)):
        assert by_query({"q": order}, {"q": ["b"]})["mrr"] == {"q": expected}


def test_a_query_without_results_counts_as_a_miss() -> None:
    assert by_query({"q": ["a"]}, {"q": ["a"], "r": ["b"]})["hit@5"] == {"q": 1.0, "r": 0.0}


def test_a_positive_that_no_result_could_hold_still_counts_in_true_recall() -> None:
    values = by_query({"q": ["a"]}, {"q": ["a", "elsewhere"]})
    assert (values["hit@5"], values["recall@5"]) == ({"q": 1.0}, {"q": 0.5})
