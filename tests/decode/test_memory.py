"""A decoder with a memory, against the formula written out and against the decoder without one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.decode.decoding import Decoder
from genius.decode.geometry import Geometry
from genius.decode.memory import LIKENESS, MOST, Memory, Remembering
from genius.errors import InputError
from genius.quantize.quantizer import unit_length
from genius.search.beam import beam_search
from genius.search.tracing import trace
from genius.search.trie import Trie

SIZES, WIDTH = (3, 5, 4), 6


def geometry(rng: np.random.Generator) -> Geometry:
    return Geometry([rng.normal(size=(size, WIDTH)).astype(np.float32) for size in SIZES], 0.7)


def some_codes(rng: np.random.Generator, count: int) -> np.ndarray:
    codes = np.stack([rng.integers(0, size, count) for size in SIZES], axis=1)
    return codes[np.lexsort(codes.T[::-1])]


def some_memory(rng: np.random.Generator, entries: int, gain: float = 3.0) -> Memory:
    vectors = unit_length(rng.normal(size=(entries, WIDTH)).astype(np.float32))
    return Memory(vectors, some_codes(rng, entries), rng.uniform(-0.5, 0.9, entries).astype(np.float32), gain)


def by_formula(
    decoder: Geometry, memory: Memory, vector: np.ndarray, path: np.ndarray, known: int
) -> np.ndarray:
    """The log-probability of each code of a path; codes before `known` are given."""
    nearness = memory.vectors.astype(np.float64) @ vector
    strengths: dict[tuple[int, ...], float] = {}
    for code, near, floor in zip(memory.codes.tolist(), nearness, memory.floors, strict=True):
        if near > floor and code[:known] == path[:known].tolist():
            strengths[tuple(code)] = max(strengths.get(tuple(code), 0), memory.gain * (near - floor))
    kept = dict(sorted(strengths.items(), key=lambda pair: -pair[1])[:MOST])
    gains, residual = np.zeros(len(path)), vector.astype(np.float32)
    for level, code in enumerate(path):
        if level >= known:
            logits = decoder.scores(level, residual[None])[0].astype(np.float64)
            for number in range(len(logits)):
                prefix = (*path[:level].tolist(), number)
                logits[number] += max((b for c, b in kept.items() if c[: level + 1] == prefix), default=0)
            gains[level] = logits[code] - np.log(np.exp(logits).sum())
        residual = residual - decoder.codebooks[level][code]
    return gains


@given(st.integers(0, 30), st.booleans(), st.integers(0, 2**32 - 1))
def test_paths_are_as_likely_as_the_formula_says(entries: int, told: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    plain, memory = geometry(rng), some_memory(rng, entries)
    vectors = unit_length(rng.normal(size=(4, WIDTH)).astype(np.float32))
    codes = some_codes(rng, 12)
    if entries:  # some of them on the way to what is remembered
        codes[::2] = memory.codes[rng.integers(0, entries, 6)]
    owners = rng.integers(0, 4, 12)
    if told:
        owners, codes = owners[codes[:, 0] == 1], codes[codes[:, 0] == 1]
    first = np.ones(4, np.int64) if told else None
    found = trace(Remembering(plain, memory), vectors, owners, codes, first)
    expected = [
        by_formula(plain, memory, vectors[owner], path, int(told))
        for owner, path in zip(owners, codes, strict=True)
    ]
    np.testing.assert_allclose(found, np.array(expected).reshape(found.shape), atol=1e-4)


def test_probabilities_sum_to_one_and_what_is_remembered_gains() -> None:
    rng = np.random.default_rng(1)
    plain = geometry(rng)
    vector = unit_length(rng.normal(size=(1, WIDTH)).astype(np.float32))
    path = np.array([2, 3, 1])
    memory = Memory(vector, path[None], np.array([0.9], np.float32), gain=20.0)
    with_memory, without = Remembering(plain, memory).begin(vector), plain.begin(vector)
    for code in path:
        scores, before = with_memory.scores(), without.scores()
        np.testing.assert_allclose(np.exp(scores).sum(axis=1), 1, rtol=1e-5)
        others = np.arange(scores.shape[1]) != code
        assert scores[0, code] > before[0, code]
        assert (scores[0, others] <= before[0, others]).all()
        odds = (scores - before)[0]  # the odds between the others stay as they are
        np.testing.assert_allclose(odds[others], odds[others][0], atol=1e-5)
        np.testing.assert_allclose(odds[code] - odds[others], 2.0, atol=1e-4)
        for decoding in (with_memory, without):
            decoding.advance(np.array([0]), np.array([code]))


def test_off_the_way_and_below_the_floor_nothing_changes() -> None:
    rng = np.random.default_rng(2)
    plain = geometry(rng)
    vector = unit_length(rng.normal(size=(1, WIDTH)).astype(np.float32))
    path = np.array([[2, 3, 1]])
    for memory, start in (
        (Memory(vector, path, np.array([1.1], np.float32), 20.0), [2]),
        (Memory(vector, path, np.array([0.5], np.float32), 20.0), [1]),
        (Memory(vector[:0], path[:0], np.zeros(0, np.float32), 20.0), [2]),
    ):
        decodings = [
            decoder.begin(vector, np.array(start)) for decoder in (Remembering(plain, memory), plain)
        ]
        for _ in range(2):
            np.testing.assert_array_equal(*(decoding.scores() for decoding in decodings))
            for decoding in decodings:
                decoding.advance(np.array([0, 0]), np.array([3, 1]))


@given(st.integers(0, 2**32 - 1))
def test_a_beam_as_wide_as_the_pool_finds_what_paths_add_up_to(seed: int) -> None:
    rng = np.random.default_rng(seed)
    decoder: Decoder = Remembering(geometry(rng), some_memory(rng, 20, gain=8.0))
    codes = np.unique(some_codes(rng, 30), axis=0)
    vectors = unit_length(rng.normal(size=(3, WIDTH)).astype(np.float32))
    beams = beam_search(decoder, Trie.build(codes), vectors, len(codes))
    for query, vector in enumerate(vectors):
        gains = trace(decoder, vector[None], np.zeros(len(codes), np.int64), codes)
        totals = {tuple(code): total for code, total in zip(codes.tolist(), gains.sum(axis=1), strict=True)}
        found = [totals[tuple(code)] for code in beams.codes[query].tolist()]
        np.testing.assert_allclose(beams.scores[query], found, atol=1e-4)
        assert len({tuple(code) for code in beams.codes[query].tolist()}) == len(codes)


def test_a_query_does_not_depend_on_its_company() -> None:
    rng = np.random.default_rng(3)
    decoder = Remembering(geometry(rng), some_memory(rng, 50))
    vectors = unit_length(rng.normal(size=(9, WIDTH)).astype(np.float32))
    together = decoder.remind(vectors)
    for number in range(9):
        alone = decoder.remind(vectors[number : number + 1])
        count = alone.codes.shape[1]
        np.testing.assert_array_equal(alone.codes[0], together.codes[number, :count])
        np.testing.assert_array_equal(alone.beyond[0], together.beyond[number, :count])
        assert (together.beyond[number, count:] == 0).all()


def test_some_queries_may_be_told_their_first_code_and_others_not() -> None:
    rng = np.random.default_rng(6)
    decoder = Remembering(geometry(rng), some_memory(rng, 50))
    vectors = unit_length(rng.normal(size=(3, WIDTH)).astype(np.float32))
    together = decoder.remind(vectors, np.array([1, -1, 2]))
    for number, first in enumerate((np.array([1]), None, np.array([2]))):
        alone = decoder.remind(vectors[number : number + 1], first)
        there = together.beyond[number] > 0
        np.testing.assert_array_equal(alone.codes[0], together.codes[number, there])
        np.testing.assert_array_equal(alone.beyond[0], together.beyond[number, there])


def test_what_does_not_fit_is_refused() -> None:
    rng = np.random.default_rng(4)
    memory = some_memory(rng, 5)
    with pytest.raises(InputError, match="each entry of a memory needs"):
        Memory(memory.vectors, memory.codes[:3], memory.floors, 1.0)
    with pytest.raises(InputError, match="codes of its decoder"):
        Remembering(geometry(rng), Memory(memory.vectors, memory.codes[:, :2], memory.floors, 1.0))
    with pytest.raises(InputError, match="codes of its decoder"):
        Remembering(geometry(rng), Memory(memory.vectors, memory.codes + 3, memory.floors, 1.0))


@given(st.integers(0, 12), st.integers(0, 2**32 - 1))
def test_items_gain_by_each_code_that_they_share_with_a_reminder(entries: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = unit_length(rng.normal(size=(3, WIDTH)).astype(np.float32))
    reminders = Remembering(geometry(rng), some_memory(rng, entries)).remind(vectors)
    codes = some_codes(rng, 20)
    tables = reminders.tables(max(SIZES))
    for query in range(3):
        expected = []
        for code in codes:
            added = 0.0
            for level, number in enumerate(code):
                same = reminders.codes[query, :, level] == number
                added += max(reminders.beyond[query, same], default=0.0) * LIKENESS / len(SIZES)
            expected.append(added)
        np.testing.assert_allclose(reminders.likeness(query, codes), expected, atol=1e-6)
        by_table = sum(tables[query, level, codes[:, level]] for level in range(len(SIZES)))
        np.testing.assert_allclose(by_table, expected, atol=1e-6)
