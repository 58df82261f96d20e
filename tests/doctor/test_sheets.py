from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from genius.data.labels import label
from genius.data.mbeir import Tree
from genius.data.records import MODALITIES
from genius.doctor.sheets import (
    CodeSheet,
    choose_tiles,
    fill_sheets,
    format_pattern,
    matching_items,
    mixed_codes,
    parse_pattern,
    write_sheets,
)
from genius.errors import InputError

CODES = np.array([[0, 1, 5], [1, 1, 5], [1, 1, 6], [0, 2, 6], [0, 2, 6], [0, 2, 6]], np.uint16)


def test_items_of_a_pattern() -> None:
    assert matching_items(CODES, (None, 1)).tolist() == [0, 1, 2]
    assert matching_items(CODES, (1, 1, 5)).tolist() == [1]
    assert matching_items(CODES, (None, None, 6)).tolist() == [2, 3, 4, 5]
    assert matching_items(CODES, (7,)).tolist() == []
    with pytest.raises(InputError, match="codes have 3 levels, and the pattern 4"):
        matching_items(CODES, (None, None, None, 1))


def test_patterns_are_written_with_stars() -> None:
    assert parse_pattern("*,1, 5") == (None, 1, 5)
    assert format_pattern((None, 1, 5)) == "*, 1, 5"
    for bad in ("", "*", "1,x", "1,-2", "1,,2"):
        with pytest.raises(InputError, match="a code is written with commas"):
            parse_pattern(bad)


def test_codes_are_chosen_by_mixture_before_size() -> None:
    modality = CODES[:, 0].astype(np.int64)
    assert mixed_codes(CODES, modality, 1, count=1) == [(None, 1), (None, None, 6)]
    assert mixed_codes(CODES, np.zeros(6, np.int64), 1, levels=1) == [(None, 1), (None, 2)]


def test_tiles_are_of_all_modalities() -> None:
    modality = np.array([0] * 100 + [1] * 3 + [2] * 40)
    chosen = choose_tiles(np.arange(143), modality, 24)
    assert len(set(chosen)) == 24
    assert np.bincount(modality[chosen]).tolist() == [11, 3, 10]
    assert choose_tiles(np.array([5, 7]), modality) == [5, 7]


def test_sheets_are_images(miniature: Path, tmp_path: Path) -> None:
    tree = Tree(miniature)
    items = list(tree.items("val"))
    modality = np.array([MODALITIES.index(item.modality) for item in items])
    reds = np.array(["red" in (item.text or "") for item in items])
    codes = np.stack([modality, reds, np.arange(len(items)) % 7], axis=1).astype(np.uint16)
    paths = write_sheets(tree, "val", codes, modality, [(None, 1), (1, 0), (2, 9)], tmp_path)
    assert [path.name for path in paths] == ["level2_code1.png", "code_1_0.png"]
    for path in paths:
        with Image.open(path) as sheet:
            assert sheet.format == "PNG"
            assert 500 < sheet.width < 2000
            assert 200 < sheet.height < 3000
            assert len(sheet.convert("RGB").getcolors(2**24) or ()) > 10


def test_a_sheet_says_what_its_items_have_in_common(miniature: Path) -> None:
    tree = Tree(miniature)
    reds = [number for number, item in enumerate(tree.items("val")) if "red" in (item.text or "")]
    sheet = CodeSheet((None, 3), np.array(reds), reds[:2])
    background = fill_sheets(tree, "val", [sheet])
    assert len(sheet.texts) == len(reds)
    assert sorted(sheet.items) == reds[:2]
    assert background.texts == sum(1 for item in tree.items("val") if item.text)
    assert label(sheet.texts, background) == "red"
