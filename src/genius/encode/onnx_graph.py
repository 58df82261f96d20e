"""ONNX graphs written by hand, so that towers can be built from bare weights without torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from genius.errors import require

OPSET = 17
IR_VERSION = 8


class Graph:
    """A graph under construction: nodes in the order they are added, each known by the name of its result."""

    def __init__(self, name: str) -> None:
        self._onnx = require("onnx", "train", "building the encoder's towers")
        self._name = name
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._count = 0

    def input(self, name: str, dtype: type[np.generic], shape: tuple[int | str, ...]) -> str:
        """Declare an input; a dimension that is a name may vary."""
        self._inputs.append(self._value(name, dtype, shape))
        return name

    def output(self, name: str, value: str, shape: tuple[int | str, ...]) -> None:
        """Make a result an output of the graph, under this name."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._value(name, np.float32, shape))

    def rename(self, name: str, shape: tuple[int | str, ...]) -> str:
        """Make the last node's result an output, renaming it instead of copying it; returns the name."""
        self._nodes[-1].output[0] = name
        self._outputs.append(self._value(name, np.float32, shape))
        return name

    def constant(self, array: np.ndarray) -> str:
        """A fixed array."""
        name = self._new("constant")
        self._constants.append(self._onnx.numpy_helper.from_array(np.array(array, order="C"), name))
        return name

    def node(self, operator: str, *inputs: str | np.ndarray | np.generic, **attributes: Any) -> str:
        """One operator with one result; arrays and numbers among the inputs become constants."""
        names = [value if isinstance(value, str) else self.constant(np.asarray(value)) for value in inputs]
        result = self._new(operator.lower())
        self._nodes.append(self._onnx.helper.make_node(operator, names, [result], **attributes))
        return result

    def split(self, value: str, parts: int, axis: int) -> list[str]:
        """A value split into equal parts along an axis."""
        results = [self._new("split") for _ in range(parts)]
        self._nodes.append(self._onnx.helper.make_node("Split", [value], results, axis=axis))
        return results

    def linear(self, value: str, weight: np.ndarray, bias: np.ndarray) -> str:
        """`value · weightᵀ + bias`, with the weight as PyTorch stores it, [outputs, inputs]."""
        return self.node("Add", self.node("MatMul", value, weight.T), bias)

    def bytes(self) -> bytes:
        """The finished model, checked and serialised."""
        graph = self._onnx.helper.make_graph(
            self._nodes, self._name, self._inputs, self._outputs, self._constants
        )
        model = self._onnx.helper.make_model(
            graph, opset_imports=[self._onnx.helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
        )
        self._onnx.checker.check_model(model)
        content: bytes = model.SerializeToString(deterministic=True)
        return content

    def _value(self, name: str, dtype: type[np.generic], shape: tuple[int | str, ...]) -> Any:
        element = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self._onnx.helper.make_tensor_value_info(name, element, shape)

    def _new(self, stem: str) -> str:
        self._count += 1
        return f"{stem}_{self._count}"
