from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("threadpoolctl")

from genius.bench.systems import (
    SystemSpec,
    engine_systems,
    scan_systems,
    stand_in_decoders,
    write_network,
)
from genius.bench.timing import time_in_turns
from genius.bench.world import World


def test_a_scan_is_exact(world: World) -> None:
    systems = {system.name: system for system in scan_systems(world, k=5)}
    time_in_turns(list(systems.values()), len(world.query_vectors), rounds=3)
    embeddings = world.item_embeddings(np.arange(len(world)))
    results = systems["scan of bytes"].results
    assert len(results) == len(world.query_vectors)
    for query, rows in results.items():
        scores = embeddings @ world.query_embeddings[query]
        np.testing.assert_allclose(scores[rows], np.sort(scores)[::-1][:5], atol=0.01)
    assert len(systems["scan of bytes"].round_medians) == 3


def test_a_stand_in_finds_what_geometry_finds_and_excludes_its_time(world: World, tmp_path: Path) -> None:
    write_network(tmp_path, 24, world.code_sizes, paper_sizes=False)
    specs = [
        SystemSpec("exact", None),
        SystemSpec("exact", "fp32"),
        SystemSpec("exact", "int8", 4, modality_given=True),
    ]
    by_geometry, *by_networks = engine_systems(world, stand_in_decoders(world, tmp_path, specs), specs)
    for system in by_networks:
        system.time_call(np.arange(4))
        assert system.excluded_seconds() > 0
    by_geometry.time_call(np.arange(4))
    assert by_geometry.excluded_seconds() == 0
    for query in range(4):
        np.testing.assert_array_equal(by_networks[0].results[query], by_geometry.results[query])
        modality_codes = world.item_codes(by_networks[1].results[query])[:, 0]
        assert set(modality_codes.tolist()) == {int(world.query_modality_codes[query])}
    assert [system.name for system in by_networks] == ["exact fp32", "exact int8 Q=4 km"]
