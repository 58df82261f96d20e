from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from genius.data.mbeir import Tree
from genius.data.records import MODALITIES
from genius.doctor.plots import main_components, without_modality, write_map, write_plots
from genius.doctor.sheets import carriers, chosen_tiles, examples, parse_pattern, write_sheets, written
from genius.errors import InputError
from tests.doctor.test_health import GOOD, made

CODES = np.array([[0, 1, 5], [1, 1, 5], [1, 1, 6], [0, 2, 6], [0, 2, 6], [0, 2, 6]], np.uint16)


def test_items_of_a_pattern() -> None:
    assert carriers(CODES, (None, 1)).tolist() == [0, 1, 2]
    assert carriers(CODES, (1, 1, 5)).tolist() == [1]
    assert carriers(CODES, (None, None, 6)).tolist() == [2, 3, 4, 5]
    assert carriers(CODES, (7,)).tolist() == []
    with pytest.raises(InputError, match="codes have 3 levels, and the pattern 4"):
        carriers(CODES, (None, None, None, 1))


def test_patterns_are_written_with_stars() -> None:
    assert parse_pattern("*,1, 5") == (None, 1, 5)
    assert written((None, 1, 5)) == "*, 1, 5"
    for bad in ("", "*", "1,x", "1,-2", "1,,2"):
        with pytest.raises(InputError, match="a code is written with commas"):
            parse_pattern(bad)


def test_examples_are_mixed_before_they_are_large() -> None:
    modality = CODES[:, 0].astype(np.int64)
    assert examples(CODES, modality, 1, count=1) == [(None, 1), (None, None, 6)]
    assert examples(CODES, np.zeros(6, np.int64), 1, levels=1) == [(None, 1), (None, 2)]


def test_tiles_are_of_all_modalities() -> None:
    modality = np.array([0] * 100 + [1] * 3 + [2] * 40)
    chosen = chosen_tiles(np.arange(143), modality, 24)
    assert len(set(chosen)) == 24
    assert np.bincount(modality[chosen]).tolist() == [11, 3, 10]
    assert chosen_tiles(np.array([5, 7]), modality) == [5, 7]


def test_sheets_are_pictures(miniature: Path, tmp_path: Path) -> None:
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
    from genius.doctor.sheets import Shown, _gather

    tree = Tree(miniature)
    reds = [number for number, item in enumerate(tree.items("val")) if "red" in (item.text or "")]
    shown = Shown((None, 3), np.array(reds), reds[:2])
    background = _gather(tree, "val", [shown])
    assert len(shown.texts) == len(reds)
    assert sorted(shown.items) == reds[:2]
    assert background.texts == sum(1 for item in tree.items("val") if item.text)
    from genius.data.labels import label

    assert label(shown.texts, background) == "red"


def test_maps_and_plots_are_pictures(tmp_path: Path) -> None:
    items, tasks, _, _ = made()
    paths = [write_map(items, tasks, tmp_path / "map.png"), *write_plots(GOOD, tmp_path)]
    assert [path.name for path in paths] == ["map.png", "use.png", "recall.png", "survival.png"]
    for path in paths:
        with Image.open(path) as picture:
            assert picture.format == "PNG"
            assert 400 < picture.height < 2000
            assert 600 < picture.width < 2000
            assert len(picture.convert("RGB").getcolors(2**24) or ()) > 50


def test_main_components_find_the_plane_that_points_lie_in() -> None:
    random = np.random.default_rng(0)
    flat = random.normal(size=(50, 2)) * (5, 1)
    turn, _ = np.linalg.qr(random.normal(size=(6, 6)))
    placed = main_components(flat @ turn[:2] + 3)
    distances = np.linalg.norm(placed[:, None] - placed[None], axis=2)
    np.testing.assert_allclose(distances, np.linalg.norm(flat[:, None] - flat[None], axis=2), atol=1e-9)
    assert placed[:, 0].var() > placed[:, 1].var()
    assert main_components(np.ones((3, 1))).shape == (3, 2)


def test_the_modality_s_mean_is_that_of_the_answers() -> None:
    answered, modality = np.array([[1.0], [3.0], [10.0]]), np.array([0, 0, 1])
    asked, answered = without_modality(np.array([[2.5], [3.0], [11.0]]), answered, modality, modality)
    assert asked.ravel().tolist() == [0.5, 1.0, 1.0]
    assert answered.ravel().tolist() == [-1.0, 1.0, 0.0]
