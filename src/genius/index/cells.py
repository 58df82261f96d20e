"""What lies under a prefix of codes: codes are a catalogue of the collection from coarse to fine.

Segments are sorted by code, so the items that share a prefix are one run of rows in each of them, found by
bisection.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from genius.data.records import MODALITIES, Item
from genius.errors import InputError
from genius.index.catalogue import Catalogue
from genius.index.entries import item_of
from genius.index.segments import Segment, SegmentFormat
from genius.index.snapshot import Snapshot

BLOCK = 1 << 16
"""How many codes are unpacked at a time."""

Prefix = tuple[int | None, ...]
"""The first codes of an identifier, from the first level on; None, only in front, stands for any modality."""


@dataclass(frozen=True)
class Cell:
    """What lies under a prefix.

    Attributes:
        count: how many items there are.
        children: the codes that follow, with how many items each has, the largest first; none below a whole
            code.
        items: some of the items, spread evenly over their codes.
    """

    prefix: Prefix
    count: int
    children: tuple[tuple[int, int], ...]
    items: tuple[Item, ...]


def find_cell(
    snapshot: Snapshot, catalogue: Catalogue, prefix: Prefix, format: SegmentFormat, items: int
) -> Cell:
    """What lies under a prefix in one version, with some of its items.

    Raises InputError for more levels than there are, and for codes that can't be.
    """
    check_prefix(prefix, format)
    keys, counts = cell_members(snapshot, prefix, format.sizes)
    entries = catalogue.entries(chosen := evenly_spread(keys, items))
    samples = tuple(item_of(entries[key], catalogue.path) for key in chosen if key in entries)
    return Cell(prefix, len(keys), children_of(counts), samples)


def check_prefix(prefix: Prefix, format: SegmentFormat) -> None:
    """Raise InputError for more levels than there are, and for codes that can't be."""
    sizes = format.sizes
    if len(prefix) > len(sizes):
        raise InputError(f"codes have {len(sizes)} levels, and this prefix {len(prefix)}")
    if None in prefix[1:] or (prefix[:1] == (None,) and not format.semantic):
        raise InputError("only a first code that tells the modality can stand for any")
    for level, (code, size) in enumerate(zip(prefix, sizes, strict=False), 1):
        if code is not None and not 0 <= code < size:
            raise InputError(f"level {level} has codes from 0 to {size - 1}, and not {code}")


def cell_members(snapshot: Snapshot, prefix: Prefix, sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The keys of the items under a prefix in code order, and how many have each code that follows."""
    depth = len(prefix)
    counts = np.zeros(sizes[depth] if depth < len(sizes) else 0, np.int64)
    members = [np.zeros(0, np.int64)]
    for segment in snapshot.segments.values():
        for start, end in _runs(segment, prefix, sizes):
            keys = segment.item_keys[start:end].astype(np.int64)
            tombstones = snapshot.tombstones
            live = ~np.isin(keys, tombstones) if len(tombstones) else np.ones(len(keys), bool)
            members.append(keys[live])
            if len(counts):
                codes = segment.packed.codes(np.arange(start, end))[live, depth]
                counts += np.bincount(codes, minlength=len(counts))
    return np.concatenate(members), counts


def first_code_modalities(snapshot: Snapshot, codes: int) -> np.ndarray:
    """How many items of each modality have each of the first level's codes, int64 [codes, modalities]."""
    counts = np.zeros((codes, len(MODALITIES)), np.int64)
    for segment in snapshot.segments.values():
        live = ~np.isin(segment.item_keys, snapshot.tombstones)
        np.add.at(counts, (segment.codes[live, 0], segment.modality[live]), 1)
    return counts


def evenly_spread(keys: np.ndarray, count: int) -> list[int]:
    """At most `count` of the keys, evenly spaced."""
    count = min(count, len(keys))
    return keys[np.arange(count) * len(keys) // max(1, count)].tolist()  # type: ignore[no-any-return]


def children_of(counts: np.ndarray) -> tuple[tuple[int, int], ...]:
    """The codes that occur with their counts, the largest first."""
    order = np.argsort(-counts, kind="stable")
    return tuple((int(code), int(counts[code])) for code in order if counts[code])


def _runs(segment: Segment, prefix: Prefix, sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The rows of a segment under a prefix, in runs that are not too long: start and end."""
    modalities = range(sizes[0]) if prefix[:1] == (None,) else prefix[:1]
    for wanted in [(modality, *prefix[1:]) for modality in modalities] or [()]:

        def prefix_of(row: int, depth: int = len(wanted)) -> tuple[int, ...]:
            return tuple(segment.packed.codes(np.array([row]))[0, :depth].tolist())

        start = bisect_left(range(len(segment)), wanted, key=prefix_of)
        end = bisect_right(range(len(segment)), wanted, lo=start, key=prefix_of)
        yield from ((first, min(first + BLOCK, end)) for first in range(start, end, BLOCK))
