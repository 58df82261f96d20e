"""Samples: a few items that stand for the collection, spread out, typical, or from every cell."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from genius.collection.albums import check_number
from genius.collection.members import Members
from genius.data.records import Item
from genius.errors import InputError
from genius.index.catalogue import Catalogue
from genius.index.entries import item_of
from genius.index.hits import item_to_dict
from genius.index.snapshot import Snapshot

SampleKind = Literal["spread", "typical", "per-cell"]
"""`spread`: as different from each other as can be. `typical`: as many from each part of the collection as it
has, each from the middle of its part. `per-cell`: one of each cell in turn, also of those with few items."""
KINDS: tuple[SampleKind, ...] = get_args(SampleKind)
MAX_SAMPLE = 100_000
"""How many items can be asked for."""
MAX_SPREAD = 5000
"""How many can be spread out: each is compared with all candidates."""
CANDIDATES = 20_000
"""Among so many items those that are spread out are chosen, at least."""


def take_sample(
    snapshot: Snapshot, catalogue: Catalogue, n: int = 200, kind: SampleKind = "spread", seed: int = 0
) -> list[Item]:
    """`n` items of a version of an index, or all if there are not so many; the same for the same seed.

    Spread-out items are in the order in which they were chosen, so that the first ones are a sample, too;
    others are in the order of their codes.
    """
    check_number(n, MAX_SPREAD if kind == "spread" else MAX_SAMPLE)
    if kind not in KINDS:
        raise InputError(f"unknown kind of sample {kind!r}: expected one of {', '.join(KINDS)}")
    if not isinstance(seed, int) or seed < 0:
        raise InputError(f"a seed is a whole number from 0 on, not {seed!r}")
    if not len(snapshot):
        return []
    members = Members.of(snapshot).in_order_of_meaning()
    random = np.random.default_rng(seed)
    take = {"spread": spread_rows, "typical": typical_rows, "per-cell": per_cell_rows}[kind]
    keys = members.item_keys[take(members, min(n, len(members)), random)].tolist()
    entries = catalogue.entries(keys)
    return [item_of(entries[key], catalogue.path) for key in keys]


def spread_rows(members: Members, n: int, random: np.random.Generator) -> np.ndarray:
    """Rows that are far from each other: each is the one that is farthest from all before it."""
    count = len(members)
    rows = np.sort(random.choice(count, min(count, max(CANDIDATES, 4 * n)), replace=False))
    vectors = members.vectors(rows)
    # Not one of the odd ones: the item nearest to the middle of some that are drawn at random.
    middle = vectors[random.choice(len(rows), min(len(rows), 64), replace=False)].mean(0)
    chosen = [int((vectors @ middle).argmax())]
    nearest = vectors @ vectors[chosen[0]]
    nearest[chosen[0]] = np.inf
    while len(chosen) < n:
        row = int(nearest.argmin())
        chosen.append(row)
        np.maximum(nearest, vectors @ vectors[row], out=nearest)
        nearest[row] = np.inf
    return rows[chosen]


def typical_rows(members: Members, n: int, random: np.random.Generator) -> np.ndarray:
    """One row of each of `n` equal stretches of the order of codes: the one nearest to the stretch's mean.

    A prefix gets as many rows as its share of the items is; the seed moves where stretches begin.
    """
    count = len(members)
    bounds = np.floor((np.arange(n + 1) + random.random()) * count / n).astype(np.int64) % count
    chosen = []
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        stretch = np.arange(start, end) if start < end else np.append(np.arange(start, count), np.arange(end))
        vectors = members.vectors(stretch)
        chosen.append(stretch[int((vectors @ vectors.mean(0)).argmax())])
    return np.unique(chosen)


def per_cell_rows(members: Members, n: int, random: np.random.Generator) -> np.ndarray:
    """Rows of all cells of the first semantic level in turn, drawn at random within each."""
    cells = members.cells(len(members), first_level=members.semantic)
    cell_of = np.repeat(np.arange(len(cells) - 1), np.diff(cells))
    shuffled = random.permutation(len(members))
    ordered = shuffled[np.argsort(cell_of[shuffled], kind="stable")]
    turn = np.arange(len(members)) - cells[:-1][cell_of[ordered]]
    # In a turn that is not complete, the largest cells come first.
    sizes = np.diff(cells)[cell_of[ordered]]
    return np.sort(ordered[np.lexsort((-sizes, turn))][:n])


def sample_to_dict(items: list[Item], kind: SampleKind, seed: int, *, local: bool = False) -> dict[str, Any]:
    """A sample as JSON."""
    return {"kind": kind, "seed": seed, "items": [item_to_dict(item, local=local) for item in items]}
