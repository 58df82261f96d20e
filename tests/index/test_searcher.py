"""Search over segments against going through all items by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from genius.search.hits import MODES, Mode
from hypothesis import example, given, settings
from hypothesis import strategies as st

from genius.decode.geometry import Geometry
from genius.index.searcher import ANY, Asked, Candidates, Searcher
from genius.index.segments import Block, Coding
from genius.quantize.quantizer import Quantizer
from tests.index.made_up import CODING, EXACT, LEARNED, NO_FIRST, NONE, WIDTH, block, in_memory


@dataclass
class Pool:
    """Items as they are, and the same in a searcher."""

    searcher: Searcher
    geometry: Geometry
    weight: float
    codes: np.ndarray
    modality: np.ndarray
    embeddings: np.ndarray
    rows: np.ndarray

    def wanted(self, want: int) -> np.ndarray:
        return np.flatnonzero((self.modality == want) | (want == ANY))

    def scores(self, vector: np.ndarray, embeddings: np.ndarray) -> np.ndarray:
        """By which items are re-ranked, from the formula."""
        quantized = sum(book[self.codes[:, k]] for k, book in enumerate(self.geometry.codebooks))
        near = quantized @ vector - (quantized**2).sum(1) / 2
        return np.asarray(self.weight * (self.embeddings @ embeddings) + (1 - self.weight) * near)

    def cosines(self, coding: Coding, asked: Asked, query: int) -> np.ndarray:
        """Of embeddings, or where none are kept of vectors and codes."""
        if coding.embeddings != "none":
            return np.asarray(self.embeddings.astype(np.float32) @ asked.embeddings[query])
        quantized = sum(book[self.codes[:, k]] for k, book in enumerate(self.geometry.codebooks))
        return np.asarray(quantized @ asked.vectors[query] / np.linalg.norm(quantized, axis=1))

    def log_probabilities(self, vector: np.ndarray, item: int, *, free: bool) -> np.ndarray:
        """Of an item's code, level by level."""
        residual, found = vector.astype(np.float64), []
        for level, code in enumerate(self.codes[item]):
            book = self.geometry.codebooks[level]
            logits = -((residual - book) ** 2).sum(1) / self.geometry.temperature
            found.append(logits[code] - np.log(np.exp(logits - logits.max()).sum()) - logits.max())
            residual = residual - book[code]
        return np.array([0.0, *found[1:]] if free else found)


def decoder(random: np.random.Generator, coding: Coding) -> tuple[Geometry, Quantizer]:
    books = [random.normal(size=(size, WIDTH)) for size in coding.sizes]
    first = "given" if coding.told else "learned" if coding.semantic else "none"
    return Geometry(books, 2.0), Quantizer(books, modality_code=first)


def pool(seed: int, sizes: list[int], coding: Coding, removed: float = 0.0) -> Pool:
    random = np.random.default_rng(seed)
    blocks: list[Block] = []
    for count in sizes:
        blocks.append(block(random, count, coding, 1 + sum(len(made.rows) for made in blocks)))
    rows = np.concatenate([made.rows for made in blocks])
    gone = rows[random.random(len(rows)) < removed]
    geometry, quantizer = decoder(random, coding)
    weight = 0.0 if coding.embeddings == "none" else float(random.choice([1.0, 0.4]))
    segments = [in_memory(made, coding, geometry.codebooks) for made in blocks]
    searcher = Searcher(geometry, quantizer, weight, segments, gone)
    live = ~np.isin(rows, gone)
    every = [
        np.concatenate(arrays)[live]
        for arrays in zip(*((b.codes, b.modality, b.embeddings) for b in blocks), strict=True)
    ]
    return Pool(searcher, geometry, weight, *every, rows[live])


def ask(random: np.random.Generator, queries: int, coding: Coding, wants: list[int]) -> Asked:
    want = random.choice(wants, queries)
    first = want if coding.semantic else np.full(queries, ANY)
    vectors = random.normal(size=(queries, WIDTH)).astype(np.float32)
    embeddings = (random.integers(-2, 3, (queries, WIDTH)) / 2).astype(np.float32)
    return Asked(vectors, embeddings, want, first)


CODINGS = st.sampled_from([CODING, LEARNED, NO_FIRST, EXACT, NONE])
SIZES = st.lists(st.integers(1, 25), min_size=1, max_size=3)


@settings(max_examples=60)
@given(
    st.integers(0, 1000),
    SIZES,
    CODINGS,
    st.sampled_from([0.0, 0.3]),
    st.integers(1, 90),
    st.integers(1, 30),
    st.sampled_from(MODES),
)
def test_k_of_what_is_wanted_once_each_and_in_order(
    seed: int, sizes: list[int], coding: Coding, removed: float, k: int, beams: int, mode: Mode
) -> None:
    made = pool(seed, sizes, coding, removed)
    asked = ask(np.random.default_rng(seed), 3, coding, [ANY, 0, 1, 2])
    for query, found in enumerate(made.searcher.search(asked, k, beams, mode)):
        wanted = made.wanted(int(asked.want[query]))
        by_row = {int(made.rows[item]): int(item) for item in wanted}
        likeness = made.cosines(coding, asked, query)
        for ranking in (found.plain(k), found.reranked(k)):
            rows = found.rows[ranking].tolist()
            assert len(rows) == min(k, len(wanted))
            assert len(set(rows)) == len(rows)
            assert set(rows) <= set(by_row)
        for place, row in enumerate(found.rows.tolist()):
            item = by_row[row]
            assert found.codes[place].tolist() == made.codes[item].tolist()
            assert found.cosines[place] == pytest.approx(likeness[item], abs=1e-5)
            for depth, count in enumerate(found.below[place], 1):
                assert count == (made.codes[:, :depth] == made.codes[item, :depth]).all(1).sum()
        best = [(-found.scores[place], found.rows[place]) for place in found.reranked(k)]
        assert best == sorted(best)
        if mode == "scan" and not found.totals.any():  # with or without a search, the path to it is the same
            free = coding.told and asked.want[query] != ANY
            for place, row in enumerate(found.rows[:3].tolist()):
                expected = made.log_probabilities(asked.vectors[query], by_row[row], free=free)
                np.testing.assert_allclose(found.gains[place], expected, atol=1e-4)


@settings(max_examples=40)
@given(st.integers(0, 1000), SIZES, CODINGS, st.integers(1, 90), st.integers(1, 9), st.sampled_from(MODES))
def test_the_plain_ranking_may_be_by_the_distance_to_codes(
    seed: int, sizes: list[int], coding: Coding, k: int, beams: int, mode: Mode
) -> None:
    made = pool(seed, sizes, coding)
    asked = ask(np.random.default_rng(seed), 2, coding, [ANY, 1] if coding.told else [ANY])
    quantized = sum(book[made.codes[:, level]] for level, book in enumerate(made.geometry.codebooks))
    for query, found in enumerate(made.searcher.search(asked, k, beams, mode, by_codes=True)):
        away = ((asked.vectors[query] - quantized) ** 2).sum(axis=1)
        by_row = dict(zip(made.rows.tolist(), away.tolist(), strict=True))
        ranked = [by_row[row] for row in found.rows[found.plain(k)].tolist()]
        np.testing.assert_allclose(ranked, sorted(ranked), atol=1e-4)
        shown = found.totals[found.plain(k)]
        np.testing.assert_allclose(shown, ((asked.vectors[query] ** 2).sum() - ranked) / 2, atol=1e-4)
        if mode == "scan":
            wanted = made.wanted(int(asked.want[query]))
            np.testing.assert_allclose(ranked, np.sort(away[wanted])[:k], atol=1e-4)


@settings(max_examples=40)
@example(seed=1000, sizes=[19, 23, 19], coding=LEARNED)
@given(st.integers(0, 1000), SIZES, CODINGS)
def test_wide_beams_give_both_rankings_of_all_items(seed: int, sizes: list[int], coding: Coding) -> None:
    made = pool(seed, sizes, coding)
    asked = ask(np.random.default_rng(seed), 2, coding, [ANY, 1] if coding.told else [ANY])
    for query, found in enumerate(made.searcher.search(asked, 1000, 1000, "paper")):
        wanted = made.wanted(int(asked.want[query]))
        likeness = made.cosines(coding, asked, query)
        free = asked.first[query] != ANY and asked.want[query] != ANY
        gains = {item: made.log_probabilities(asked.vectors[query], item, free=free) for item in wanted}
        scores = dict(zip(made.rows, made.scores(asked.vectors[query], asked.embeddings[query]), strict=True))
        best = [scores[row] for row in found.rows[found.reranked(1000)]]
        np.testing.assert_allclose(
            best, sorted((scores[row] for row in made.rows[wanted]), reverse=True), atol=1e-4
        )
        np.testing.assert_allclose(found.scores, [scores[row] for row in found.rows], atol=1e-4)
        score = {tuple(made.codes[item]): round(float(gains[item].sum()), 4) for item in wanted}
        plain = [made.rows.tolist().index(row) for row in found.rows[found.plain(1000)]]
        sums = [score[tuple(made.codes[item])] for item in plain]
        assert sums == sorted(sums, reverse=True)
        np.testing.assert_allclose(
            found.cosines, [likeness[made.rows == row][0] for row in found.rows], atol=1e-5
        )
        for one, other in pairwise(found.plain(1000)):
            if tuple(found.codes[one]) == tuple(found.codes[other]):
                assert (-found.scores[one], found.rows[one]) < (-found.scores[other], found.rows[other])
        for place, row in enumerate(found.rows.tolist()):
            item = made.rows.tolist().index(row)
            np.testing.assert_allclose(found.gains[place], gains[item], atol=1e-4)


@settings(max_examples=30)
@given(st.integers(0, 1000), CODINGS, st.integers(1, 6), st.sampled_from(MODES))
def test_a_query_does_not_depend_on_its_company(seed: int, coding: Coding, beams: int, mode: Mode) -> None:
    made = pool(seed, [30, 5], coding)
    asked = ask(np.random.default_rng(seed), 6, coding, [ANY, 0, 1, 2])
    together = made.searcher.search(asked, 5, beams, mode)
    for query, found in enumerate(together):
        alone = made.searcher.search(asked[np.array([query])], 5, beams, mode)[0]
        _same(found, alone)


@settings(max_examples=20)
@given(st.integers(0, 1000), CODINGS, st.sampled_from(MODES))
def test_how_items_lie_in_segments_makes_no_difference(seed: int, coding: Coding, mode: Mode) -> None:
    random = np.random.default_rng(seed)
    one = block(random, 40, coding)
    geometry, quantizer = decoder(random, coding)
    asked = ask(random, 4, coding, [ANY, 0, 1, 2])
    found = []
    for bounds in ([0, 40], [0, 1, 15, 40]):
        parts = [
            Block(*(array[a:b] for array in (one.codes, one.modality, one.embeddings, one.rows, one.halves)))
            for a, b in pairwise(bounds)
        ]
        segments = [in_memory(part, coding, geometry.codebooks) for part in parts]
        searcher = Searcher(geometry, quantizer, 0.5, segments, np.zeros(0, np.int64))
        found.append(searcher.search(asked, 7, 3, mode))
    for whole, parted in zip(*found, strict=True):
        _same(whole, parted)


def _same(one: Candidates, other: Candidates) -> None:
    for ranking in (Candidates.plain, Candidates.reranked):
        first, second = ranking(one, 5), ranking(other, 5)
        np.testing.assert_array_equal(one.rows[first], other.rows[second])
        np.testing.assert_array_equal(one.cosines[first], other.cosines[second])
        np.testing.assert_allclose(one.gains[first], other.gains[second], atol=1e-5)


def test_one_item_and_all_items_under_one_code() -> None:
    alone = pool(0, [1], CODING)
    asked = ask(np.random.default_rng(0), 1, CODING, [ANY])
    assert alone.searcher.search(asked, 10, 50)[0].rows.tolist() == [1]
    random = np.random.default_rng(1)
    made = block(random, 20, CODING)
    same = replace(made, codes=np.tile(made.codes[:1], (20, 1)), modality=np.tile(made.modality[:1], 20))
    geometry, quantizer = decoder(random, CODING)
    segments = [in_memory(same, CODING, geometry.codebooks)]
    searcher = Searcher(geometry, quantizer, 1.0, segments, np.zeros(0, np.int64))
    found = searcher.search(asked, 5, 1)[0]
    assert (len(found.rows), found.under) == (5, 20)
    assert found.plain(5).tolist() == found.reranked(5).tolist()
    assert set(found.below[:, -1]) == {20}


def test_nothing_is_left() -> None:
    made = pool(0, [5], CODING, removed=1.1)
    asked = ask(np.random.default_rng(0), 2, CODING, [ANY, 0])
    assert [len(found.rows) for found in made.searcher.search(asked, 3, 3)] == [0, 0]


@settings(max_examples=25)
@given(st.integers(0, 1000), CODINGS, st.sampled_from(MODES))
def test_a_mask_leaves_the_rest_to_be_found(seed: int, coding: Coding, mode: Mode) -> None:
    made = pool(seed, [20, 12], coding, removed=0.2)
    random = np.random.default_rng(seed)
    masks = [random.random(count) < 0.5 for count in (20, 12)]
    segments = made.searcher._segments
    rows = {
        int(row) for segment, mask in zip(segments, masks, strict=True) for row in segment.rows[mask]
    } & set(made.rows.tolist())
    asked = ask(random, 2, coding, [ANY, 0])
    restricted = made.searcher.restricted(masks)
    assert len(restricted) == len(rows)
    for query, found in enumerate(restricted.search(asked, 40, 3, mode)):
        wanted = {int(row) for row in made.rows[made.wanted(int(asked.want[query]))]}
        assert set(found.rows.tolist()) == rows & wanted
