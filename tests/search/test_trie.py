from __future__ import annotations

from collections import defaultdict
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.errors import InputError
from tests.oracles.trie import Trie

Prefix = tuple[int, ...]


@st.composite
def pools(draw: st.DrawFn) -> np.ndarray:
    levels = draw(st.integers(1, 4))
    code = st.sampled_from([0, 1, 2, 65535])
    rows = draw(st.lists(st.tuples(*[code] * levels), min_size=1, max_size=30))
    return np.array(rows, draw(st.sampled_from([np.uint16, np.int64])))


def by_prefix(codes: np.ndarray, depth: int) -> dict[Prefix, list[int]]:
    """The items below each prefix, the prefixes in order."""
    below: dict[Prefix, list[int]] = defaultdict(list)
    for item, row in enumerate(codes.tolist()):
        below[tuple(row[:depth])].append(item)
    return dict(sorted(below.items()))


@given(pools(), st.randoms(use_true_random=False))
def test_equals_a_dictionary_of_prefixes(codes: np.ndarray, random: Random) -> None:
    trie = Trie.build(codes)
    assert (len(trie), trie.levels) == codes.shape
    assert trie.sizes == tuple(codes.max(axis=0).astype(int) + 1)
    for depth in range(trie.levels + 1):
        expected = by_prefix(codes, depth)
        prefixes = list(expected)
        assert trie.counts[depth] == len(prefixes)
        nodes = np.arange(len(prefixes))
        assert trie.prefixes(depth, nodes).tolist() == [list(prefix) for prefix in prefixes]

        asked = np.array(random.choices(nodes.tolist(), k=5))
        found: list[list[int]] = [[] for _ in asked]
        for position, item in zip(*trie.items(depth, asked), strict=True):
            found[position].append(item)
        starts, ends = trie.rows(depth, asked)
        for node, items, start, end in zip(asked, found, starts, ends, strict=True):
            below = expected[prefixes[node]]
            assert sorted(items) == below
            assert items == trie.order[start:end].tolist()
            assert items == sorted(items, key=lambda item: codes[item].tolist())
        above = {item: node for node, items in enumerate(expected.values()) for item in items}
        assert trie.above(depth, np.arange(len(trie))).tolist() == [above[item] for item in range(len(trie))]

        if depth < trie.levels:
            longer = list(by_prefix(codes, depth + 1))
            children = [
                (position, child, prefix[-1])
                for position, node in enumerate(asked)
                for child, prefix in enumerate(longer)
                if prefix[:-1] == prefixes[node]
            ]
            assert list(zip(*trie.children(depth, asked), strict=True)) == children


def test_one_item_and_a_bucket() -> None:
    one = Trie.build(np.array([[2, 7, 1]]))
    assert one.counts == (1, 1, 1, 1)
    shared = Trie.build(np.array([[1, 1], [0, 3], [1, 1], [0, 2], [1, 1]], np.uint16))
    assert shared.counts == (1, 2, 3)
    positions, items = shared.items(2, np.array([2, 0]))
    assert positions.tolist() == [0, 0, 0, 1]
    assert items.tolist() == [0, 2, 4, 3]


def test_nothing_asked_is_nothing_found() -> None:
    trie = Trie.build(np.array([[0, 1], [1, 0]]))
    none = np.array([], np.int64)
    assert [len(part) for part in trie.children(0, none)] == [0, 0, 0]
    assert trie.prefixes(2, none).shape == (0, 2)


def test_bad_input() -> None:
    with pytest.raises(InputError, match=r"the codes of at least one item, not the shape \(0, 9\)"):
        Trie.build(np.empty((0, 9), np.uint16))
    with pytest.raises(InputError, match=r"not the shape \(3,\)"):
        Trie.build(np.array([1, 2, 3]))
    for codes in ([[0, -1]], [[0, 65536]], [[0.0, 1.0]]):
        with pytest.raises(InputError, match="integers from 0 to 65535"):
            Trie.build(np.array(codes))
