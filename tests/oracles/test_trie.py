from __future__ import annotations

from collections import defaultdict
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.trie import Trie

Prefix = tuple[int, ...]


@st.composite
def random_codes(draw: st.DrawFn) -> np.ndarray:
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


@given(random_codes(), st.randoms(use_true_random=False))
def test_equals_a_dictionary_of_prefixes(codes: np.ndarray, random: Random) -> None:
    trie = Trie.build(codes)
    assert (len(trie), trie.levels) == codes.shape
    for depth in range(trie.levels + 1):
        expected = by_prefix(codes, depth)
        prefixes = list(expected)
        assert trie.counts[depth] == len(prefixes)
        nodes = np.arange(len(prefixes))
        assert trie.prefixes(depth, nodes).tolist() == [list(prefix) for prefix in prefixes]

        chosen = np.array(random.choices(nodes.tolist(), k=5))
        below: list[list[int]] = [[] for _ in chosen]
        for place, item in zip(*trie.items(depth, chosen), strict=True):
            below[place].append(item)
        for node, items in zip(chosen, below, strict=True):
            assert sorted(items) == expected[prefixes[node]]
            assert items == sorted(items, key=lambda item: (codes[item].tolist(), item))
        node_of = {item: node for node, items in enumerate(expected.values()) for item in items}
        every_item = np.arange(len(trie))
        assert trie.nodes_above(depth, every_item).tolist() == [node_of[item] for item in range(len(trie))]

        if depth < trie.levels:
            longer = list(by_prefix(codes, depth + 1))
            children = [
                (place, child, prefix[-1])
                for place, node in enumerate(chosen)
                for child, prefix in enumerate(longer)
                if prefix[:-1] == prefixes[node]
            ]
            assert list(zip(*trie.children(depth, chosen), strict=True)) == children


def test_a_single_item_and_a_bucket() -> None:
    assert Trie.build(np.array([[2, 7, 1]])).counts == (1, 1, 1, 1)
    shared = Trie.build(np.array([[1, 1], [0, 3], [1, 1], [0, 2], [1, 1]], np.uint16))
    assert shared.counts == (1, 2, 3)
    places, items = shared.items(2, np.array([2, 0]))
    assert places.tolist() == [0, 0, 0, 1]
    assert items.tolist() == [0, 2, 4, 3]


def test_no_nodes_have_no_children_and_no_prefixes() -> None:
    trie = Trie.build(np.array([[0, 1], [1, 0]]))
    nothing = np.array([], np.int64)
    assert [len(array) for array in trie.children(0, nothing)] == [0, 0, 0]
    assert trie.prefixes(2, nothing).shape == (0, 2)
