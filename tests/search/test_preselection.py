"""Searches whose candidates are selected by codes, against the same without a selection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from genius.decode.geometry import Geometry
from genius.search import preselection
from genius.search.codes import PackedCodes
from genius.search.engine import Engine, EngineResult
from genius.search.scoring import half_sq_norms
from genius.search.segment_view import SegmentView, int8_scale, to_int8

SIZES, WIDTH, ITEMS = [2, 4, 32, 32, 8], 32, 6_000


@pytest.fixture
def few() -> Iterator[None]:
    """Candidates are selected where there are more than a thousand."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preselection, "MIN_CANDIDATES", 1_000)
        patch.setattr(preselection, "SELECTED", 600)
        yield


def made_up(weight: float, *, segments: int = 1, hidden: float = 0.0) -> tuple[Engine, np.ndarray]:
    """An engine over items near their codes, in several segments, and queries near some of them."""
    rng = np.random.default_rng(5)
    codebooks = [
        (rng.normal(size=(size, WIDTH)) * WIDTH**-0.5 * 0.6**level).astype(np.float32)
        for level, size in enumerate(SIZES)
    ]
    codes = rng.integers(0, SIZES, (ITEMS, len(SIZES)))
    embeddings = sum(book[codes[:, level]] for level, book in enumerate(codebooks))
    embeddings = (embeddings + rng.normal(size=(ITEMS, WIDTH)) * 0.05 * WIDTH**-0.5).astype(np.float32)
    scale = int8_scale(float(np.abs(embeddings).max()))
    views = []
    for own in np.array_split(rng.permutation(ITEMS), segments):
        packed, order = PackedCodes.build(codes[own], SIZES, 1)
        rows = own[order]
        views.append(
            SegmentView(
                packed,
                allowed=rng.random(len(own)) >= hidden if hidden else None,
                embeddings_int8=to_int8(embeddings[rows], scale),
                embeddings=embeddings[rows].astype(np.float16),
                scale=scale,
                item_keys=rows,
                half_sq_norms=half_sq_norms(packed, codebooks),
            )
        )
    queries = embeddings[rng.integers(0, ITEMS, 12)]
    queries = queries + rng.normal(size=queries.shape) * 0.1 * WIDTH**-0.5
    return Engine(views, Geometry(codebooks, 0.1), codebooks, weight), queries.astype(np.float32)


def search(engine: Engine, queries: np.ndarray, *, mode: str = "fast") -> EngineResult:
    return engine.search(queries, queries, k=10, beams=8, mode=mode)  # type: ignore[arg-type]


def without_selection(engine: Engine, queries: np.ndarray) -> EngineResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preselection, "MIN_CANDIDATES", 1 << 40)
        return search(engine, queries)


@pytest.mark.parametrize("weight", [1.0, 0.5])
@pytest.mark.parametrize(("segments", "hidden"), [(1, 0.0), (2, 0.3)])
def test_nearly_the_same_items_are_found(few: None, weight: float, segments: int, hidden: float) -> None:
    engine, queries = made_up(weight, segments=segments, hidden=hidden)
    selected, expected = search(engine, queries), without_selection(engine, queries)
    assert (selected.num_candidates > 1_000).all()
    shares = [np.isin(*rows).mean() for rows in zip(expected.item_keys, selected.item_keys, strict=True)]
    assert np.mean(shares) > 0.97
    assert (np.diff(selected.scores, axis=1) <= 0).all()
    for query in range(len(queries)):  # what both found has the same score and the same path
        _, own, others = np.intersect1d(
            selected.item_keys[query], expected.item_keys[query], return_indices=True
        )
        np.testing.assert_array_equal(selected.scores[query, own], expected.scores[query, others])
        np.testing.assert_array_equal(
            selected.level_log_probs[query, own], expected.level_log_probs[query, others]
        )
    if hidden:
        for segment in engine.segments:
            assert segment.allowed is not None and segment.item_keys is not None
            assert not np.isin(selected.item_keys, segment.item_keys[~segment.allowed]).any()


def test_a_query_finds_the_same_in_any_batch(few: None) -> None:
    engine, queries = made_up(0.7, segments=2)
    together = search(engine, queries)
    for query in range(len(queries)):
        alone = search(engine, queries[query : query + 1])
        np.testing.assert_array_equal(alone.item_keys[0], together.item_keys[query])
        np.testing.assert_array_equal(alone.scores[0], together.scores[query])


def test_a_selection_of_all_changes_nothing(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, queries = made_up(0.5)
    monkeypatch.setattr(preselection, "SELECTED", ITEMS)
    selected, expected = search(engine, queries), without_selection(engine, queries)
    np.testing.assert_array_equal(selected.item_keys, expected.item_keys)
    np.testing.assert_array_equal(selected.scores, expected.scores)


def test_scans_compare_everything(few: None) -> None:
    engine, queries = made_up(1.0)
    selected = search(engine, queries, mode="scan")
    embeddings = engine.segments[0].embeddings
    assert embeddings is not None
    products = queries @ embeddings.astype(np.float32).T
    np.testing.assert_allclose(selected.scores, -np.sort(-products, axis=1)[:, :10], atol=1e-3)


def test_equal_codes_are_all_selected_or_none(few: None) -> None:
    engine, queries = made_up(1.0)
    same, _ = PackedCodes.build(np.zeros((ITEMS, len(SIZES)), np.int64), SIZES, 1)
    engine = Engine([replace(engine.segments[0], packed=same)], engine.decoder, engine.codebooks)
    selected, expected = search(engine, queries), without_selection(engine, queries)
    np.testing.assert_array_equal(selected.item_keys, expected.item_keys)
