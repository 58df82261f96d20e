"""The compiled loops of this layer: pairs that are near, the best of many scores, groups of linked rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from genius.jit import compiled


@compiled
def near_pairs(
    bounds: np.ndarray,
    rows: np.ndarray,
    others: np.ndarray,
    own: bool,
    embeddings: np.ndarray,
    inverse_norms: np.ndarray,
    modality: np.ndarray,
    floor: Any,
    pairs: np.ndarray,
    similarities: np.ndarray,
) -> int:
    """The pairs of visitors and members of a cell whose cosine is at least `floor`.

    Args:
        bounds: an upper bound of each cosine, float32 [visitors, members].
        rows: the row of each visitor.
        others: the row of each member.
        own: whether the visitors are the members, of which each pair is wanted once.
        embeddings: int8 [n, width].
        inverse_norms: one over the length of each, float32 [n].
        modality: of each row; only pairs of one modality count.
        floor: the least cosine.
        pairs: output, int64 [most, 2].
        similarities: output, float32 [most].

    Returns how many there are.
    """
    count = 0
    width = embeddings.shape[1]
    for visitor in range(bounds.shape[0]):
        row = rows[visitor]
        for place in range(visitor + 1 if own else 0, bounds.shape[1]):
            if bounds[visitor, place] < floor:
                continue
            other = others[place]
            if modality[row] != modality[other]:
                continue
            dot = np.int32(0)
            for column in range(width):
                # Cut to 32 bits at once, or it is summed in 64 and takes four times as long.
                dot = np.int32(dot + np.int32(embeddings[row, column]) * np.int32(embeddings[other, column]))
            cosine = np.float32(dot * inverse_norms[row] * inverse_norms[other])
            if cosine >= floor:
                pairs[count, 0], pairs[count, 1], similarities[count] = row, other, cosine
                count += 1
    return count


@compiled
def best_columns(scores: np.ndarray, excluded: np.ndarray, best: np.ndarray) -> None:
    """The columns of each row's highest scores, but for one excluded column [rows]: int64 [rows, most]."""
    most = best.shape[1]
    values = np.empty(most, np.float32)
    for row in range(scores.shape[0]):
        values[:] = -np.inf
        best[row] = -1
        lowest = np.float32(-np.inf)
        for column in range(scores.shape[1]):
            score = scores[row, column]
            if score <= lowest or column == excluded[row]:
                continue
            place = most - 1
            while place > 0 and values[place - 1] < score:
                values[place], best[row, place] = values[place - 1], best[row, place - 1]
                place -= 1
            values[place], best[row, place] = score, column
            lowest = values[most - 1]


@compiled
def find(parents: np.ndarray, row: Any) -> Any:
    """The representative of a row's group; paths are halved on the way."""
    while parents[row] != row:
        parents[row] = parents[parents[row]]
        row = parents[row]
    return row


@compiled
def link_all(pairs: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """Link the rows of each pair in turn; returns which pairs joined two groups, bool [pairs].

    Of two groups the representative with the lower row stays one.
    """
    joins = np.zeros(len(pairs), np.bool_)
    for number in range(len(pairs)):
        first, other = find(parents, pairs[number, 0]), find(parents, pairs[number, 1])
        if first != other:
            parents[max(first, other)] = min(first, other)
            joins[number] = True
    return joins


@compiled
def representatives(parents: np.ndarray) -> np.ndarray:
    """The representative of each row's group [n]."""
    named = np.empty(len(parents), np.int64)
    for row in range(len(parents)):
        named[row] = find(parents, row)
    return named


@compiled
def ward(distances: np.ndarray, weights: np.ndarray, merges: np.ndarray, heights: np.ndarray) -> None:
    """Join points two by two into ever larger groups, always those that grow the least (Ward's criterion).

    Finds mutual nearest neighbours along chains, which gives the same tree as joining the nearest pair of all
    each time.

    Args:
        distances: how much joining two points adds to the squared distances from their mean, float32
            [points, points]; it is overwritten. The diagonal does not matter.
        weights: of the points, float64 [points]; they are overwritten.
        merges: output, which two groups are joined, each named by a point of it: int64 [points - 1, 2].
        heights: output, how much each joining adds, float32 [points - 1]; not in rising order.
    """
    count = len(weights)
    alive = np.ones(count, np.bool_)
    chain = np.empty(count, np.int64)
    length = 0
    for step in range(count - 1):
        if length == 0:
            for point in range(count):
                if alive[point]:
                    chain[0] = point
                    break
            length = 1
        while True:
            last = chain[length - 1]
            nearest, least = -1, np.float32(np.inf)
            if length > 1:
                nearest = chain[length - 2]
                least = distances[last, nearest]
            for point in range(count):
                if alive[point] and point != last and distances[last, point] < least:
                    nearest, least = point, distances[last, point]
            if length > 1 and nearest == chain[length - 2]:
                break
            chain[length] = nearest
            length += 1
        first, other = min(last, nearest), max(last, nearest)
        length -= 2
        merges[step, 0], merges[step, 1], heights[step] = first, other, least
        for point in range(count):
            if alive[point] and point not in (first, other):
                grown = (
                    (weights[first] + weights[point]) * distances[first, point]
                    + (weights[other] + weights[point]) * distances[other, point]
                    - weights[point] * least
                ) / (weights[first] + weights[other] + weights[point])
                distances[first, point] = grown
                distances[point, first] = grown
        weights[first] += weights[other]
        alive[other] = False
