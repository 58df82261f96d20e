"""Searches under filters that leave from one in ten thousand to all items, against scoring every one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genius.data.records import Item
from genius.index.filters import Condition
from genius.search.engine import MODES, Mode
from tests.index.made_up_index import MadeUpIndex, open_made_up, scores_for_text

COUNT = 10_000


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> MadeUpIndex:
    index = open_made_up(tmp_path_factory.mktemp("many") / "index")
    index.add(items().values())
    return index


def items() -> dict[str, Item]:
    """Each with a share from 0 to 1."""
    return {
        f"{n}": Item(f"{n}", f"text {n}", None, {"share": (n * 7919 % COUNT) / COUNT, "even": n % 2 == 0})
        for n in range(COUNT)
    }


@settings(max_examples=25)
@given(
    share=st.sampled_from([0.0001, 0.001, 0.01, 0.1, 0.5, 1.0]),
    even=st.booleans(),
    k=st.sampled_from([1, 10, 120]),
    mode=st.sampled_from(MODES),
)
def test_k_that_fulfil_the_filter_are_returned(
    index: MadeUpIndex, share: float, even: bool, k: int, mode: Mode
) -> None:
    filter = {"share": {"$lt": share}, **({"even": True} if even else {})}
    left = {
        id: item
        for id, item in items().items()
        if float(str(item.metadata["share"])) < share and (item.metadata["even"] or not even)
    }
    hits = index.search("a dog", k=k, filter=filter, mode=mode)
    ids = [hit.item.id for hit in hits]
    assert len(ids) == len(set(ids)) == min(k, len(left))
    assert set(ids) <= set(left)
    if hits.mode == "scan" and k <= 10:  # far down, int8 embeddings may swap what is nearly equal
        best = sorted(scores_for_text(left, "a dog").values(), reverse=True)[:k]
        assert [hit.score for hit in hits] == pytest.approx(best, abs=1e-4)


def test_few_items_are_scanned(index: MadeUpIndex) -> None:
    hits = index.search("a dog", filter={"share": {"$lt": 0.0005}})
    assert (hits.mode, hits.num_candidates, len(hits)) == ("scan", 5, 5)


def test_a_filter_is_decided_once_a_version(index: MadeUpIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    decided: list[int] = []
    where = index._catalogue.where

    def counted(condition: Condition) -> np.ndarray:
        decided.append(1)
        return where(condition)

    monkeypatch.setattr(index._catalogue, "where", counted)
    for _ in range(3):
        index.search("a cat", filter={"share": {"$lt": 0.7}, "even": True})
    assert len(decided) == 1
