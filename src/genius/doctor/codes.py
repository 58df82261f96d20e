"""How codes are used, which items share one, and whether the modality code tells modalities apart.

None of this says whether a search finds anything: codebooks trained without contrast look perfect here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genius.data.records import MODALITIES
from genius.errors import InputError

SAME_CONTENT = 1e-5
"""Vectors that differ by no more than this in any dimension are of the same content: the rest is rounding."""
BLOCK = 4096
"""Pairs of vectors that are compared at a time."""


@dataclass(frozen=True)
class LevelUse:
    """How the items use the codes of one level."""

    size: int
    """The number of codes."""
    used: float
    """The share of codes that at least one item has."""
    perplexity: float
    """The number of evenly used codes that would carry as much information."""
    bits: float
    """The entropy of the codes, without regard to the levels before."""


@dataclass(frozen=True)
class ModalityCollisions:
    """The items of one modality, and how many of them share their code with different content."""

    modality: str
    items: int
    colliding: int


@dataclass(frozen=True)
class Buckets:
    """Which items share a whole code. Items of the same content must; others should not."""

    items: int
    distinct_codes: int
    distinct_contents: int
    """Items with the same vector are one content."""
    own_code: float
    """The share of contents that have a code of their own."""
    largest: int
    """The number of items in the largest bucket."""
    by_modality: tuple[ModalityCollisions, ...]


def level_use(codes: np.ndarray, sizes: Sequence[int]) -> tuple[LevelUse, ...]:
    """The use of each level by codes [items, levels], where `sizes` are the numbers of codes per level.

    Raises InputError for codes of another shape.
    """
    if codes.ndim != 2 or codes.shape[1] != len(sizes) or not len(codes):
        raise InputError(f"codes of {len(sizes)} levels are needed, not the shape {codes.shape}")
    levels = []
    for column, size in zip(codes.T, sizes, strict=True):
        counts = np.bincount(column, minlength=size)
        shares = counts[counts > 0] / len(column)
        bits = max(0.0, float(-(shares * np.log2(shares)).sum()))
        levels.append(LevelUse(size, float((counts > 0).mean()), 2**bits, bits))
    return tuple(levels)


def measure_buckets(codes: np.ndarray, vectors: np.ndarray, modality: np.ndarray) -> Buckets:
    """How items share codes [items, levels], given their vectors [items, width] and modalities [items]."""
    bucket = _bucket_of(codes)
    contents = np.bincount(bucket[_one_of_each_content(bucket, vectors)])  # in each bucket
    collides = contents[bucket] > 1
    by_modality = [
        ModalityCollisions(
            kind.value, int((modality == number).sum()), int(collides[modality == number].sum())
        )
        for number, kind in enumerate(MODALITIES)
    ]
    return Buckets(
        items=len(codes),
        distinct_codes=len(contents),
        distinct_contents=int(contents.sum()),
        own_code=float((contents == 1).sum() / contents.sum()),
        largest=int(np.bincount(bucket).max()),
        by_modality=tuple(group for group in by_modality if group.items),
    )


def distinct_contents(codes: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The numbers of items of different content, one of each, rising; equal vectors are the same content."""
    return np.sort(_one_of_each_content(_bucket_of(codes), vectors))


def _bucket_of(codes: np.ndarray) -> np.ndarray:
    """The number of each item's bucket, in the order of codes [items, levels]: int64 [items]."""
    order = np.lexsort(codes.T[::-1])
    ordered = codes[order]
    starts = np.zeros(len(codes), np.int64)
    starts[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    buckets = np.empty(len(codes), np.int64)
    buckets[order] = np.cumsum(starts)
    return buckets


def _one_of_each_content(bucket: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The number of one item of each content, bucket by bucket.

    Sorting items by their bucket and by a random projection of their vectors brings equal vectors together
    without comparing all pairs; an item that differs from the one before it is a new content.
    """
    direction = np.random.default_rng(0).standard_normal(vectors.shape[1], np.float32)
    order = np.lexsort((vectors @ direction, bucket))
    new = np.ones(len(order), bool)
    new[1:] = bucket[order[1:]] != bucket[order[:-1]]
    in_one_bucket = np.flatnonzero(~new)
    for start in range(0, len(in_one_bucket), BLOCK):
        places = in_one_bucket[start : start + BLOCK]
        difference = np.abs(vectors[order[places]] - vectors[order[places - 1]]).max(axis=1)
        new[places] = difference > SAME_CONTENT
    return order[new]


def confusion(modality_codes: np.ndarray, modality: np.ndarray, size: int) -> np.ndarray:
    """The number of items by modality code [items] and modality [items]: int64 [codes, modalities]."""
    table = np.zeros((size, len(MODALITIES)), np.int64)
    np.add.at(table, (modality_codes, modality), 1)
    return table


def purity(table: np.ndarray) -> float:
    """The share of items whose modality is the most frequent one of their modality code.

    `table` is that of `confusion`.
    """
    return float(table.max(axis=1).sum() / table.sum())


def agreement(codes: np.ndarray, others: np.ndarray, depth: int = 3) -> tuple[float, ...]:
    """The share of pairs of codes [pairs, levels] that agree in the first code, in the first two, …

    Raises InputError for shapes that differ, or no pairs.
    """
    if codes.shape != others.shape or not len(codes):
        raise InputError(f"pairs of codes are needed, not the shapes {codes.shape} and {others.shape}")
    equal = np.logical_and.accumulate(codes[:, :depth] == others[:, :depth], axis=1)
    return tuple(float(share) for share in equal.mean(axis=0))
