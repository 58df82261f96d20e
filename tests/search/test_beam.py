from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.decode.decoder import Decoder
from genius.decode.geometry import Geometry
from genius.errors import InputError, MismatchError
from tests.oracles import beam
from tests.oracles.beam import Beams, beam_search, prefix_survival, ranked_items
from tests.oracles.trie import Trie

Prefix = tuple[int, ...]


class Table:
    """A decoder that looks its scores up: one table for each query and prefix, with many equal entries."""

    def __init__(self, sizes: list[int], seed: int) -> None:
        self.sizes, self.seed = sizes, seed

    def begin(self, vectors: np.ndarray, modality_codes: np.ndarray | None = None) -> TableDecoding:
        prefixes: list[Prefix] = [()] * len(vectors)
        if modality_codes is not None:
            prefixes = [(int(code),) for code in modality_codes]
        return TableDecoding(self, list(zip(vectors[:, 0].astype(int).tolist(), prefixes, strict=True)))

    def look_up(self, query: int, prefix: Prefix) -> np.ndarray:
        rng = np.random.default_rng([self.seed, query, *prefix])
        return (-rng.integers(1, 5, self.sizes[len(prefix)]) / 2).astype(np.float32)


@dataclass
class TableDecoding:
    table: Table
    rows: list[tuple[int, Prefix]]

    def scores(self) -> np.ndarray:
        return np.array([self.table.look_up(*row) for row in self.rows])

    def advance(self, rows: np.ndarray, codes: np.ndarray) -> None:
        assert len(rows), "a decoder is not asked to go on with nothing"
        kept = [self.rows[row] for row in rows]
        self.rows = [(query, (*prefix, int(code))) for (query, prefix), code in zip(kept, codes, strict=True)]


@dataclass
class Case:
    table: Table
    codes: np.ndarray
    queries: int
    first: np.ndarray | None

    @property
    def trie(self) -> Trie:
        return Trie.build(self.codes)

    @property
    def vectors(self) -> np.ndarray:
        return np.arange(self.queries, dtype=np.float32)[:, None]

    def score(self, query: int, prefix: Prefix) -> float:
        """The summed score of a prefix, -inf where the first code is not the wanted one."""
        given = -1 if self.first is None else self.first[query]
        if given >= 0 and prefix[0] != given:
            return -np.inf
        gains = [float(self.table.look_up(query, prefix[:k])[prefix[k]]) for k in range(len(prefix))]
        return sum(gains[1:] if given >= 0 else gains)

    def by_hand(self, query: int, beams: int, depth: int) -> list[list[Prefix]]:
        """The prefixes in the beam after each level, by a plain loop."""
        alive: list[Prefix] = [()]
        history = []
        for level in range(1, depth + 1):
            longer = {tuple(row[:level]) for row in self.codes.tolist() if tuple(row[: level - 1]) in alive}
            longer = {prefix for prefix in longer if self.score(query, prefix) > -np.inf}
            alive = sorted(longer, key=lambda prefix: (-self.score(query, prefix), prefix))[:beams]
            history.append(alive)
        return history


@st.composite
def cases(draw: st.DrawFn) -> Case:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    rows = draw(st.lists(st.tuples(*(st.integers(0, size - 1) for size in sizes)), min_size=1, max_size=25))
    queries = draw(st.integers(0, 5))
    first = draw(st.none() | st.lists(st.integers(-1, sizes[0]), min_size=queries, max_size=queries))
    wanted = None if first is None else np.array(first, np.int64)
    return Case(Table(sizes, draw(st.integers(0, 99))), np.array(rows, np.uint16), queries, wanted)


def prefixes(trie: Trie, beams: Beams, query: int) -> list[list[Prefix]]:
    return [
        [tuple(codes) for codes in trie.prefixes(level, nodes[query][nodes[query] >= 0]).tolist()]
        for level, nodes in enumerate(beams.alive, 1)
    ]


@given(cases(), st.integers(1, 12), st.data())
def test_equals_a_search_by_hand(case: Case, beams: int, data: st.DataObject) -> None:
    trie = case.trie
    depth = data.draw(st.integers(1, trie.levels))
    found = beam_search(case.table, trie, case.vectors, beams, depth=depth, first=case.first)
    assert found.depth == depth
    assert found.scores.shape == found.nodes.shape == (case.queries, beams)
    assert found.scores.dtype == np.float32
    for query in range(case.queries):
        history = case.by_hand(query, beams, depth)
        assert prefixes(trie, found, query) == history
        filled = len(history[-1])
        assert [tuple(codes) for codes in found.codes[query, :filled].tolist()] == history[-1]
        assert found.scores[query, :filled].tolist() == [case.score(query, code) for code in history[-1]]
        assert (found.codes[query, filled:] == -1).all() and (found.nodes[query, filled:] == -1).all()
        assert (found.scores[query, filled:] == -np.inf).all()
        for code, gains in zip(history[-1], found.gains[query, :filled].tolist(), strict=True):
            steps = [0.0, *(case.score(query, code[:level]) for level in range(1, depth + 1))]
            assert gains == pytest.approx(np.diff(steps), abs=1e-5)
        assert (found.gains[query, filled:] == 0).all()


@given(cases())
def test_a_beam_as_wide_as_the_pool_is_exhaustive(case: Case) -> None:
    trie = case.trie
    found = beam_search(case.table, trie, case.vectors, len(case.codes), first=case.first)
    every = sorted({tuple(row) for row in case.codes.tolist()})
    for query in range(case.queries):
        scores = {code: case.score(query, code) for code in every if case.score(query, code) > -np.inf}
        ranking = sorted(scores, key=lambda code: (-scores[code], code))
        assert [tuple(codes) for codes in found.codes[query, : len(ranking)].tolist()] == ranking
        assert (found.nodes[query, len(ranking) :] == -1).all()


@given(cases(), st.integers(1, 6), st.randoms(use_true_random=False))
def test_neither_blocks_nor_the_order_of_queries_show(case: Case, beams: int, random: Any) -> None:
    trie = case.trie
    whole = beam_search(case.table, trie, case.vectors, beams, first=case.first)
    order = np.array(random.sample(range(case.queries), case.queries), np.int64)
    first = None if case.first is None else case.first[order]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beam, "FLOATS", 2 * beams * max(case.table.sizes))  # two queries at a time
        other = beam_search(case.table, trie, case.vectors[order], beams, first=first)
    np.testing.assert_array_equal(other.scores, whole.scores[order])
    np.testing.assert_array_equal(other.codes, whole.codes[order])
    for one, two in zip(other.alive, whole.alive, strict=True):
        np.testing.assert_array_equal(one, two[order])


@given(cases(), st.integers(1, 6), st.integers(1, 20), st.data())
def test_ranked_items_walk_the_buckets(case: Case, beams: int, k: int, data: st.DataObject) -> None:
    trie = case.trie
    depth = data.draw(st.integers(1, trie.levels))
    found = beam_search(case.table, trie, case.vectors, beams, depth=depth, first=case.first)
    scores, items = ranked_items(trie, found, k)
    assert scores.shape == items.shape == (case.queries, k)
    for query in range(case.queries):
        expected = [
            (case.score(query, prefix), item)
            for prefix in case.by_hand(query, beams, depth)[-1]
            for item, row in enumerate(case.codes.tolist())
            if tuple(row[:depth]) == prefix
        ][:k]
        expected += [(-np.inf, -1)] * (k - len(expected))
        assert list(zip(scores[query], items[query], strict=True)) == expected


@given(cases().filter(lambda case: case.queries > 0), st.integers(1, 4), st.data())
def test_prefix_survival_equals_looking_for_each_positive(
    case: Case, beams: int, data: st.DataObject
) -> None:
    some = st.lists(st.integers(0, len(case.codes) - 1), max_size=3)
    positives = data.draw(st.lists(some, min_size=case.queries, max_size=case.queries))
    found = beam_search(case.table, case.trie, case.vectors, beams, first=case.first)
    survival = prefix_survival(case.trie, found, [np.array(items) for items in positives])
    histories = [case.by_hand(query, beams, case.trie.levels) for query in range(case.queries)]
    for level in range(1, case.trie.levels + 1):
        alive = [
            any(tuple(case.codes[item, :level].tolist()) in history[level - 1] for item in items)
            for history, items in zip(histories, positives, strict=True)
        ]
        assert survival[level - 1] == np.mean(alive)


def test_geometry_finds_the_same_as_scoring_every_item() -> None:
    rng = np.random.default_rng(0)
    sizes, temperature = [3, 16, 16], 0.3
    codebooks = [rng.normal(size=(size, 8)) for size in sizes]
    codes = rng.integers(0, sizes, (60, 3))
    vectors = rng.normal(size=(7, 8)).astype(np.float32)
    decoder: Decoder = Geometry(codebooks, temperature)
    scores, items = ranked_items(
        trie := Trie.build(codes), beam_search(decoder, trie, vectors, len(codes)), len(codes)
    )
    exact = np.zeros((len(vectors), len(codes)))
    for query, vector in enumerate(vectors):
        for item, code in enumerate(codes):
            residual = vector.astype(np.float64)
            for book, entry in zip(codebooks, code, strict=True):
                logits = -((residual - book) ** 2).sum(axis=1) / temperature
                exact[query, item] += logits[entry] - np.logaddexp.reduce(logits)
                residual = residual - book[entry]
    np.testing.assert_allclose(scores, -np.sort(-exact, axis=1), atol=1e-3)
    np.testing.assert_allclose(np.take_along_axis(exact, items, axis=1), scores, atol=1e-3)


@given(cases(), st.integers(1, 6))
def test_first_codes_that_are_all_known_are_not_scored(case: Case, beams: int) -> None:
    """With one more query that wants anything the first level is searched, and the others find the same."""
    trie, first = case.trie, np.arange(case.queries) % case.table.sizes[0]
    known = beam_search(case.table, trie, case.vectors, beams, first=first)
    vectors = np.concatenate([case.vectors, [[99.0]]])
    searched = beam_search(case.table, trie, vectors, beams, first=np.append(first, -1))
    np.testing.assert_array_equal(known.scores, searched.scores[:-1])
    np.testing.assert_array_equal(known.codes, searched.codes[:-1])
    for one, two in zip(known.alive, searched.alive, strict=True):
        np.testing.assert_array_equal(one, two[:-1])


def test_a_pool_of_one_item() -> None:
    trie = Trie.build(np.array([[2, 0, 1]]))
    found = beam_search(Table([3, 2, 2], 0), trie, np.zeros((2, 1)), 50)
    assert (found.nodes >= 0).sum(axis=1).tolist() == [1, 1]
    assert found.codes[0, 0].tolist() == [2, 0, 1]
    scores, items = ranked_items(trie, found, 10)
    assert items.tolist() == [[0] + [-1] * 9] * 2
    assert np.isfinite(scores[:, 0]).all()


def test_items_of_one_bucket_all_come_back() -> None:
    trie = Trie.build(np.array([[1, 1], [0, 0], [1, 1]]))
    found = beam_search(Table([2, 2], 0), trie, np.zeros((1, 1)), 50, first=np.array([1]))
    _, items = ranked_items(trie, found, 5)
    assert items.tolist() == [[0, 2, -1, -1, -1]]


def test_a_wanted_first_code_costs_nothing_and_may_be_absent() -> None:
    trie = Trie.build(np.array([[0, 0], [1, 0]]))
    found = beam_search(Table([3, 1], 0), trie, np.zeros((3, 1)), 2, depth=1, first=np.array([1, -1, 2]))
    assert found.nodes.tolist()[0] == [1, -1]
    assert found.scores.tolist()[0] == [0, -np.inf]
    assert sorted(found.nodes[1]) == [0, 1] and (found.scores[1] < 0).all()
    assert found.nodes.tolist()[2] == [-1, -1]
    nothing = beam_search(Table([3, 1], 0), trie, np.zeros((1, 1)), 2, first=np.array([2]))
    assert (nothing.nodes == -1).all() and (nothing.scores == -np.inf).all()
    assert (ranked_items(trie, nothing, 3)[1] == -1).all()


def test_bad_input() -> None:
    table, trie, vectors = Table([2, 2], 0), Trie.build(np.array([[0, 1]])), np.zeros((2, 1))
    with pytest.raises(InputError, match="at least one beam, not 0"):
        beam_search(table, trie, vectors, 0)
    with pytest.raises(InputError, match="depth must be from 1 to 2, not 3"):
        beam_search(table, trie, vectors, 5, depth=3)
    with pytest.raises(InputError, match=r"not of the shape \(2,\)"):
        beam_search(table, trie, vectors[:, 0], 5)
    with pytest.raises(InputError, match="some hold NaN"):
        beam_search(table, trie, vectors * np.nan, 5)
    with pytest.raises(InputError, match="for each query a first code, or -1"):
        beam_search(table, trie, vectors, 5, first=np.array([0]))
    for sizes in ([2, 1], [2], [2, 2, 2]):
        with pytest.raises(
            MismatchError, match=r"need at least \[1, 2\]: they were made by different models"
        ):
            beam_search(Table(sizes, 0), trie, vectors, 5)
    found = beam_search(table, trie, vectors, 5)
    with pytest.raises(InputError, match="k must be at least 1, not 0"):
        ranked_items(trie, found, 0)
    with pytest.raises(InputError, match="2 queries need positives each, and there are 1"):
        prefix_survival(trie, found, [np.array([0])])
