from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

from genius import Index, Item, Model
from genius.bench.search import STEPS, measure_latency, table
from genius.bench.world import world_of_index
from genius.data.records import ImageFile
from genius.errors import InputError
from tests.pictures import write_square


def test_the_shares_of_the_steps_of_a_search(coded_model: Path, coded_home: Path, tmp_path: Path) -> None:
    write_square(tmp_path / "a.png")
    items = [Item(str(number), f"The text of {number}.") for number in range(9)]
    items += [Item("image", None, ImageFile(str(tmp_path), "a.png"))]
    items += [Item("pair", "A red square.", ImageFile(str(tmp_path), "a.png"))]
    with Index.create(tmp_path / "index", Model.open(coded_model)) as index:
        with pytest.raises(InputError, match="the index is empty"):
            measure_latency(index)
        index.add(items, cache=coded_home / "cache")
        latencies = measure_latency(index, modes=("auto", "paper"), queries=2)
        assert {(latency.query, latency.mode) for latency in latencies} == {
            (kind, mode) for kind in ("image", "text", "pair") for mode in ("auto", "paper")
        }
        for latency in latencies:
            assert set(latency.shares) == set(STEPS)
            assert sum(latency.shares.values()) == pytest.approx(1, abs=0.01)
            assert 0 < latency.p50_ms <= latency.p99_ms
        assert len(table(latencies).rows) == 6
        with pytest.raises(InputError, match="unknown mode 'slow'"):
            measure_latency(index, modes=("slow",))  # type: ignore[arg-type]
        world = world_of_index(index, 5)
        assert (len(world), world.query_vectors.shape) == (11, (5, index.model.vector_width))
        index.remove("3")
        with pytest.raises(InputError, match="purge them first with `genius compact`"):
            world_of_index(index, 5)
