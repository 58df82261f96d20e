"""The learned decoder of a model, opened by ONNX Runtime."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

from safetensors.torch import save_file

from genius.decode.export import export_decoder
from genius.decode.onnx_decoder import WEIGHTS, graph_file
from genius.decode.torch_decoder import TorchDecoder
from tests.decode.small_decoder import SIZES, changed, network, queries, some_codes


def test_an_opened_decoder_needs_no_torch(tmp_path: Path) -> None:
    made = network(settings=changed(prefix_hidden=6))
    exported = export_decoder(made, queries(4), some_codes(4))
    save_file(made.state_dict(), tmp_path / WEIGHTS)
    for graph, content in exported.graphs["fp32"].items():
        (tmp_path / graph_file(graph, "fp32")).write_bytes(content)
    vectors, codes = queries(3), [0, 2, 1]
    np.save(tmp_path / "vectors.npy", vectors)
    code = f"""
import sys, numpy
from pathlib import Path
from genius.decode.onnx_decoder import OnnxDecoder
decoder = OnnxDecoder.open(Path({str(tmp_path)!r}).joinpath, {SIZES}, threads=1)
scores = decoder.begin(numpy.load({str(tmp_path / "vectors.npy")!r}), numpy.array({codes})).scores()
numpy.save({str(tmp_path / "scores.npy")!r}, scores)
assert not {{"torch", "onnx", "transformers"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    expected = TorchDecoder(made).begin(vectors, np.array(codes)).scores()
    np.testing.assert_allclose(np.load(tmp_path / "scores.npy"), expected, atol=1e-4)
