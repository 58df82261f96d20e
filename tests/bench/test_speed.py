"""Benchmarks at sizes that take a second: what they measure is what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("transformers")
pytest.importorskip("faiss")
pytest.importorskip("usearch")
pytest.importorskip("threadpoolctl")

from PIL import Image

from genius.bench import systems as ours
from genius.bench.index import measure_building
from genius.bench.plot import plot_speeds
from genius.bench.speed import SIZES, SpeedSettings, measure_speed, table
from genius.bench.storage import measure_storage
from genius.bench.timing import System, measure
from genius.bench.world import World, made_up_codes, make_world, open_world
from genius.errors import InputError
from genius.search.dense import nearest

SMALL = (3, 16, 16, 16)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path, 700, SMALL, width=24, queries=12)


def test_codes_are_uneven_and_in_range() -> None:
    codes = made_up_codes(20_000, SIZES, np.random.default_rng(0))
    assert (codes.min(axis=0) >= 0).all()
    assert (codes.max(axis=0) < SIZES).all()
    cells = np.sort(np.unique(codes[:, :2], axis=0, return_counts=True)[1])
    assert cells[-1] > 20 * np.median(cells)
    assert len(np.unique(codes[:, :4], axis=0)) > 0.99 * len(codes)
    with pytest.raises(InputError, match="at least one item"):
        made_up_codes(0, SIZES, np.random.default_rng(0))


def test_a_world_opens_as_it_was_made(world: World, tmp_path: Path) -> None:
    again, rows = open_world(tmp_path, SMALL), np.arange(len(world))[::3]
    np.testing.assert_array_equal(again.codes(rows), world.codes(rows))
    np.testing.assert_array_equal(again.embeddings(rows), world.embeddings(rows))
    np.testing.assert_array_equal(again.vectors, world.vectors)
    np.testing.assert_allclose(np.linalg.norm(world.embeddings(rows), axis=1), 1, atol=0.02)
    assert (np.diff(world.codes(np.arange(len(world)))[:, 0].astype(int)) >= 0).all()


def test_looking_at_everything_is_exact(world: World) -> None:
    systems = {system.name: system for system in ours.exhaustive(world, k=5)}
    measure(list(systems.values()), len(world.vectors), rounds=3)
    every = world.embeddings(np.arange(len(world)))
    found = systems["scan of bytes"].found
    assert len(found) == len(world.vectors)
    for query, rows in found.items():
        best = nearest(world.embeddings[query : query + 1], every, 5)[0][0]
        np.testing.assert_allclose(every[rows] @ world.embeddings[query], best, atol=0.01)
    assert len(systems["scan of bytes"].medians) == 3


def test_a_stand_in_finds_what_geometry_finds_and_leaves_its_time_out(world: World, tmp_path: Path) -> None:
    ours.write_network(tmp_path, 24, SMALL, like_paper=False)
    rows = [ours.Row("exact", None), ours.Row("exact", "fp32"), ours.Row("exact", "int8", 4, known=True)]
    plain, *by_networks = ours.systems(world, ours.stand_ins(world, tmp_path, rows), rows)
    for system in by_networks:
        system.turn(np.arange(4))
        assert system.left_out() > 0
    plain.turn(np.arange(4))
    for query in range(4):
        np.testing.assert_array_equal(by_networks[0].found[query], plain.found[query])
        modalities = world.codes(by_networks[1].found[query])[:, 0]
        assert set(modalities.tolist()) == {int(world.first[query])}
    assert [system.name for system in by_networks] == ["exact fp32", "exact int8 Q=4 km"]


def test_systems_take_turns() -> None:
    turns: list[str] = []
    clock = iter(np.arange(1000.0))

    def made(name: str) -> System:
        return System(name, lambda queries: turns.append(name), 2, clock=lambda: float(next(clock)))

    systems = [made("a"), made("b")]
    measure(systems, 5, rounds=2)
    assert turns == ["a", "a", "b", "b", "a", "b", "a", "b"]
    assert [system.seconds for system in systems] == [0.5, 0.5]  # a second for two queries
    assert [system.quantile(0.5) for system in systems] == [1, 1]  # which both wait for


@pytest.mark.slow
def test_all_systems_are_measured_in_one_run(tmp_path: Path) -> None:
    settings = SpeedSettings(
        items=(400,), width=16, queries=4, rounds=1, like_paper=False, graph_items=300, hugging_face_items=200
    )
    rows = [ours.Row("paper", "fp32"), ours.Row("fast", "int8", 4, known=True), ours.Row("fast", None)]
    found = {one.system: one for one in measure_speed(settings, rows)}
    assert {"HF generate", "paper fp32", "fast int8 Q=4 km", "usearch HNSW i8"} <= set(found)
    assert found["HF generate"].ratio_to_hf == 1
    assert found["scan of bytes"].recall == 1
    for one in found.values():
        assert one.queries_per_second == pytest.approx(1000 / one.ms)
        assert one.ratio_to_hf == pytest.approx(found["HF generate"].ms / one.ms)
        assert {
            "system",
            "n",
            "queries_per_second",
            "ratio_to_hf",
            "p99_ms",
            "bytes_per_item",
            "build_s",
        } <= set(one.fields())
    assert "fast geometry" in table(list(found.values()), 400).markdown()
    plot_speeds(tmp_path / "speed.png", list(found.values()))
    with Image.open(tmp_path / "speed.png") as drawn:
        assert drawn.size[0] > 300
    with pytest.raises(InputError, match="at least 100 items"):
        SpeedSettings(items=(5,))


def test_storage_and_building_look_at_files() -> None:
    forms = {one.form: one.bytes_per_item for one in measure_storage(1000, width=16, graph_items=500)}
    assert forms["codes, packed to the bit"] == pytest.approx(12.25, abs=0.01)
    assert forms["codes to be searched (no tree beside them)"] < 13.1
    assert forms["embeddings, float32"] == pytest.approx(64, abs=1)
    whole = "an index: with those in 16 bits and row numbers"
    assert forms[whole] == pytest.approx(forms["codes to be searched (no tree beside them)"] + 56, abs=1)
    assert forms["HNSW of float32 (faiss)"] > forms["HNSW of bytes (faiss)"] > forms["embeddings, int8"]
    built = measure_building(1000, width=16)
    assert (built.n, built.bytes_per_item) == (1000, pytest.approx(12.02, abs=0.01))
    assert min(built.pack_s, built.write_s, built.open_s, built.peak) > 0
