"""Beam search over the codes that exist: the best prefixes of each query, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genius.decode.decoder import Decoder
from tests.oracles.trie import Trie


@dataclass(frozen=True, eq=False)
class Beams:
    """The beams of a search, for each query best first; fewer than `beams` where no more exist.

    Attributes:
        log_probs: summed log-probabilities float32 [queries, beams], -inf where there is no beam.
        codes: int64 [queries, beams, depth], -1 where there is no beam.
        nodes_by_level: for each level the nodes int64 [queries, beams] in the beams after it, -1 for none.
        level_log_probs: what each code added, float32 [queries, beams, depth], 0 where there is no beam.
    """

    log_probs: np.ndarray
    codes: np.ndarray
    nodes_by_level: np.ndarray
    level_log_probs: np.ndarray

    @property
    def depth(self) -> int:
        """How many levels were searched."""
        return len(self.nodes_by_level)

    @property
    def nodes(self) -> np.ndarray:
        """The nodes at that depth, int64 [queries, beams], -1 where there is no beam."""
        return np.asarray(self.nodes_by_level[-1])


def beam_search(
    decoder: Decoder,
    trie: Trie,
    vectors: np.ndarray,
    beams: int,
    *,
    depth: int | None = None,
    modality_code: np.ndarray | None = None,
) -> Beams:
    """The `beams` prefixes of `trie` with the greatest summed log-probability for each query.

    After each level the best `beams` prefixes of a query are kept; of equal ones the smaller codes. A code
    whose log-probability is -inf is never taken.

    Args:
        decoder: scores the next code; its log-probabilities are over all codes of a level, and not only those
            that exist.
        trie: the codes that exist.
        vectors: a vector for each query, [queries, width].
        beams: how many prefixes are kept.
        depth: after which level to stop; without it, the last.
        modality_code: the first code that each query wants [queries], -1 for any. A given code adds nothing
            to the score. If all are given, the decoder begins behind them.
    """
    depth = trie.levels if depth is None else depth
    shape = (len(vectors), beams)
    result = Beams(
        np.full(shape, -np.inf, np.float32),
        np.full((*shape, depth), -1, np.int64),
        np.full((depth, *shape), -1, np.int64),
        np.zeros((*shape, depth), np.float32),
    )
    if not len(vectors):
        return result
    all_given = modality_code is not None and bool((modality_code >= 0).all())
    decoding = None if all_given else decoder.begin(vectors)
    # Beams are rows, in the order of their queries.
    queries, nodes = np.arange(len(vectors)), np.zeros(len(vectors), np.int64)
    sums = np.zeros(len(vectors), np.float32)
    path = np.zeros((len(vectors), 0), np.float32)  # the log-probabilities that led to each row
    for level in range(depth):
        parents, nodes, codes = trie.children(level, nodes)
        added = np.zeros(len(parents), np.float32) if decoding is None else decoding.scores()[parents, codes]
        if level == 0 and modality_code is not None:
            wanted = modality_code[parents]
            added = np.where(wanted == codes, np.float32(0), np.where(wanted < 0, added, -np.inf))
        sums = sums[parents] + added
        kept, ranks = _best(queries[parents], sums, nodes, beams)
        parents, nodes, codes, sums = parents[kept], nodes[kept], codes[kept], sums[kept]
        path, queries = np.column_stack([path[parents], added[kept]]), queries[parents]
        result.nodes_by_level[level, queries, ranks] = nodes
        if not len(parents):
            return result
        if level + 1 == depth:
            break
        if decoding is None:  # only now, with those queries whose modality code exists
            decoding = decoder.begin(vectors[parents], codes)
        else:
            decoding.advance(parents, codes)
    result.log_probs[queries, ranks] = sums
    result.level_log_probs[queries, ranks] = path
    result.codes[queries, ranks] = trie.prefixes(depth, nodes)
    return result


def _best(
    queries: np.ndarray, sums: np.ndarray, nodes: np.ndarray, beams: int
) -> tuple[np.ndarray, np.ndarray]:
    """The places of the best of each query, by query and best first, and the rank of each."""
    order = np.lexsort((nodes, -sums, queries))
    order = order[sums[order] > -np.inf]
    ranks = _ranks(queries[order])
    return order[ranks < beams], ranks[ranks < beams]


def _ranks(groups: np.ndarray) -> np.ndarray:
    """The place of each element in its group; groups are numbers in rising order."""
    return np.arange(len(groups)) - np.searchsorted(groups, groups)


def ranked_items(trie: Trie, beams: Beams, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The first k items of each query: the beams best first, and the items below a beam by code and number.

    Returns log-probabilities float32 and item numbers int64, both [queries, k], padded with -inf and -1.
    """
    log_probs = np.full((len(beams.nodes), k), -np.inf, np.float32)
    numbers = np.full(log_probs.shape, -1, np.int64)
    for query, nodes in enumerate(beams.nodes):
        places, items = trie.items(beams.depth, nodes[nodes >= 0])
        order = np.lexsort((items, places))[:k]
        numbers[query, : len(order)] = items[order]
        log_probs[query, : len(order)] = beams.log_probs[query, places[order]]
    return log_probs, numbers


def prefix_survival(trie: Trie, beams: Beams, positives: Sequence[np.ndarray]) -> np.ndarray:
    """The share of queries with a prefix of a positive item in the beams, after each level.

    `positives` are the numbers of the items that answer each query; a query without any counts as lost.
    """
    survival = np.zeros(beams.depth)
    for level, nodes in enumerate(beams.nodes_by_level):
        kept = [
            bool(np.isin(trie.nodes_above(level + 1, np.asarray(items, np.int64)), own_nodes).any())
            for items, own_nodes in zip(positives, nodes, strict=True)
        ]
        survival[level] = np.mean(kept)
    return survival
