from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from genius.doctor.plots import principal_components, subtract_modality_means, write_map, write_plots
from tests.doctor.figures import GOOD, coded_tasks

pytest.importorskip("matplotlib")


def test_maps_and_plots_are_images(tmp_path: Path) -> None:
    items, tasks, _, _ = coded_tasks()
    paths = [write_map(items, tasks, tmp_path / "map.png"), *write_plots(GOOD, tmp_path)]
    assert [path.name for path in paths] == ["map.png", "use.png", "recall.png", "survival.png"]
    for path in paths:
        with Image.open(path) as image:
            assert image.format == "PNG"
            assert 400 < image.height < 2000
            assert 600 < image.width < 2000
            assert len(image.convert("RGB").getcolors(2**24) or ()) > 50


def test_principal_components_find_the_plane_that_points_lie_in() -> None:
    random = np.random.default_rng(0)
    flat = random.normal(size=(50, 2)) * (5, 1)
    turn, _ = np.linalg.qr(random.normal(size=(6, 6)))
    placed = principal_components(flat @ turn[:2] + 3)
    distances = np.linalg.norm(placed[:, None] - placed[None], axis=2)
    np.testing.assert_allclose(distances, np.linalg.norm(flat[:, None] - flat[None], axis=2), atol=1e-9)
    assert placed[:, 0].var() > placed[:, 1].var()
    assert principal_components(np.ones((3, 1))).shape == (3, 2)


def test_the_modality_s_mean_is_that_of_the_answers() -> None:
    answers, modality = np.array([[1.0], [3.0], [10.0]]), np.array([0, 0, 1])
    queries = np.array([[2.5], [3.0], [11.0]])
    queries, answers = subtract_modality_means(queries, answers, modality, modality)
    assert queries.ravel().tolist() == [0.5, 1.0, 1.0]
    assert answers.ravel().tolist() == [-1.0, 1.0, 0.0]
