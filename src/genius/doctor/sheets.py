"""Contact sheets of the items that have a code, as in the paper's Fig. 3, labelled from their texts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from genius.data.contact_sheet import contact_sheet, save, tile_of
from genius.data.labels import Background, label
from genius.data.mbeir import Split, Tree
from genius.data.records import Item
from genius.errors import InputError

log = logging.getLogger(__name__)

TILES = 24
"""The most items on a sheet."""
LEVELS = 3
"""The number of semantic levels that have sheets by default."""
CODES_PER_LEVEL = 3
"""The number of codes of each of them."""

Pattern = tuple[int | None, ...]
"""Codes from the first level on; None stands for any. (None, 17) is code 17 of the second level."""


def parse_pattern(text: str) -> Pattern:
    """A pattern as people write it, with a star for any code. Raises InputError for anything else.

    >>> parse_pattern("*, 17")
    (None, 17)
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part == "*" or part.isdecimal() for part in parts) or set(parts) == {"*"}:
        raise InputError(f"a code is written with commas and a star for any, as in '*,17', not {text!r}")
    return tuple(None if part == "*" else int(part) for part in parts)


def format_pattern(pattern: Pattern) -> str:
    """A pattern as people write it.

    >>> format_pattern((None, 17))
    '*, 17'
    """
    return ", ".join("*" if code is None else str(code) for code in pattern)


def matching_items(codes: np.ndarray, pattern: Pattern) -> np.ndarray:
    """The numbers of the items whose codes [items, levels] match a pattern.

    Raises InputError for a pattern of more levels than the codes have.
    """
    if not 0 < len(pattern) <= codes.shape[1]:
        raise InputError(f"codes have {codes.shape[1]} levels, and the pattern {len(pattern)}")
    matches = np.ones(len(codes), bool)
    for level, code in enumerate(pattern):
        if code is not None:
            matches &= codes[:, level] == code
    return np.flatnonzero(matches)


def mixed_codes(
    codes: np.ndarray,
    modality: np.ndarray,
    first_level: int,
    *,
    levels: int = LEVELS,
    count: int = CODES_PER_LEVEL,
) -> list[Pattern]:
    """The codes of each of `levels` levels whose items [items, levels] are of the most mixed modalities.

    A code is the more mixed, the more items it has besides those of its most frequent modality; of equally
    mixed codes the larger come first.
    """
    chosen: list[Pattern] = []
    for level in range(first_level, min(first_level + levels, codes.shape[1])):
        counts = np.zeros((int(codes[:, level].max()) + 1, int(modality.max()) + 1), np.int64)
        np.add.at(counts, (codes[:, level], modality), 1)
        items = counts.sum(axis=1)
        order = np.lexsort((-items, counts.max(axis=1) - items))
        chosen += [(*(None,) * level, int(code)) for code in order[:count] if items[code]]
    return chosen


@dataclass
class CodeSheet:
    """The items that match a pattern: the numbers of all, which of them are shown, and the texts of all."""

    pattern: Pattern
    numbers: np.ndarray
    tiles: list[int]
    items: dict[int, Item] = field(default_factory=dict)
    """The items that are shown, by number."""
    texts: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the file: level2_code17, or code_1_17_203 for several levels."""
        if all(code is None for code in self.pattern[:-1]):
            return f"level{len(self.pattern)}_code{self.pattern[-1]}"
        return "code_" + "_".join("any" if code is None else str(code) for code in self.pattern)

    def draw(self, background: Background) -> Image.Image:
        """The items in a grid, under a title with a label that sets their texts apart from the background."""
        title = f"({format_pattern(self.pattern)}): {len(self.numbers):,} items"
        if meaning := label(self.texts, background):
            title += f" · {meaning}"
        return contact_sheet((tile_of(self.items[number]) for number in self.tiles), title=title)


def write_sheets(
    tree: Tree,
    split: Split,
    codes: np.ndarray,
    modality: np.ndarray,
    patterns: Sequence[Pattern],
    folder: Path,
) -> list[Path]:
    """Write a sheet for each pattern of codes [items, levels] of a tree's items; returns the paths.

    A pattern that matches no item gets no sheet.
    """
    sheets = []
    for pattern in patterns:
        numbers = matching_items(codes, pattern)
        if len(numbers):
            sheets.append(CodeSheet(pattern, numbers, choose_tiles(numbers, modality)))
        else:
            log.warning("no item has the code (%s)", format_pattern(pattern))
    background = fill_sheets(tree, split, sheets)
    paths = []
    for sheet in sheets:
        paths.append(folder / f"{sheet.name}.png")
        save(sheet.draw(background), paths[-1])
    return paths


def choose_tiles(numbers: np.ndarray, modality: np.ndarray, count: int = TILES) -> list[int]:
    """At most `count` of the items with these numbers, of all modalities alike, evenly spread over each."""
    groups = [numbers[modality[numbers] == kind] for kind in np.unique(modality[numbers])]
    quotas = [0] * len(groups)
    while sum(quotas) < min(count, len(numbers)):
        not_full = [place for place, group in enumerate(groups) if quotas[place] < len(group)]
        quotas[min(not_full, key=lambda place: quotas[place])] += 1
    spread = [
        group[np.arange(quota) * len(group) // max(1, quota)]
        for group, quota in zip(groups, quotas, strict=True)
    ]
    return [int(number) for number in np.concatenate(spread)]


def fill_sheets(tree: Tree, split: Split, sheets: Sequence[CodeSheet]) -> Background:
    """Read all items once: fill in the sheets' items and texts, and count the words of all texts."""
    sheets_of: dict[int, list[CodeSheet]] = {}
    for sheet in sheets:
        for number in sheet.numbers.tolist():
            sheets_of.setdefault(number, []).append(sheet)
    background = Background()
    for number, item in enumerate(tree.items(split)):
        if item.text:
            background.add(item.text)
        for sheet in sheets_of.get(number, ()):
            if item.text:
                sheet.texts.append(item.text)
            if number in sheet.tiles:
                sheet.items[number] = item
    return background
