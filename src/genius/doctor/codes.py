"""What codes say of themselves: how they are used, which items share one, whether they tell modalities apart.

None of it says whether search finds anything: codebooks without any contrast look perfect here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genius.data.records import MODALITIES
from genius.errors import InputError

SAME = 1e-5
"""Two vectors that differ by no more in any dimension are the same content: the rest is rounding."""
BLOCK = 4096


@dataclass(frozen=True)
class Level:
    """How one level's codes are used by the items."""

    size: int
    """Codes there are."""
    used: float
    """Share of them that some item has."""
    perplexity: float
    """How many codes, evenly used, would say as much."""
    bits: float
    """The entropy: what the level says of an item, the levels before it apart."""


@dataclass(frozen=True)
class Group:
    """The items of one modality, and how many of them share their code with some other content."""

    modality: str
    items: int
    colliding: int


@dataclass(frozen=True)
class Buckets:
    """Which items share a whole code. Items of the same content must; others should not."""

    items: int
    unique: int
    """Different codes."""
    contents: int
    """Different contents: items with the same vector are one."""
    own: float
    """Share of the contents that have a code of their own."""
    largest: int
    """Items of the largest bucket."""
    groups: tuple[Group, ...]


def level_use(codes: np.ndarray, sizes: Sequence[int]) -> tuple[Level, ...]:
    """The use of each level by codes [items, levels], where `sizes` are the codes there are."""
    if codes.ndim != 2 or codes.shape[1] != len(sizes) or not len(codes):
        raise InputError(f"codes of {len(sizes)} levels are needed, not the shape {codes.shape}")
    levels = []
    for column, size in zip(codes.T, sizes, strict=True):
        counts = np.bincount(column, minlength=size)
        shares = counts[counts > 0] / len(column)
        bits = max(0.0, float(-(shares * np.log2(shares)).sum()))
        levels.append(Level(size, float((counts > 0).mean()), 2**bits, bits))
    return tuple(levels)


def buckets(codes: np.ndarray, vectors: np.ndarray, modality: np.ndarray) -> Buckets:
    """How items share codes [items, levels], given their vectors [items, width] and modalities [items]."""
    own = _buckets_of(codes)
    contents = own[_distinct(own, vectors)]  # the bucket of each content
    inside = np.bincount(contents, minlength=int(own.max()) + 1)
    collides = inside[own] > 1
    groups = [
        Group(kind.value, int((modality == number).sum()), int(collides[modality == number].sum()))
        for number, kind in enumerate(MODALITIES)
    ]
    return Buckets(
        items=len(codes),
        unique=len(inside),
        contents=int(inside.sum()),
        own=float((inside == 1).sum() / inside.sum()),
        largest=int(np.bincount(own).max()),
        groups=tuple(group for group in groups if group.items),
    )


def distinct(codes: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The numbers of items of different content, one of each; items with equal vectors are the same."""
    return np.sort(_distinct(_buckets_of(codes), vectors))


def _buckets_of(codes: np.ndarray) -> np.ndarray:
    """The number of each item's bucket, in the order of codes [items, levels]: int64 [items]."""
    order = np.lexsort(codes.T[::-1])
    new = np.ones(len(codes), bool)
    new[1:] = (codes[order[1:]] != codes[order[:-1]]).any(axis=1)
    buckets = np.empty(len(codes), np.int64)
    buckets[order] = np.cumsum(new) - 1
    return buckets


def _distinct(bucket: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """One item of each content, bucket by bucket.

    Items are put into the order of their bucket and of a projection of their vectors, which brings the same
    content together without a look at all pairs; one that differs from the item before it is a new content.
    """
    direction = np.random.default_rng(0).standard_normal(vectors.shape[1], np.float32)
    order = np.lexsort((vectors @ direction, bucket))
    new = np.ones(len(order), bool)
    new[1:] = bucket[order[1:]] != bucket[order[:-1]]
    doubtful = np.flatnonzero(~new)
    for start in range(0, len(doubtful), BLOCK):
        places = doubtful[start : start + BLOCK]
        apart = np.abs(vectors[order[places]] - vectors[order[places - 1]]).max(axis=1)
        new[places] = apart > SAME
    return order[new]


def confusion(first: np.ndarray, modality: np.ndarray, size: int) -> np.ndarray:
    """How many items have each first code and modality: int64 [codes, modalities]."""
    table = np.zeros((size, len(MODALITIES)), np.int64)
    np.add.at(table, (first, modality), 1)
    return table


def purity(table: np.ndarray) -> float:
    """The share of items whose first code stands for their modality: for what most of its items are."""
    return float(table.max(axis=1).sum() / table.sum())


def agreement(one: np.ndarray, other: np.ndarray, depth: int = 3) -> tuple[float, ...]:
    """The share of pairs of codes [pairs, levels] that are equal in the first code, the first two, …"""
    if one.shape != other.shape or not len(one):
        raise InputError(f"pairs of codes are needed, not the shapes {one.shape} and {other.shape}")
    equal = np.logical_and.accumulate(one[:, :depth] == other[:, :depth], axis=1)
    return tuple(float(share) for share in equal.mean(axis=0))
