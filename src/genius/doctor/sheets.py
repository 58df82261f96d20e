"""Sheets of the items that carry a code, as in the paper's Fig. 3, with a label from their texts."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from genius.data.contact_sheet import contact_sheet, save, tile_of
from genius.data.labels import Background, label
from genius.data.mbeir import Split, Tree
from genius.data.records import Item
from genius.doctor.codes import distinct
from genius.doctor.examine import Examination
from genius.doctor.plots import write_map, write_plots
from genius.errors import InputError

log = logging.getLogger(__name__)

TILES = 24
LEVELS = 3
"""How many semantic levels are shown unasked,"""
EXAMPLES = 3
"""and how many codes of each."""

Pattern = tuple[int | None, ...]
"""Codes from the first level on; None stands for any. (None, 17) is code 17 of the second level."""


def parse_pattern(text: str) -> Pattern:
    """A pattern as one writes it, with a star for any code.

    >>> parse_pattern("*, 17")
    (None, 17)
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part == "*" or part.isdecimal() for part in parts) or set(parts) == {"*"}:
        raise InputError(f"a code is written with commas and a star for any, as in '*,17', not {text!r}")
    return tuple(None if part == "*" else int(part) for part in parts)


def written(pattern: Pattern) -> str:
    """A pattern as one writes it."""
    return ", ".join("*" if code is None else str(code) for code in pattern)


def carriers(codes: np.ndarray, pattern: Pattern) -> np.ndarray:
    """The numbers of the items whose codes [items, levels] fit a pattern."""
    if not 0 < len(pattern) <= codes.shape[1]:
        raise InputError(f"codes have {codes.shape[1]} levels, and the pattern {len(pattern)}")
    fits = np.ones(len(codes), bool)
    for level, code in enumerate(pattern):
        if code is not None:
            fits &= codes[:, level] == code
    return np.flatnonzero(fits)


def examples(
    codes: np.ndarray, modality: np.ndarray, semantic: int, *, levels: int = LEVELS, count: int = EXAMPLES
) -> list[Pattern]:
    """Codes that are worth a look: of each of the first semantic levels, those with the most mixed items.

    Mixed are the items besides those of a code's commonest modality; of equally mixed codes the larger come
    first.
    """
    chosen: list[Pattern] = []
    for level in range(semantic, min(semantic + levels, codes.shape[1])):
        table = np.zeros((int(codes[:, level].max()) + 1, int(modality.max()) + 1), np.int64)
        np.add.at(table, (codes[:, level], modality), 1)
        totals = table.sum(axis=1)
        order = np.lexsort((-totals, table.max(axis=1) - totals))
        chosen += [(*(None,) * level, int(code)) for code in order[:count] if totals[code]]
    return chosen


@dataclass
class Shown:
    """The items that carry a code: which of them are shown, and the texts of all."""

    pattern: Pattern
    numbers: np.ndarray
    tiles: list[int]
    items: dict[int, Item] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The pattern as a file's name."""
        *before, last = self.pattern
        if all(code is None for code in before):
            return f"level{len(self.pattern)}_code{last}"
        return "code_" + "_".join("any" if code is None else str(code) for code in self.pattern)

    def sheet(self, background: Background) -> Image.Image:
        """The items in a grid, under a line that says what they are."""
        meaning = label(self.texts, background)
        title = f"({written(self.pattern)}): {len(self.numbers):,} items" + (
            f" · {meaning}" if meaning else ""
        )
        return contact_sheet((tile_of(self.items[number]) for number in self.tiles), title=title)


def write_sheets(
    tree: Tree,
    split: Split,
    codes: np.ndarray,
    modality: np.ndarray,
    patterns: Sequence[Pattern],
    folder: Path,
) -> list[Path]:
    """A sheet for each pattern of codes of a tree's items; a pattern that no item has gets none."""
    shown = []
    for pattern in patterns:
        numbers = carriers(codes, pattern)
        if len(numbers):
            shown.append(Shown(pattern, numbers, chosen_tiles(numbers, modality)))
        else:
            log.warning("no item has the code (%s)", written(pattern))
    background = _gather(tree, split, shown)
    paths = []
    for one in shown:
        paths.append(folder / f"{one.name}.png")
        save(one.sheet(background), paths[-1])
    return paths


def chosen_tiles(numbers: np.ndarray, modality: np.ndarray, count: int = TILES) -> list[int]:
    """Some of the items, as many of each modality as there is room for, evenly over each."""
    groups = [numbers[modality[numbers] == kind] for kind in np.unique(modality[numbers])]
    quotas = [0] * len(groups)
    while sum(quotas) < min(count, len(numbers)):
        open_ones = [place for place, group in enumerate(groups) if quotas[place] < len(group)]
        quotas[min(open_ones, key=lambda place: quotas[place])] += 1
    spread = [
        group[np.arange(quota) * len(group) // max(1, quota)]
        for group, quota in zip(groups, quotas, strict=True)
    ]
    return [int(number) for number in np.concatenate(spread)]


def _gather(tree: Tree, split: Split, shown: Sequence[Shown]) -> Background:
    """Read the items once: fill in what is shown, and count the words of all."""
    background = Background()
    carried: Mapping[int, list[Shown]] = _by_number(shown)
    for number, item in enumerate(tree.items(split)):
        if item.text:
            background.add(item.text)
        for one in carried.get(number, ()):
            if item.text:
                one.texts.append(item.text)
            if number in one.tiles:
                one.items[number] = item
    return background


def _by_number(shown: Sequence[Shown]) -> dict[int, list[Shown]]:
    found: dict[int, list[Shown]] = {}
    for one in shown:
        for number in one.numbers.tolist():
            found.setdefault(number, []).append(one)
    return found


def write_pictures(examination: Examination, folder: Path, patterns: Sequence[Pattern] = ()) -> list[Path]:
    """All pictures of an examination: plots of its figures, maps, and sheets of codes.

    Without `patterns`, the sheets are of codes that are worth a look.
    """
    items, coding = examination.items, examination.health.coding
    different = distinct(items.codes, items.vectors)
    chosen = list(patterns) or examples(items.codes[different], items.modality[different], coding.semantic)
    paths = write_plots(examination.health, folder)
    paths.append(write_map(items, examination.tasks, folder / "map.png"))
    return paths + write_sheets(
        examination.tree, examination.split, items.codes, items.modality, chosen, folder / "codes"
    )
