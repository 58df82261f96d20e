from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from genius.errors import GeniusError
from genius.runtime import session

pytest.importorskip("torch")
pytest.importorskip("onnx")
import torch

from genius.encode.onnx_export import export

ROWS = torch.arange(6.0).reshape(2, 3)


class Shifted(torch.nn.Module):
    """Subtracts something that depends on the rows, and ignores its second input."""

    def __init__(self, shift: Any) -> None:
        super().__init__()
        self.shift = shift

    def forward(self, rows: Any, unused: Any) -> Any:
        return rows - self.shift(rows)


def test_an_exported_graph_takes_any_number_of_rows() -> None:
    graph = session(export(Shifted(lambda rows: rows.mean(1, keepdim=True)), {"a": ROWS, "b": ROWS}, ["c"]))
    assert [declared.name for declared in graph.get_inputs()] == ["a"]
    rows = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    np.testing.assert_allclose(
        graph.run(["c"], {"a": rows})[0], rows - rows.mean(1, keepdims=True), atol=1e-6
    )


def test_a_graph_that_differs_from_torch_is_refused() -> None:
    """Tracing builds the number of rows of the example, 2, into the graph; the check has 4."""
    with pytest.raises(GeniusError, match="the exported graph differs from torch by 2, more than"):
        export(Shifted(lambda rows: int(rows.shape[0])), {"a": ROWS, "b": ROWS}, ["c"])
