"""The collection as a tree of codes: what lies under each, with a label from texts; kept until it changes.

Pictures alone have no texts. But the semantic codes of all modalities are the same, so a cell of pictures is
labelled by the texts of the same place under the other modalities; where there are none, by the texts that a
search finds for some of its pictures.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from genius.data.labels import Background, label
from genius.data.records import MODALITIES, Item, Modality
from genius.errors import InputError
from genius.index.browse import Cell, Prefix
from genius.index.index import Index

TEXTS = 120
"""How many items of a modality a label is made from,"""
ALL_TEXTS = 20_000
"""and how many of all it is compared with."""
ASKED, ANSWERS = 3, 8
"""For how many items of a cell without texts some are looked for, and how many."""
KEPT = 4096
"""How many cells and labels are kept."""

T = TypeVar("T")
_WRITTEN = re.compile(r"(?:(?:\*|\d{1,6})(?:-\d{1,6}){0,63})?")


def parse_prefix(text: str) -> Prefix:
    """A prefix as one writes it; the star stands for any modality, nothing for the root.

    >>> parse_prefix("0-17-3"), parse_prefix("*-17"), parse_prefix("")
    ((0, 17, 3), (None, 17), ())
    """
    if not _WRITTEN.fullmatch(text) or not text.isascii():
        raise InputError(
            "a prefix is written with hyphens, as in 0-17-3, and a star in front for any modality"
        )
    return tuple(None if part == "*" else int(part) for part in text.split("-")) if text else ()


def written(prefix: Prefix) -> str:
    """A prefix as one writes it."""
    return "-".join("*" if code is None else str(code) for code in prefix)


@dataclass(frozen=True)
class LabelledCell:
    """A cell, what it is called, and those of its children that were asked for."""

    cell: Cell
    label: str
    children: tuple[LabelledCell, ...] = ()


class _Kept:
    """What was found in one version, the latest up to a number; and all its words, to compare with."""

    def __init__(self, version: int, background: Background) -> None:
        self.version, self.background = version, background
        self._found: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any, make: Callable[[], T]) -> T:
        """What is kept under a key, which otherwise is made now."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                found: T = self._found[key]
                return found
        made = make()
        with self._lock:
            self._found[key] = made
            if len(self._found) > KEPT:
                self._found.popitem(last=False)
        return made


class Atlas:
    """Cells of an index, with their labels."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._refreshing = threading.Lock()
        self._kept = _Kept(-1, Background())
        self._counted = -1

    def look(
        self, prefix: Prefix, *, start: int, children: int, samples: int, child_samples: int
    ) -> LabelledCell:
        """What lies under a prefix, and so many cells below it from `start` on, with some items each; all of
        one version."""
        with self._index.reading():
            kept = self._of_now()
            cell = self._cell(kept, prefix, samples)
            below = [(*prefix, code) for code, _ in cell.children[start : start + children]]
            shown = [
                LabelledCell(self._cell(kept, child, child_samples), self._label(kept, child))
                for child in below
            ]
            return LabelledCell(cell, self._label(kept, prefix), tuple(shown))

    def _label(self, kept: _Kept, prefix: Prefix) -> str:
        """A few words for what lies under a prefix, or none."""
        if len(prefix) <= self._index.coding.semantic:
            return ""  # everything of a modality has nothing in common
        return kept.get(
            ("label", prefix),
            lambda: label(self._texts(prefix) or self._texts_like(kept, prefix), kept.background),
        )

    def _texts_like(self, kept: _Kept, prefix: Prefix) -> list[str]:
        """What some items under a prefix would be described by: the nearest texts."""
        found: list[Item] = []
        for like in self._cell(kept, prefix, ASKED).items:
            hits = self._index.search(near=like.id, want=Modality.TEXT, k=ANSWERS)
            found += [hit.item for hit in hits]
        return _texts(found)

    def _texts(self, prefix: Prefix) -> list[str]:
        """Of some items at the same place, whatever their modality."""
        coding = self._index.coding
        if coding.told:
            firsts = [MODALITIES.index(kind) for kind in (Modality.TEXT, Modality.PAIR)]
            places: list[Prefix] = [(first, *prefix[1:]) for first in firsts if first < coding.sizes[0]]
        else:
            places = [(None, *prefix[1:]) if coding.semantic else prefix]
        return _texts([item for place in places for item in self._index.cell(place, TEXTS).items])

    def _cell(self, kept: _Kept, prefix: Prefix, samples: int) -> Cell:
        return kept.get(("cell", prefix, samples), lambda: self._index.cell(prefix, samples))

    def _of_now(self) -> _Kept:
        """What is kept of the version that is read now; words are counted again when a tenth has changed."""
        with self._refreshing:
            version, items = self._index.version, len(self._index)
            if version < self._kept.version:  # somebody else has read a newer one by now
                return _Kept(version, self._kept.background)
            if version > self._kept.version:
                background = self._kept.background
                if self._counted < 0 or abs(items - self._counted) > self._counted / 10:
                    background, self._counted = Background(), items
                    for text in _texts(self._index.cell((), ALL_TEXTS).items):
                        background.add(text)
                self._kept = _Kept(version, background)
            return self._kept


def _texts(items: Iterable[Item]) -> list[str]:
    return [item.text for item in items if item.text]
