from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

from genius import Index, Item, Model
from genius.bench.search import STEPS, measure_whole, table
from genius.bench.world import real_world
from genius.errors import InputError
from tests.pictures import write_square


def test_the_shares_of_a_search(coded_model: Path, coded_home: Path, tmp_path: Path) -> None:
    from genius.data.records import ImageFile

    write_square(tmp_path / "a.png")
    items = [Item(str(number), f"The text of {number}.") for number in range(9)]
    items += [Item("picture", None, ImageFile(str(tmp_path), "a.png"))]
    items += [Item("both", "A red square.", ImageFile(str(tmp_path), "a.png"))]
    with Index.create(tmp_path / "index", Model.open(coded_model)) as index:
        with pytest.raises(InputError, match="the index is empty"):
            measure_whole(index)
        index.add(items, cache=coded_home / "cache")
        found = measure_whole(index, modes=("auto", "paper"), queries=2)
        assert {(one.query, one.mode) for one in found} == {
            (kind, mode) for kind in ("text", "picture", "both") for mode in ("auto", "paper")
        }
        for one in found:
            assert set(one.shares) == set(STEPS)
            assert sum(one.shares.values()) == pytest.approx(1, abs=0.01)
            assert 0 < one.p50_ms <= one.p99_ms
        assert len(table(found).rows) == 6
        with pytest.raises(InputError, match="unknown mode 'slow'"):
            measure_whole(index, modes=("slow",))  # type: ignore[arg-type]
        world = real_world(index, 5)
        assert (len(world), world.vectors.shape) == (11, (5, index.model.width))
