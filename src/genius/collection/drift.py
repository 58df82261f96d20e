"""Drift: how the newer items of a collection differ from the older ones, and whether its codes still fit.

Codes cut the collection into cells, from coarse to fine. Cells that have a larger share of the new items than
of the old ones, or a smaller one, by more than chance are named. The probability that two groups of one
collection, divided at random, are told apart is at most `LEVEL`.

Whether codes fit is told by `genius.collection.code_errors`: how much of an item's embedding its code tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from genius.collection.album_labels import (
    counted,
    distinct,
    names_by_texts,
    names_by_words,
    naming_text,
    word_spreads,
)
from genius.collection.cell_changes import CellChange, CellTable, ChangeKind
from genius.collection.code_errors import CodeErrors, compare_errors, evenly
from genius.collection.members import Members
from genius.collection.vocabulary import VOCABULARY
from genius.collection.words import word_vectors
from genius.data.records import Item
from genius.display import numbered
from genius.errors import InputError
from genius.index.catalogue import Catalogue
from genius.index.entries import item_of
from genius.index.hits import item_to_dict
from genius.index.near_misses import EMPTY
from genius.index.snapshot import Snapshot
from genius.model import Model

LEVEL = 0.01
"""The probability at most that items which differ by chance alone are called drifted."""
TESTS = 4
"""The level is divided among so many tests: cells that grew, cells that shrank, all cells, errors."""
SHIFT = 0.02
"""Without such a cell, content has shifted if this share of items is in other cells."""
UNFIT = 1.25
"""Codes no longer fit if the error of new items is so many times that of old ones."""
FEW = 30
"""With fewer items in a group only large changes can be told."""
EXAMPLES, NAMED, TEXTS = 6, 3, 200
"""Items shown of a cell; cells named in the verdict; texts that a name is made from."""

Verdict = Literal["none", "shifted", "unfit"]


@dataclass(frozen=True)
class DriftedCell:
    """A cell of codes that has another share of the new items than of the old ones.

    Attributes:
        prefix: the codes that its items begin with.
        kind: what became of it; `appeared` and `emptied` mean that it has no old, or no new item, but for
            strays.
        label: a name of a few words, as albums have it; empty if nothing names it.
        old: how many of the old items it has.
        new: how many of the new ones.
        old_share: of the old items.
        new_share: of the new ones.
        p_value: the probability that chance does so much, corrected for the number of cells.
        items: some from its middle: new ones, or old ones if it shrank.
    """

    prefix: tuple[int, ...]
    kind: ChangeKind
    label: str
    old: int
    new: int
    old_share: float
    new_share: float
    p_value: float
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Drift:
    """How new items differ from old ones.

    Attributes:
        old: how many old items there are.
        new: how many new ones.
        cells: that have appeared, grown, shrunk or emptied, the largest change of a share first.
        shift: the share of items that are in other cells than before, beyond what chance does.
        p_value: the probability that chance does so much.
        old_error: the mean error of old items; None if it can't be told.
        new_error: that of new ones.
        error_p_value: the probability that chance makes so much of a difference between them.
        verdict: `none`, `shifted` (codes still fit) or `unfit` (fit or train again).
        says: the verdict in a sentence.
        notes: what the reader should know.
    """

    old: int
    new: int
    cells: tuple[DriftedCell, ...]
    shift: float
    p_value: float
    old_error: float | None
    new_error: float | None
    error_p_value: float | None
    verdict: Verdict
    says: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ItemGroup:
    """Items of one index: old ones, or new ones.

    `keeps_embeddings` tells whether their embeddings are kept, or made from their codes.
    """

    members: Members
    catalogue: Catalogue
    keeps_embeddings: bool

    @classmethod
    def of(cls, snapshot: Snapshot, catalogue: Catalogue) -> ItemGroup:
        """All items of a version of an index. Raises InputError if it is empty, or codes have no vectors."""
        if not snapshot.model.has_code_vectors:
            raise InputError(
                "the identifiers of this model have no vectors, so nothing is told by their cells"
            )
        if not len(snapshot):
            raise InputError(EMPTY, path=catalogue.path.parent)
        kept = all(segment.embeddings.shape[1] for segment in snapshot.segments.values())
        return cls(Members.of(snapshot), catalogue, kept)

    def selected(self, chosen: np.ndarray) -> ItemGroup:
        """Only the items where `chosen` [n] is true."""
        return ItemGroup(self.members.selected(np.flatnonzero(chosen)), self.catalogue, self.keeps_embeddings)

    def items(self, rows: np.ndarray) -> list[Item]:
        """The items of some rows."""
        keys = self.members.item_keys[rows].tolist()
        entries = self.catalogue.entries(keys)
        return [item_of(entries[key], self.catalogue.path) for key in keys if key in entries]


def find_drift(model: Model, old: ItemGroup, new: ItemGroup, *, seed: int = 0) -> Drift:
    """How new items differ from old ones of the same model. Both groups must be read in one version."""
    random = np.random.default_rng(seed)
    level = LEVEL / TESTS
    table = CellTable.of(old.members.codes, new.members.codes)
    drifted = table.drifted(level)
    shift, p_value = table.shift(random)
    kept = old.keeps_embeddings and new.keeps_embeddings
    errors = compare_errors(model, old.members, new.members, random) if kept else None
    few = min(len(old.members), len(new.members))
    notes = []
    if few < FEW:
        notes.append(f"one of the two has only {numbered(few, 'item')}: large changes alone can be told")
    if not kept:
        notes.append("no embeddings are kept: whether codes still fit can't be told, only what they hold")
    elif errors is None:
        notes.append("there are too few items to tell whether codes still fit")
    unfit = errors is not None and errors.p_value <= level and errors.new >= UNFIT * errors.old
    shifted = bool(drifted) or (p_value <= level and shift >= SHIFT)
    verdict: Verdict = "unfit" if unfit else "shifted" if shifted else "none"
    cells = _describe(model, old, new, drifted)
    return Drift(
        len(old.members),
        len(new.members),
        cells,
        shift,
        p_value,
        None if errors is None else errors.old,
        None if errors is None else errors.new,
        None if errors is None else errors.p_value,
        verdict,
        _sentence(verdict, cells, shift, errors),
        tuple(notes),
    )


def _describe(
    model: Model, old: ItemGroup, new: ItemGroup, changes: Sequence[CellChange]
) -> tuple[DriftedCell, ...]:
    """The cells with names and examples, the largest change of a share first."""
    counts = len(old.members), len(new.members)
    ordered = sorted(changes, key=lambda change: -abs(change.new / counts[1] - change.old / counts[0]))
    sides = [new if change.kind in ("appeared", "grew") else old for change in ordered]
    rows = [
        np.flatnonzero((side.members.codes[:, : len(change.prefix)] == change.prefix).all(1))
        for side, change in zip(sides, ordered, strict=True)
    ]
    labels = _labels(model, old, new, list(zip(sides, rows, strict=True)))
    return tuple(
        DriftedCell(
            change.prefix,
            change.kind,
            label,
            change.old,
            change.new,
            change.old / counts[0],
            change.new / counts[1],
            change.p_value,
            tuple(side.items(_central(side.members, own))),
        )
        for change, side, own, label in zip(ordered, sides, rows, labels, strict=True)
    )


def _central(members: Members, rows: np.ndarray) -> np.ndarray:
    """Some rows from the middle of these."""
    rows = rows[evenly(len(rows), 2000)]
    vectors = members.vectors(rows)
    return rows[np.argsort(-(vectors @ vectors.mean(0)), kind="stable")[:EXAMPLES]]


def _labels(
    model: Model, old: ItemGroup, new: ItemGroup, cells: Sequence[tuple[ItemGroup, np.ndarray]]
) -> list[str]:
    """A name for each cell, by its texts or by words near its embeddings, as albums have them."""
    if not cells:
        return []
    sampled = [(side, rows[evenly(len(rows), TEXTS)]) for side, rows in cells]
    texts = [[text for item in side.items(rows) if (text := naming_text(item))] for side, rows in sampled]
    everyone = [
        text
        for side in (old, new)
        for item in side.items(evenly(len(side.members), 5 * TEXTS))
        if (text := naming_text(item))
    ]
    background = counted([*everyone, *(text for several in texts for text in several)])
    names = [
        names_by_texts(several, len(rows), background)
        for several, (_, rows) in zip(texts, sampled, strict=True)
    ]
    unnamed = [number for number, options in enumerate(names) if not options]
    words = word_vectors(model, old.members.embeddings.shape[1]) if unnamed else None
    if words is not None:
        means = [side.members.vectors(rows).mean(0) for side, rows in (sampled[number] for number in unnamed)]
        whole = [side.members.vectors(evenly(len(side.members), 2000)) for side in (old, new)]
        everything = np.mean([vectors.mean(0) for vectors in whole], axis=0)
        spreads = word_spreads(np.concatenate(whole), words)
        by_words = names_by_words(np.stack(means), everything, spreads, words, VOCABULARY)
        for number, options in zip(unnamed, by_words, strict=True):
            names[number] = options
    return distinct(names)


def _sentence(verdict: Verdict, cells: Sequence[DriftedCell], shift: float, errors: CodeErrors | None) -> str:
    """The verdict in a sentence."""
    fit = "" if errors is None else f" (error {errors.new:.3f}, before {errors.old:.3f})"
    if verdict == "none":
        codes = ", and codes still fit" if errors is not None else ""
        return f"no drift: new items are spread over the codes as old ones are, but for chance{codes}{fit}"
    changes = ", ".join(
        f"{cell.label or f'cell {cell_name(cell.prefix)}'} {cell.kind}" for cell in cells[:NAMED]
    )
    more = f" and {len(cells) - NAMED} more" if len(cells) > NAMED else ""
    content = f"{changes}{more}" if changes else f"{shift:.0%} of the items are in other cells"
    if verdict == "unfit":
        return f"codes no longer fit: fit or train again{fit}" + (f"; {content}" if cells else "")
    still = "but codes still fit" if errors is not None else "and whether codes still fit can't be told"
    return f"content has shifted, {still}{fit}: {content}"


def cell_name(prefix: Sequence[int]) -> str:
    """A prefix as people write it.

    >>> cell_name((0, 12, 3))
    '0-12-3'
    """
    return "-".join(map(str, prefix))


def drift_to_dict(drift: Drift, *, local: bool = False) -> dict[str, Any]:
    """A drift as JSON."""
    return {
        "verdict": drift.verdict,
        "says": drift.says,
        "old": drift.old,
        "new": drift.new,
        "shift": drift.shift,
        "p_value": drift.p_value,
        "old_error": drift.old_error,
        "new_error": drift.new_error,
        "error_p_value": drift.error_p_value,
        "level": LEVEL,
        "cells": [
            {
                "prefix": list(cell.prefix),
                "kind": cell.kind,
                "label": cell.label,
                "old": cell.old,
                "new": cell.new,
                "old_share": cell.old_share,
                "new_share": cell.new_share,
                "p_value": cell.p_value,
                "items": [item_to_dict(item, local=local) for item in cell.items],
            }
            for cell in drift.cells
        ],
        "notes": list(drift.notes),
    }
