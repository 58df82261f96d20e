from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.decode.decoder import Decoder
from genius.decode.geometry import Geometry
from tests.oracles.beam import Beams, beam_search, prefix_survival, ranked_items
from tests.oracles.trie import Trie
from tests.search.table_decoder import Prefix, TableDecoder


@dataclass
class Case:
    """A pool and its queries, and how a plain loop would search it."""

    decoder: TableDecoder
    codes: np.ndarray
    queries: int
    modality_code: np.ndarray | None

    @property
    def trie(self) -> Trie:
        return Trie.build(self.codes)

    @property
    def vectors(self) -> np.ndarray:
        return np.arange(self.queries, dtype=np.float32)[:, None]

    def log_prob(self, query: int, prefix: Prefix) -> float:
        """The summed score of a prefix, -inf where the first code is not the wanted one."""
        wanted = -1 if self.modality_code is None else int(self.modality_code[query])
        return sum(self.decoder.path_scores(query, prefix, wanted))

    def beams_by_level(self, query: int, beams: int, depth: int) -> list[list[Prefix]]:
        """The prefixes in the beams after each level."""
        kept: list[Prefix] = [()]
        by_level = []
        for level in range(1, depth + 1):
            longer = {tuple(row[:level]) for row in self.codes.tolist() if tuple(row[: level - 1]) in kept}
            longer = {prefix for prefix in longer if self.log_prob(query, prefix) > -np.inf}
            kept = sorted(longer, key=lambda prefix: (-self.log_prob(query, prefix), prefix))[:beams]
            by_level.append(kept)
        return by_level


@st.composite
def cases(draw: st.DrawFn) -> Case:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    rows = draw(st.lists(st.tuples(*(st.integers(0, size - 1) for size in sizes)), min_size=1, max_size=25))
    queries = draw(st.integers(0, 5))
    wanted = draw(st.none() | st.lists(st.integers(-1, sizes[0]), min_size=queries, max_size=queries))
    modality_code = None if wanted is None else np.array(wanted, np.int64)
    decoder = TableDecoder(sizes, draw(st.integers(0, 99)))
    return Case(decoder, np.array(rows, np.uint16), queries, modality_code)


def prefixes(trie: Trie, beams: Beams, query: int) -> list[list[Prefix]]:
    return [
        [tuple(codes) for codes in trie.prefixes(level, nodes[query][nodes[query] >= 0]).tolist()]
        for level, nodes in enumerate(beams.nodes_by_level, 1)
    ]


@given(cases(), st.integers(1, 12), st.data())
def test_equals_a_plain_loop(case: Case, beams: int, data: st.DataObject) -> None:
    trie = case.trie
    depth = data.draw(st.integers(1, trie.levels))
    result = beam_search(
        case.decoder, trie, case.vectors, beams, depth=depth, modality_code=case.modality_code
    )
    assert result.depth == depth
    assert result.log_probs.shape == result.nodes.shape == (case.queries, beams)
    assert result.log_probs.dtype == np.float32
    for query in range(case.queries):
        by_level = case.beams_by_level(query, beams, depth)
        assert prefixes(trie, result, query) == by_level
        filled = len(by_level[-1])
        assert [tuple(codes) for codes in result.codes[query, :filled].tolist()] == by_level[-1]
        expected = [case.log_prob(query, code) for code in by_level[-1]]
        assert result.log_probs[query, :filled].tolist() == expected
        assert (result.codes[query, filled:] == -1).all() and (result.nodes[query, filled:] == -1).all()
        assert (result.log_probs[query, filled:] == -np.inf).all()
        for code, added in zip(by_level[-1], result.level_log_probs[query, :filled].tolist(), strict=True):
            sums = [0.0, *(case.log_prob(query, code[:level]) for level in range(1, depth + 1))]
            assert added == pytest.approx(np.diff(sums), abs=1e-5)
        assert (result.level_log_probs[query, filled:] == 0).all()


@given(cases())
def test_a_beam_as_wide_as_the_pool_is_exhaustive(case: Case) -> None:
    result = beam_search(
        case.decoder, case.trie, case.vectors, len(case.codes), modality_code=case.modality_code
    )
    different = sorted({tuple(row) for row in case.codes.tolist()})
    for query in range(case.queries):
        log_probs = {code: case.log_prob(query, code) for code in different}
        existing = [code for code in different if log_probs[code] > -np.inf]
        ranking = sorted(existing, key=lambda code: (-log_probs[code], code))
        assert [tuple(codes) for codes in result.codes[query, : len(ranking)].tolist()] == ranking
        assert (result.nodes[query, len(ranking) :] == -1).all()


@given(cases(), st.integers(1, 6), st.randoms(use_true_random=False))
def test_the_order_of_queries_does_not_matter(case: Case, beams: int, random: Random) -> None:
    trie, modality_code = case.trie, case.modality_code
    result = beam_search(case.decoder, trie, case.vectors, beams, modality_code=modality_code)
    order = np.array(random.sample(range(case.queries), case.queries), np.int64)
    wanted = None if modality_code is None else modality_code[order]
    other = beam_search(case.decoder, trie, case.vectors[order], beams, modality_code=wanted)
    np.testing.assert_array_equal(other.log_probs, result.log_probs[order])
    np.testing.assert_array_equal(other.codes, result.codes[order])
    np.testing.assert_array_equal(other.nodes_by_level, result.nodes_by_level[:, order])


@given(cases(), st.integers(1, 6), st.integers(1, 20), st.data())
def test_ranked_items_open_one_beam_after_another(
    case: Case, beams: int, k: int, data: st.DataObject
) -> None:
    """Items below a beam that share no whole code are in the order of their numbers all the same."""
    trie = case.trie
    depth = data.draw(st.integers(1, trie.levels))
    result = beam_search(
        case.decoder, trie, case.vectors, beams, depth=depth, modality_code=case.modality_code
    )
    log_probs, items = ranked_items(trie, result, k)
    assert log_probs.shape == items.shape == (case.queries, k)
    for query in range(case.queries):
        expected = [
            (case.log_prob(query, prefix), item)
            for prefix in case.beams_by_level(query, beams, depth)[-1]
            for item, row in enumerate(case.codes.tolist())
            if tuple(row[:depth]) == prefix
        ][:k]
        expected += [(-np.inf, -1)] * (k - len(expected))
        assert list(zip(log_probs[query], items[query], strict=True)) == expected


@given(cases().filter(lambda case: case.queries > 0), st.integers(1, 4), st.data())
def test_prefix_survival_equals_looking_for_each_positive(
    case: Case, beams: int, data: st.DataObject
) -> None:
    numbers = st.lists(st.integers(0, len(case.codes) - 1), max_size=3)
    positives = data.draw(st.lists(numbers, min_size=case.queries, max_size=case.queries))
    result = beam_search(case.decoder, case.trie, case.vectors, beams, modality_code=case.modality_code)
    survival = prefix_survival(case.trie, result, [np.array(items) for items in positives])
    by_query = [case.beams_by_level(query, beams, case.trie.levels) for query in range(case.queries)]
    for level in range(1, case.trie.levels + 1):
        survived = [
            any(tuple(case.codes[item, :level].tolist()) in by_level[level - 1] for item in items)
            for by_level, items in zip(by_query, positives, strict=True)
        ]
        assert survival[level - 1] == np.mean(survived)


def test_geometry_finds_the_same_as_scoring_every_item() -> None:
    rng = np.random.default_rng(0)
    sizes, temperature = [3, 16, 16], 0.3
    codebooks = [rng.normal(size=(size, 8)) for size in sizes]
    codes = rng.integers(0, sizes, (60, 3))
    vectors = rng.normal(size=(7, 8)).astype(np.float32)
    decoder: Decoder = Geometry(codebooks, temperature)
    trie = Trie.build(codes)
    log_probs, items = ranked_items(trie, beam_search(decoder, trie, vectors, len(codes)), len(codes))
    expected = np.zeros((len(vectors), len(codes)))
    for query, vector in enumerate(vectors):
        for item, code in enumerate(codes):
            residual = vector.astype(np.float64)
            for codebook, entry in zip(codebooks, code, strict=True):
                logits = -((residual - codebook) ** 2).sum(axis=1) / temperature
                expected[query, item] += logits[entry] - np.logaddexp.reduce(logits)
                residual = residual - codebook[entry]
    np.testing.assert_allclose(log_probs, -np.sort(-expected, axis=1), atol=0.02)
    np.testing.assert_allclose(np.take_along_axis(expected, items, axis=1), log_probs, atol=0.02)


@given(cases(), st.integers(1, 6))
def test_modality_codes_that_are_all_given_are_not_scored(case: Case, beams: int) -> None:
    """With one more query that wants anything the first level is searched, and the others find the same."""
    trie, wanted = case.trie, np.arange(case.queries) % case.decoder.sizes[0]
    given_codes = beam_search(case.decoder, trie, case.vectors, beams, modality_code=wanted)
    vectors = np.concatenate([case.vectors, [[99.0]]])
    searched = beam_search(case.decoder, trie, vectors, beams, modality_code=np.append(wanted, -1))
    np.testing.assert_array_equal(given_codes.log_probs, searched.log_probs[:-1])
    np.testing.assert_array_equal(given_codes.codes, searched.codes[:-1])
    np.testing.assert_array_equal(given_codes.nodes_by_level, searched.nodes_by_level[:, :-1])


def test_a_pool_of_one_item() -> None:
    trie = Trie.build(np.array([[2, 0, 1]]))
    result = beam_search(TableDecoder([3, 2, 2], 0), trie, np.zeros((2, 1)), 50)
    assert (result.nodes >= 0).sum(axis=1).tolist() == [1, 1]
    assert result.codes[0, 0].tolist() == [2, 0, 1]
    log_probs, items = ranked_items(trie, result, 10)
    assert items.tolist() == [[0] + [-1] * 9] * 2
    assert np.isfinite(log_probs[:, 0]).all()


def test_all_items_of_a_bucket_are_returned() -> None:
    trie = Trie.build(np.array([[1, 1], [0, 0], [1, 1]]))
    result = beam_search(TableDecoder([2, 2], 0), trie, np.zeros((1, 1)), 50, modality_code=np.array([1]))
    _, items = ranked_items(trie, result, 5)
    assert items.tolist() == [[0, 2, -1, -1, -1]]


def test_a_wanted_modality_code_adds_nothing_and_may_be_absent() -> None:
    decoder, trie = TableDecoder([3, 1], 0), Trie.build(np.array([[0, 0], [1, 0]]))
    wanted = np.array([1, -1, 2])
    result = beam_search(decoder, trie, np.zeros((3, 1)), 2, depth=1, modality_code=wanted)
    assert result.nodes.tolist()[0] == [1, -1]
    assert result.log_probs.tolist()[0] == [0, -np.inf]
    assert sorted(result.nodes[1]) == [0, 1] and (result.log_probs[1] < 0).all()
    assert result.nodes.tolist()[2] == [-1, -1]
    nothing = beam_search(decoder, trie, np.zeros((1, 1)), 2, modality_code=np.array([2]))
    assert (nothing.nodes == -1).all() and (nothing.log_probs == -np.inf).all()
    assert (ranked_items(trie, nothing, 3)[1] == -1).all()
