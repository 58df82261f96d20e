"""Export of torch modules as ONNX graphs, each checked against torch."""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from genius.errors import GeniusError, require
from genius.runtime import session
from genius.tensors import MIN_ELEMENTS, TRANSPOSED

OPSET = 17
TOLERANCE = 1e-4


def export(module: torch.nn.Module, inputs: Mapping[str, torch.Tensor], outputs: Sequence[str]) -> bytes:
    """The module as an ONNX graph whose inputs and outputs may have any number of rows.

    `inputs` are examples of two rows or more. Raises GeniusError if the graph differs from torch.
    """
    require("onnx", "train", "exporting a model")
    module.eval()
    with warnings.catch_warnings(), torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # the exporter warns of its own age and of every constant
        path = Path(folder, "graph.onnx")
        torch.onnx.export(
            module,
            tuple(inputs.values()),
            path,
            dynamo=False,
            opset_version=OPSET,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes={name: {0: "rows"} for name in (*inputs, *outputs)},
        )
        # Twice the rows of the examples: a graph with their number built in would fail.
        probe = {name: torch.cat([value, value.flip(0)]) for name, value in inputs.items()}
        expected = module(*probe.values())
        content = path.read_bytes()
    _check(content, probe, expected if isinstance(expected, tuple) else (expected,))
    return content


def without_tensors(content: bytes, tensors: Mapping[str, np.ndarray]) -> tuple[bytes, list[str]]:
    """A graph that only names those of its constants that are among `tensors`, and these names.

    So two graphs can share tensors that are stored once; `runtime.session` gives them back. A name that ends
    in `.T` stands for a transposed tensor, as the exporter transposes some.
    """
    onnx = require("onnx", "train", "exporting a model")
    large = {name: tensor for name, tensor in tensors.items() if tensor.size >= MIN_ELEMENTS}
    names = {_content_key(tensor.T): f"{name}{TRANSPOSED}" for name, tensor in large.items()}
    names |= {_content_key(tensor): name for name, tensor in large.items()}
    model, renamed = onnx.load_from_string(content), {}
    for constant in model.graph.initializer:
        name = names.get(_content_key(onnx.numpy_helper.to_array(constant)))
        if name is not None:
            renamed[constant.name] = name
            constant.CopyFrom(_named_only(onnx, constant, name))
    for node in model.graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
    unique = {constant.name: constant for constant in model.graph.initializer}
    del model.graph.initializer[:]
    model.graph.initializer.extend(unique.values())
    return model.SerializeToString(deterministic=True), sorted(set(renamed.values()))


def _named_only(onnx: Any, constant: Any, name: str) -> Any:
    """A constant under another name whose content is elsewhere."""
    size = 4 * int(np.prod(constant.dims))
    tensor = onnx.TensorProto(name=name, data_type=constant.data_type, dims=constant.dims)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "tensors"), ("offset", "0"), ("length", str(size))):
        tensor.external_data.add(key=key, value=value)
    return tensor


def _content_key(tensor: np.ndarray) -> tuple[tuple[int, ...], str, bytes]:
    content = np.ascontiguousarray(tensor)
    return content.shape, content.dtype.name, hashlib.sha256(content.data).digest()


def _check(content: bytes, inputs: Mapping[str, torch.Tensor], expected: tuple[torch.Tensor, ...]) -> None:
    graph = session(content)
    names = [declared.name for declared in graph.get_inputs()]  # unused inputs are dropped from the graph
    outputs = graph.run(None, {name: inputs[name].numpy() for name in names})
    for output, wanted in zip(outputs, expected, strict=True):
        difference = float(np.abs(output - wanted.numpy()).max())
        if not difference <= TOLERANCE:
            raise GeniusError(
                f"the exported graph differs from torch by {difference:.2g}, more than {TOLERANCE:.2g}: "
                "it is not used; please report this with your versions of torch and onnx"
            )
