"""The collection as a tree of codes: the cell under each prefix with a text label, cached until it changes.

A cell is labelled by its texts. Images have none; but the semantic codes of all modalities are the same, so
a cell of images is labelled by the texts with the same codes in other modalities, and if there are none, by
the texts that a search finds for some of its images.
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
from genius.index.cells import Cell, Prefix
from genius.index.index import Index

LABEL_ITEMS = 120
"""How many items of a modality a label is made from."""
BACKGROUND_ITEMS = 20_000
"""How many items of the collection a label is compared with."""
SEARCH_ITEMS, SEARCH_HITS = 3, 8
"""For a cell without texts: how many of its items are searched by, and how many texts are taken for each."""
MAX_CACHED = 4096
"""How many cells and labels are cached."""

T = TypeVar("T")
_PREFIX = re.compile(r"(?:(?:\*|\d{1,6})(?:-\d{1,6}){0,63})?")


def parse_prefix(text: str) -> Prefix:
    """A prefix from its text form; a star stands for any modality, the empty text for the root.

    >>> parse_prefix("0-17-3"), parse_prefix("*-17"), parse_prefix("")
    ((0, 17, 3), (None, 17), ())
    """
    if not _PREFIX.fullmatch(text) or not text.isascii():
        raise InputError(
            "a prefix is written with hyphens, as in 0-17-3, and a star in front for any modality"
        )
    return tuple(None if code == "*" else int(code) for code in text.split("-")) if text else ()


def format_prefix(prefix: Prefix) -> str:
    """The text form of a prefix.

    >>> format_prefix((None, 17))
    '*-17'
    """
    return "-".join("*" if code is None else str(code) for code in prefix)


@dataclass(frozen=True)
class LabelledCell:
    """A cell with its label, and the requested ones of its children."""

    cell: Cell
    label: str
    children: tuple[LabelledCell, ...] = ()


class _Cache:
    """The most recently used cells and labels of one version, and its word counts."""

    def __init__(self, version: int, background: Background) -> None:
        self.version, self.background = version, background
        self._values: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any, make: Callable[[], T]) -> T:
        """The value of a key, made now if it is not cached."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                cached: T = self._values[key]
                return cached
        made = make()
        with self._lock:
            self._values[key] = made
            if len(self._values) > MAX_CACHED:
                self._values.popitem(last=False)
        return made


class Atlas:
    """The cells of an index, with labels."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._refreshing = threading.Lock()
        self._cache = _Cache(-1, Background())
        self._background_items = -1

    @property
    def modality_first(self) -> bool:
        """Whether the first code of an item is its modality."""
        return self._index.format.modality_given

    def cell(
        self, prefix: Prefix, *, start: int, children: int, samples: int, child_samples: int
    ) -> LabelledCell:
        """The cell under a prefix and some of its children, all of one version.

        Args:
            prefix: the first codes.
            start: the first child to include.
            children: how many children.
            samples: how many items of the cell.
            child_samples: how many items of each child.
        """
        with self._index.reading():
            cache = self._current_cache()
            cell = self._cell(cache, prefix, samples)
            prefixes = [(*prefix, code) for code, _ in cell.children[start : start + children]]
            labelled = [
                LabelledCell(self._cell(cache, child, child_samples), self._label(cache, child))
                for child in prefixes
            ]
            return LabelledCell(cell, self._label(cache, prefix), tuple(labelled))

    def _label(self, cache: _Cache, prefix: Prefix) -> str:
        """A few words for the items under a prefix, or an empty text."""
        if len(prefix) <= self._index.format.semantic:
            return ""  # all items of a modality have nothing in common
        return cache.get(
            ("label", prefix),
            lambda: label(self._texts(prefix) or self._similar_texts(cache, prefix), cache.background),
        )

    def _similar_texts(self, cache: _Cache, prefix: Prefix) -> list[str]:
        """The texts that are most similar to some items under a prefix."""
        items: list[Item] = []
        for sample in self._cell(cache, prefix, SEARCH_ITEMS).items:
            hits = self._index.search(near=sample.id, only=Modality.TEXT, k=SEARCH_HITS)
            items += [hit.item for hit in hits]
        return _texts(items)

    def _texts(self, prefix: Prefix) -> list[str]:
        """Texts of items with the same semantic codes, whatever their modality."""
        format = self._index.format
        if self.modality_first:
            with_text = [MODALITIES.index(modality) for modality in (Modality.TEXT, Modality.PAIR)]
            prefixes: list[Prefix] = [(code, *prefix[1:]) for code in with_text if code < format.sizes[0]]
        else:
            prefixes = [(None, *prefix[1:]) if format.semantic else prefix]
        return _texts(item for other in prefixes for item in self._index.cell(other, LABEL_ITEMS).items)

    def _cell(self, cache: _Cache, prefix: Prefix, samples: int) -> Cell:
        return cache.get(("cell", prefix, samples), lambda: self._index.cell(prefix, samples))

    def _current_cache(self) -> _Cache:
        """The cache of the version being read; words are counted again when a tenth of the items changed."""
        with self._refreshing:
            version, num_items = self._index.version, len(self._index)
            if version < self._cache.version:  # another thread has read a newer version by now
                return _Cache(version, self._cache.background)
            if version > self._cache.version:
                background = self._cache.background
                if (
                    self._background_items < 0
                    or abs(num_items - self._background_items) > self._background_items / 10
                ):
                    background, self._background_items = Background(), num_items
                    for text in _texts(self._index.cell((), BACKGROUND_ITEMS).items):
                        background.add(text)
                self._cache = _Cache(version, background)
            return self._cache


def _texts(items: Iterable[Item]) -> list[str]:
    return [item.text for item in items if item.text]
