"""ONNX Runtime as genius starts it: it says nothing to anybody."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx")
from onnx import TensorProto, helper

PROGRAM = "import sys; from genius.runtime import session; session(sys.argv[1]).run(None, {'x': [1.0]})"


def test_nothing_is_written_about_the_user(tmp_path: Path) -> None:
    """ONNX Runtime would keep an id of the device and a list of what was done in the user's cache."""
    numbers = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "same", numbers[:1], numbers[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path, home = tmp_path / "same.onnx", tmp_path / "home"
    path.write_bytes(model.SerializeToString())
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment = {**kept, "HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    subprocess.run([sys.executable, "-c", PROGRAM, path], check=True, env=environment)
    assert list(home.rglob("*")) == []
