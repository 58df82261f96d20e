"""ONNX graphs written by hand, so that towers can be built from bare weights without torch or onnx.

An ONNX file is a protocol buffer. The few messages that a graph needs are written here directly; the numbers
of their fields are those of onnx.proto.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

OPSET = 17
IR_VERSION = 8
RUNTIME = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""

_ELEMENT_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10}
_FLOAT, _INT, _STRING, _INTS = 1, 2, 3, 7
"""Types of attributes."""


@dataclass
class _Node:
    operator: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    domain: str = ""


class Graph:
    """A graph under construction: nodes in the order they are added, each known by the name of its result."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[_Node] = []
        self._constants: list[bytes] = []
        self._inputs: list[bytes] = []
        self._outputs: list[bytes] = []
        self._count = 0

    def input(self, name: str, dtype: type[np.generic], shape: tuple[int | str, ...]) -> str:
        """Declare an input; a dimension that is a name may vary."""
        self._inputs.append(_value_info(name, dtype, shape))
        return name

    def output(self, name: str, value: str, shape: tuple[int | str, ...]) -> None:
        """Make a result an output of the graph, under this name."""
        self._nodes.append(_Node("Identity", [value], [name], {}))
        self._outputs.append(_value_info(name, np.float32, shape))

    def rename(self, name: str, shape: tuple[int | str, ...]) -> str:
        """Make the last node's result an output, renaming it instead of copying it; returns the name."""
        self._nodes[-1].outputs[0] = name
        self._outputs.append(_value_info(name, np.float32, shape))
        return name

    def constant(self, array: np.ndarray) -> str:
        """A fixed array."""
        name = self._new("constant")
        self._constants.append(_tensor(name, np.asarray(array)))
        return name

    def node(self, operator: str, *inputs: str | np.ndarray | np.generic, **attributes: Any) -> str:
        """One operator with one result; arrays and numbers among the inputs become constants."""
        names = [value if isinstance(value, str) else self.constant(np.asarray(value)) for value in inputs]
        result = self._new(operator.lower())
        self._nodes.append(_Node(operator, names, [result], attributes))
        return result

    def runtime_node(self, operator: str, *inputs: str | np.ndarray | np.generic, **attributes: Any) -> str:
        """One operator of ONNX Runtime's own, with one result."""
        result = self.node(operator, *inputs, **attributes)
        self._nodes[-1].domain = RUNTIME
        return result

    def split(self, value: str, parts: int, axis: int) -> list[str]:
        """A value split into equal parts along an axis."""
        results = [self._new("split") for _ in range(parts)]
        self._nodes.append(_Node("Split", [value], results, {"axis": axis}))
        return results

    def linear(self, value: str, weight: np.ndarray, bias: np.ndarray) -> str:
        """`value · weightᵀ + bias`, with the weight as PyTorch stores it, [outputs, inputs]."""
        return self.node("Add", self.node("MatMul", value, weight.T), bias)

    def bytes(self) -> bytes:
        """The finished model, serialised."""
        graph = b"".join(
            [
                *(_bytes(1, _node(node)) for node in self._nodes),
                _text(2, self._name),
                *(_bytes(5, constant) for constant in self._constants),
                *(_bytes(11, value) for value in self._inputs),
                *(_bytes(12, value) for value in self._outputs),
            ]
        )
        opsets = [_text(1, "") + _number(2, OPSET)]
        if any(node.domain for node in self._nodes):
            opsets.append(_text(1, RUNTIME) + _number(2, 1))
        return _number(1, IR_VERSION) + _bytes(7, graph) + b"".join(_bytes(8, opset) for opset in opsets)

    def _new(self, stem: str) -> str:
        self._count += 1
        return f"{stem}_{self._count}"


# --- messages --------------------------------------------------------------------------------------


def _node(node: _Node) -> bytes:
    return b"".join(
        [
            *(_text(1, name) for name in node.inputs),
            *(_text(2, name) for name in node.outputs),
            _text(4, node.operator),
            *(_bytes(5, _attribute(name, value)) for name, value in sorted(node.attributes.items())),
            *([_text(7, node.domain)] if node.domain else []),
        ]
    )


def _attribute(name: str, value: Any) -> bytes:
    """An attribute of a node: a number, a word or a list of whole numbers."""
    if isinstance(value, float):
        content, kind = _key(2, 5) + struct.pack("<f", value), _FLOAT
    elif isinstance(value, int):
        content, kind = _number(3, value), _INT
    elif isinstance(value, str):
        content, kind = _text(4, value), _STRING
    else:
        content, kind = b"".join(_number(8, number) for number in value), _INTS
    return _text(1, name) + content + _number(20, kind)


def _tensor(name: str, array: np.ndarray) -> bytes:
    little_endian = array.astype(array.dtype.newbyteorder("<"), order="C")
    return b"".join(
        [
            *(_number(1, size) for size in array.shape),
            _number(2, _ELEMENT_TYPES[array.dtype.name]),
            _text(8, name),
            _bytes(9, little_endian.tobytes()),
        ]
    )


def _value_info(name: str, dtype: type[np.generic], shape: tuple[int | str, ...]) -> bytes:
    """The name, element type and shape of an input or output."""
    sizes = (_text(2, size) if isinstance(size, str) else _number(1, size) for size in shape)
    dimensions = b"".join(_bytes(1, size) for size in sizes)
    tensor = _number(1, _ELEMENT_TYPES[np.dtype(dtype).name]) + _bytes(2, dimensions)
    return _text(1, name) + _bytes(2, _bytes(1, tensor))


# --- fields ----------------------------------------------------------------------------------------


def _number(field: int, value: int) -> bytes:
    return _key(field, 0) + _varint(value)


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _bytes(field: int, content: bytes) -> bytes:
    return _key(field, 2) + _varint(len(content)) + content


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _varint(value: int) -> bytes:
    """Seven bits a byte, lowest first; a negative number as 64 bits of two's complement."""
    value &= (1 << 64) - 1
    content = bytearray()
    while value > 0x7F:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    content.append(value)
    return bytes(content)
