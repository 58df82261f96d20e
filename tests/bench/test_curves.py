from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("faiss")
pytest.importorskip("usearch")
pytest.importorskip("apsw")
pytest.importorskip("matplotlib")

from PIL import Image

from genius.bench.curves import BEAMS, CurveSettings, exact_rows, measure_points, table
from genius.bench.plot import plot_curves
from genius.bench.world import World, grown_world
from genius.decode.geometry import Geometry
from genius.errors import InputError
from genius.quantize.quantizer import Quantizer
from genius.search.engine import Engine


def test_exact_rows_are_those_of_one_large_product(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genius.bench.curves.BLOCK", 64)
    products = world.query_embeddings @ world.item_embeddings(np.arange(len(world))).T
    np.testing.assert_array_equal(exact_rows(world, 10), np.argsort(-products, axis=1, kind="stable")[:, :10])


def test_more_of_the_knob_finds_more(world: World, tmp_path: Path) -> None:
    engine = Engine(world.segments, Geometry(world.codebooks, 0.05), world.codebooks)
    points = measure_points(world, engine, CurveSettings(rounds=1))
    curves: dict[str, list[float]] = {}
    for point in points:
        curves.setdefault(point.system, []).append(point.recall)
        assert point.queries_per_second == pytest.approx(1000 / point.ms)
    assert len(curves) == 9 and len(curves["genius fast"]) == len(BEAMS)
    # In 8 bits neighbours of nearly one score may change places at the end.
    assert curves["genius scan"][0] > 0.97
    assert curves["genius fast"] == curves["genius fast Q=8"]
    for name, recalls in curves.items():
        if "PQ" not in name:
            assert recalls[-1] > 0.85, name
        assert recalls[-1] >= recalls[0], name
    assert "genius fast" in table(points).markdown()
    plot_curves(tmp_path / "curves.png", points)
    with Image.open(tmp_path / "curves.png") as drawn:
        assert drawn.size[0] > 300


def test_a_world_grows_by_items_like_its_own(world: World, tmp_path: Path) -> None:
    quantizer = Quantizer(world.codebooks, modality_code="given")
    grown = grown_world(world, quantizer, 1500, tmp_path)
    assert len(grown) == 1500 and len(grown.segments) == len(world.segments) + 1
    rows = np.arange(1500)
    np.testing.assert_array_equal(grown.item_codes(rows[:700]), world.item_codes(rows[:700]))
    near = grown.item_embeddings(rows[700:]) @ world.item_embeddings(rows[:700]).T
    assert (near.max(axis=1) > 0.7).all() and near.max(axis=1).mean() > 0.9
    shares = [
        np.bincount(part.item_codes(np.arange(len(part)))[:, 0], minlength=3) / len(part)
        for part in (world, grown)
    ]
    np.testing.assert_allclose(shares[0], shares[1], atol=0.05)


def test_settings_that_measure_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="at least 1"):
        CurveSettings(queries=0)
