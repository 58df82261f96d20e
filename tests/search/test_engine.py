from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from genius.search.hits import MODES, Hits, Mode
from hypothesis import given, settings
from hypothesis import strategies as st

from genius.decode.geometry import Geometry
from genius.errors import InputError
from genius.search import costs
from genius.search import engine as engines
from genius.search.codes import PackedCodes
from genius.search.costs import Costs, costs_of, measured
from genius.search.engine import Engine
from genius.search.explain import trace
from genius.search.segment_view import Part
from tests.oracles.beam import beam_search, ranked_items
from tests.oracles.rerank import rerank
from tests.oracles.trie import Trie
from tests.search.pools import Pool, pools

few = settings(deadline=None)
WIDTH = 5
SCAN, FAST = Costs(0, 0, 1), Costs(1, 1, 0)


def engine_of(pool: Pool, costs: Costs = SCAN) -> tuple[Engine, np.ndarray, np.ndarray]:
    """An engine over the pool, the items' embeddings and the queries', in whole numbers: all is exact."""
    rng = np.random.default_rng(len(pool.codes))
    embeddings = rng.integers(-3, 4, (len(pool.codes), WIDTH)).astype(np.float32)
    embeddings = rng.integers(-127, 128, (pool.queries, WIDTH)).astype(np.float32)
    embeddings[:, 0] = 127
    parts, items = pool.parts()
    parts = [
        replace(
            part,
            coarse=embeddings[mine].astype(np.int8),
            exact=embeddings[mine].astype(np.float16),
            numbers=mine,
        )
        for part, mine in zip(parts, items, strict=True)
    ]
    return Engine(parts, pool.table, costs=costs), embeddings, embeddings


def listed(hits: Hits, query: int) -> list[int]:
    return [int(number) for number in hits.numbers[query] if number >= 0]


@few
@given(pools(), st.integers(1, 12), st.integers(1, 12))
def test_the_paper_mode_equals_the_readable_search(pool: Pool, beams: int, k: int) -> None:
    engine, embeddings, embeddings = engine_of(pool)
    plain = engine.search(pool.vectors, first=pool.first, k=k, beams=beams, mode="paper")
    ranked = engine.search(
        pool.vectors, embeddings, first=pool.first, k=k, beams=beams, mode="paper", plain=False
    )
    if not len(pool.shown):
        assert (plain.rows == -1).all() and (ranked.rows == -1).all()
        return
    trie = Trie.build(pool.codes[pool.shown])
    found = beam_search(pool.table, trie, pool.vectors, beams, first=pool.first)
    scores, items = ranked_items(trie, found, k)
    likeness, best = rerank(trie, found, embeddings, embeddings[pool.shown], k)
    for query in range(pool.queries):
        if (trie.items(trie.levels, found.nodes[query][found.nodes[query] >= 0])[1].size) < min(
            k, len(_scope(pool, query))
        ):
            continue  # the engine widens its beam
        there = items[query] >= 0
        assert plain.totals[query, : there.sum()].tolist() == scores[query, there].tolist()
        if len(engine.parts) == 1:  # otherwise rows of one bucket are in the order of their parts
            assert listed(plain, query) == pool.shown[items[query, there]].tolist()
        there = best[query] >= 0
        assert listed(ranked, query) == pool.shown[best[query, there]].tolist()
        assert ranked.likeness[query, : there.sum()].tolist() == likeness[query, there].tolist()


def _scope(pool: Pool, query: int) -> list[int]:
    wanted = -1 if pool.first is None else pool.first[query]
    return [int(item) for item in pool.shown if wanted < 0 or pool.codes[item, 0] == wanted]


@few
@given(pools(), st.integers(1, 6), st.integers(1, 50), st.sampled_from(MODES), st.booleans(), st.booleans())
def test_whoever_asks_for_k_gets_k_of_what_there_is(
    pool: Pool, beams: int, k: int, mode: Mode, plain: bool, scan: bool
) -> None:
    engine, embeddings, embeddings = engine_of(pool, SCAN if scan else FAST)
    hits = engine.search(pool.vectors, embeddings, first=pool.first, k=k, beams=beams, mode=mode, plain=plain)
    assert len(engine) == len(pool.shown)
    for query in range(pool.queries):
        scope, found = _scope(pool, query), listed(hits, query)
        assert len(found) == len(set(found)) == min(k, len(scope)) and set(found) <= set(scope)
        likeness = (embeddings[found] @ embeddings[query]).tolist()
        assert hits.likeness[query, : len(found)].tolist() == likeness
        keys = [
            (-total, -like, number)
            for total, like, number in zip(hits.totals[query], likeness, found, strict=False)
        ]
        if plain:
            assert [key[0] for key in keys] == sorted(key[0] for key in keys)
        else:
            assert [key[1:] for key in keys] == sorted(key[1:] for key in keys)
        np.testing.assert_array_equal(engine.codes(hits.rows[query, : len(found)]), pool.codes[found])
        depth = hits.depths[query]
        gains = hits.gains[query, : len(found)]
        assert np.isnan(gains[:, depth:]).all() and np.isfinite(gains[:, :depth]).all()
        np.testing.assert_allclose(gains[:, :depth].sum(axis=1), hits.totals[query, : len(found)], rtol=1e-6)
        if hits.modes[query] == "scan":
            assert hits.below[query] == len(scope)
        else:
            assert hits.modes[query] == ("fast" if mode == "auto" else mode) and hits.below[query] >= len(
                found
            )


@few
@given(pools(), st.integers(1, 6), st.integers(1, 20), st.sampled_from(MODES))
def test_company_does_not_show(pool: Pool, beams: int, k: int, mode: Mode) -> None:
    engine, _, embeddings = engine_of(pool, FAST)
    together = engine.search(pool.vectors, embeddings, first=pool.first, k=k, beams=beams, mode=mode)
    for query in range(pool.queries):
        one = slice(query, query + 1)
        first = None if pool.first is None else pool.first[one]
        alone = engine.search(pool.vectors[one], embeddings[one], first=first, k=k, beams=beams, mode=mode)
        for name in ("rows", "likeness", "totals", "gains", "depths", "below"):
            np.testing.assert_array_equal(getattr(alone, name), getattr(together, name)[one])
        assert alone.modes == together.modes[one]


@few
@given(pools(), st.integers(1, 6), st.integers(1, 20), st.sampled_from(MODES), st.integers(0, 99))
def test_a_filter_searches_a_smaller_pool(pool: Pool, beams: int, k: int, mode: Mode, seed: int) -> None:
    engine, _, embeddings = engine_of(pool, FAST)
    allowed = np.random.default_rng(seed).random(len(pool.codes)) < 0.5
    fewer = replace(pool, hidden=pool.hidden | ~allowed)
    masks = [allowed[part.numbers] for part in engine.parts]
    smaller, _, _ = engine_of(fewer, FAST)
    one = engine.restricted(masks).search(pool.vectors, embeddings, first=pool.first, k=k, beams=beams, mode=mode)
    two = smaller.search(pool.vectors, embeddings, first=pool.first, k=k, beams=beams, mode=mode)
    np.testing.assert_array_equal(one.numbers, two.numbers)
    np.testing.assert_array_equal(one.totals, two.totals)


@few
@given(pools(), st.integers(1, 6), st.sampled_from(MODES))
def test_a_trace_goes_on_where_the_search_stopped(pool: Pool, k: int, mode: Mode) -> None:
    engine, _, embeddings = engine_of(pool, FAST)
    hits = engine.search(pool.vectors, embeddings, first=pool.first, k=k, beams=3, mode=mode)
    owners, places = np.nonzero(hits.rows >= 0)
    gains = np.full_like(hits.gains, np.nan)
    codes = engine.codes(hits.rows[owners, places])
    gains[owners, places] = trace(engine.decoder, pool.vectors, owners, codes, pool.first)
    searched = ~np.isnan(hits.gains)
    np.testing.assert_array_equal(gains[searched], hits.gains[searched])
    for query in range(pool.queries):
        for place, item in enumerate(listed(hits, query)):
            code = tuple(pool.codes[item].tolist())
            expected = [pool.table.look_up(query, code[:level])[code[level]] for level in range(len(code))]
            if pool.first is not None and pool.first[query] >= 0:
                expected[0] = 0
            assert gains[query, place].tolist() == expected


def geometric_pool() -> tuple[Engine, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    sizes = [3, 32, 32, 32]
    codebooks = [rng.normal(size=(size, 8)) * 0.5**level for level, size in enumerate(sizes)]
    codes = rng.integers(0, sizes, (4000, 4))
    packed, order = PackedCodes.build(codes, sizes, 1)
    quantized = sum(book[codes[order, level]] for level, book in enumerate(codebooks))
    part = Part(packed, exact=quantized.astype(np.float32), numbers=order)
    vectors = rng.normal(size=(9, 8)).astype(np.float32)
    return (
        Engine([part], Geometry(codebooks, 1.0), [book.astype(np.float32) for book in codebooks]),
        vectors,
        quantized,
    )


def test_modes_contain_each_other_and_find_the_nearest() -> None:
    engine, vectors, quantized = geometric_pool()
    first = np.arange(9) % 4 - 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(engines.LIMITS, "safe", 34)
        patch.setitem(engines.LIMITS, "fast", 1100)
        found = {
            mode: engine.search(vectors, vectors, first=first, k=5, beams=20, mode=mode)
            for mode in ("paper", "exact", "safe", "fast", "scan")
        }
        below = {mode: engine.find(vectors, first=first, beams=20, mode=mode).found for mode in found}
    rows = {
        mode: [
            {
                row
                for run in np.flatnonzero(some.queries == query)
                for row in range(some.starts[0, run], some.ends[0, run])
            }
            for query in range(9)
        ]
        for mode, some in below.items()
    }
    for query in range(9):
        paper, exact, safe, fast, scan = (rows[mode][query] for mode in rows)
        assert paper == exact <= safe <= fast <= scan
    assert found["paper"].depths.tolist() == [4] * 9 and (found["fast"].depths == 2).all()
    assert len({len(some) for some in rows["safe"]}) > 1
    likeness = np.where(
        (first[:, None] < 0) | (engine.codes(np.arange(4000))[:, 0] == first[:, None]),
        vectors @ quantized.T,
        -np.inf,
    )
    np.testing.assert_allclose(found["scan"].likeness[:, 0], likeness.max(axis=1), atol=1e-5)
    by_codes = engine.search(vectors, first=first, k=5, mode="scan")
    wrong = likeness == -np.inf
    nearness = (
        -0.5 * ((vectors[:, None] - quantized) ** 2).sum(axis=2) + 0.5 * (vectors**2).sum(axis=1)[:, None]
    )
    nearness[wrong] = -np.inf
    np.testing.assert_allclose(by_codes.likeness, -np.sort(-nearness, axis=1)[:, :5], atol=1e-4)
    blended = Engine(engine.parts, engine.decoder, engine.codebooks, weight=0.5)
    both = blended.search(vectors, vectors, first=first, k=5, mode="scan")
    expected = -np.sort(-(likeness + nearness) / 2, axis=1)[:, :5]
    np.testing.assert_allclose(both.likeness, expected, atol=1e-4)


def test_as_many_beams_as_are_asked_for_are_followed() -> None:
    engine, vectors, _ = geometric_pool()
    hits = engine.search(vectors, vectors, k=3, beams=3 * engines.WIDEST, mode="paper")
    assert set(hits.modes) == {"paper"} and hits.below.tolist() == [4000] * 9


def test_a_search_is_measured_and_then_chosen_by_it() -> None:
    engine, vectors, _ = geometric_pool()
    known = measured(engine, vectors, vectors, None)
    assert known.fast > 0 and known.scan > 0 and known.item >= 0
    for some, mode in ((SCAN, "scan"), (FAST, "fast"), (Costs(1e-6, 0, 2e-3), "mixed")):
        engine.costs = some
        first = np.array([-1, 0])
        modes = engine.search(vectors[:2], vectors[:2], first=first, mode="auto").modes
        assert modes == (("fast", "scan") if mode == "mixed" else (mode, mode))


def test_costs_are_measured_once_and_only_where_they_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, vectors, _ = geometric_pool()
    assert costs_of(engine, vectors, vectors, None) == Costs()  # so few items are looked at anyway
    monkeypatch.setattr(costs, "UNCLEAR", (1, 1_000_000))
    known = costs_of(engine, vectors, vectors, None)
    assert known != Costs()
    assert costs_of(engine, vectors, vectors, None) is known
    monkeypatch.setattr(costs, "UNCLEAR", (1, 2))
    assert costs_of(engine, vectors, vectors, None) is known


def test_to_skip_an_item_is_not_to_look_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a filter leaves out is skipped at no cost; looking at items is measured without the filter."""
    engine, vectors, _ = geometric_pool()
    looked: list[int] = []
    ranking = costs.rank

    def rank(parts: Sequence[Part], *rest: Any) -> Any:
        looked.append(sum(int(part.under(*np.array(part.run()))) for part in parts))
        return ranking(parts, *rest)

    monkeypatch.setattr(costs, "rank", rank)
    measured(engine.restricted([np.arange(len(part)) == 0 for part in engine.parts]), vectors, vectors, None)
    assert min(looked) == max(map(len, engine.parts))


def test_bad_input() -> None:
    engine, vectors, _ = geometric_pool()
    with pytest.raises(InputError, match="at least one part"):
        Engine([], engine.decoder)
    with pytest.raises(InputError, match="unknown mode 'quick': expected one of paper, exact"):
        engine.search(vectors, vectors, mode="quick")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="k must be at least 1, not 0"):
        engine.search(vectors, vectors, k=0)
    with pytest.raises(InputError, match="9 queries need an embedding each, and there are 2"):
        engine.search(vectors, vectors[:2])
    with pytest.raises(InputError, match="the engine needs the codebooks"):
        Engine(engine.parts, engine.decoder).search(vectors, mode="scan")
    for mode in MODES:
        with pytest.raises(InputError, match="at least one beam, not 0"):
            engine.search(vectors, vectors, beams=0, mode=mode)
    with pytest.raises(InputError, match="from 0 to 1, not 2"):
        Engine(engine.parts, engine.decoder, weight=2)
    nothing = engine.restricted([np.zeros(4000, bool)])
    hits = nothing.search(vectors, vectors, k=3, mode="fast")
    assert (hits.rows == -1).all() and hits.rows.shape == (9, 3) and len(nothing) == 0
