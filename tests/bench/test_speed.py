from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("transformers")
pytest.importorskip("faiss")
pytest.importorskip("usearch")
pytest.importorskip("threadpoolctl")
pytest.importorskip("matplotlib")

from PIL import Image

from genius.bench.plot import plot_speeds
from genius.bench.speed import SpeedSettings, measure_speed, table
from genius.bench.systems import SystemSpec
from genius.errors import InputError


@pytest.mark.long
def test_all_systems_are_measured_in_one_run(tmp_path: Path) -> None:
    settings = SpeedSettings(
        items=(400,),
        width=16,
        queries=4,
        rounds=1,
        paper_sizes=False,
        graph_items=300,
        hugging_face_items=200,
    )
    specs = [
        SystemSpec("paper", "fp32"),
        SystemSpec("fast", "int8", 4, modality_given=True),
        SystemSpec("fast", None),
    ]
    speeds = {speed.system: speed for speed in measure_speed(settings, specs)}
    assert {"HF generate", "paper fp32", "fast int8 Q=4 km", "usearch HNSW i8"} <= set(speeds)
    assert speeds["HF generate"].ratio_to_hf == 1
    assert speeds["scan of bytes"].recall == 1
    assert (speeds["HF generate"].holds, speeds["usearch HNSW i8"].holds) == (200, 300)
    assert speeds["usearch HNSW i8"].recall is None  # it holds a sample
    for speed in speeds.values():
        assert speed.queries_per_second == pytest.approx(1000 / speed.ms)
        assert speed.ratio_to_hf == pytest.approx(speeds["HF generate"].ms / speed.ms)
        assert {
            "system",
            "n",
            "queries_per_second",
            "ratio_to_hf",
            "p99_ms",
            "bytes_per_item",
            "build_s",
        } <= set(speed.fields())
    assert "fast geometry" in table(list(speeds.values()), 400).markdown()
    plot_speeds(tmp_path / "speed.png", list(speeds.values()))
    with Image.open(tmp_path / "speed.png") as drawn:
        assert drawn.size[0] > 300


def test_settings_that_measure_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="at least 100 items"):
        SpeedSettings(items=(5,))
    with pytest.raises(InputError, match="should be at least 1"):
        SpeedSettings(rounds=0)
