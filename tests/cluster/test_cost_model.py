from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from genius.cli import app
from genius.cluster.cost_model import ENTRY_BYTES, Machines, Measured, estimate, gpu_items_per_second, measure
from genius.data.records import Item
from genius.errors import InputError
from genius.index.index import Index
from genius.model import Model

MEASURED = Measured(items_per_second=10, queries_per_second=400, code_bytes=12, width=512)


def test_the_figures_of_a_billion_items() -> None:
    machines = Machines(count=16, cores=32)
    int8, fp16, none = estimate(1e9, MEASURED, machines, shards=16, text_bytes=80)
    assert none.segments == 1e9 * (12 + 4 + 4)
    assert fp16.segments - none.segments == 1e9 * 2 * 512
    assert int8.segments - none.segments == 1e9 * 3 * 512
    assert int8.memory == 1e9 / 16 * (12 + 4 + 512)
    assert int8.encoding == pytest.approx(1e9 / (16 * 32 * 10) / 3600)
    assert int8.catalogue == 1e9 * (ENTRY_BYTES + 80)
    (twice, *_) = estimate(2e9, MEASURED, machines, shards=16)
    assert twice.encoding == 2 * int8.encoding and twice.queries < int8.queries
    (few, *_) = estimate(1e9, MEASURED, Machines(16, 32, gpus=2, gpu_items=500), shards=16)
    assert few.encoding == pytest.approx(1e9 / (16 * 2 * 500) / 3600)


def test_what_can_not_be_planned() -> None:
    for items, machines, shards in ((0, 1, 1), (10, 0, 1), (10, 1, 11), (10, 1, 0)):
        with pytest.raises(InputError, match="a plan needs at least"):
            estimate(items, MEASURED, Machines(machines, 1), shards=shards)


def test_bytes_are_those_of_a_real_index(home: Path, tmp_path: Path) -> None:
    model, count = Model.open(home / "model"), 3000
    vectors = np.random.default_rng(3).normal(size=(count, model.width))
    with Index.create(tmp_path / "index", model) as index:
        index.add([Item(f"item {row}", "a text", vector=vector) for row, vector in enumerate(vectors)])
        index.compact()
    (segment,) = (tmp_path / "index" / "segments").iterdir()
    written = sum(file.stat().st_size for file in segment.glob("*.npy"))
    (planned, *_) = estimate(count, measure(model), Machines(1, 1), shards=1)
    assert written == pytest.approx(planned.segments, rel=0.05)


def test_the_command_measures_and_tells(home: Path) -> None:
    command = ["plan", "--items", "1e9", "--machines", "16", "--cores", "32", "-m", str(home / "model")]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    assert "1,000,000,000 items on 16 machines, extrapolated" in shown.output
    assert "measured on a core of this machine" in shown.output
    fields = json.loads(CliRunner().invoke(app, [*command, "--json"]).output)
    assert [each["embeddings"] for each in fields["estimates"]] == ["int8", "fp16", "none"]
    refused = CliRunner().invoke(app, [*command, "--gpus", "A100"])
    assert isinstance(refused.exception, InputError) or "run on processors" in refused.output
    with pytest.raises(InputError, match="run on processors: leave --gpus out"):
        gpu_items_per_second(Model.open(home / "model"), "A100")
