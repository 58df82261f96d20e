"""Graphs written by hand are what the onnx package would write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.encode.onnx_graph import IR_VERSION, OPSET, Graph
from genius.runtime import session

onnx: Any = pytest.importorskip("onnx")
helper = onnx.helper


def small_graph() -> Graph:
    graph = Graph("small")
    value = graph.input("value", np.float32, ("n", 3))
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    scaled = graph.linear(value, weight, np.array([1, -1], np.float32))
    left, right = graph.split(scaled, 2, axis=1)
    pooled = graph.node("ReduceMean", graph.node("Concat", right, left, axis=-1), axes=[-1], keepdims=1)
    normed = graph.node("Div", pooled, np.float32(0.5))
    graph.output("pooled", normed, ("n", 1))
    graph.node("LeakyRelu", scaled, alpha=0.25)
    graph.rename("leaky", ("n", 2))
    return graph


def by_onnx() -> bytes:
    """The same graph by the onnx package."""
    numbers = onnx.numpy_helper.from_array
    constants = [
        numbers(np.arange(6, dtype=np.float32).reshape(2, 3).T.copy(), "constant_1"),
        numbers(np.array([1, -1], np.float32), "constant_3"),
        numbers(np.array(0.5, np.float32), "constant_9"),
    ]
    nodes = [
        helper.make_node("MatMul", ["value", "constant_1"], ["matmul_2"]),
        helper.make_node("Add", ["matmul_2", "constant_3"], ["add_4"]),
        helper.make_node("Split", ["add_4"], ["split_5", "split_6"], axis=1),
        helper.make_node("Concat", ["split_6", "split_5"], ["concat_7"], axis=-1),
        helper.make_node("ReduceMean", ["concat_7"], ["reducemean_8"], keepdims=1, axes=[-1]),
        helper.make_node("Div", ["reducemean_8", "constant_9"], ["div_10"]),
        helper.make_node("Identity", ["div_10"], ["pooled"]),
        helper.make_node("LeakyRelu", ["add_4"], ["leaky"], alpha=0.25),
    ]
    float32 = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("value", float32, ("n", 3))],
        [
            helper.make_tensor_value_info("pooled", float32, ("n", 1)),
            helper.make_tensor_value_info("leaky", float32, ("n", 2)),
        ],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def test_bytes_are_those_of_the_onnx_package() -> None:
    content = small_graph().bytes()
    onnx.checker.check_model(onnx.load_from_string(content))
    assert content == by_onnx()


def test_a_graph_runs() -> None:
    rows = np.array([[1, 2, 3], [0, -1, 0]], np.float32)
    pooled, leaky = session(small_graph().bytes()).run(None, {"value": rows})
    scaled = rows @ np.arange(6, dtype=np.float32).reshape(2, 3).T + np.array([1, -1], np.float32)
    assert np.allclose(pooled, scaled.mean(1, keepdims=True) / 0.5)
    assert np.allclose(leaky, np.where(scaled < 0, 0.25 * scaled, scaled))


@given(
    st.sampled_from(["float32", "float16", "int8", "uint8", "int32", "int64", "bool"]),
    st.lists(st.integers(0, 200), max_size=3),
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=300),
)
def test_constants_and_attributes_are_read_back(dtype: str, shape: list[int], number: int, word: str) -> None:
    array = np.random.default_rng(0).integers(0, 2, [size % 7 for size in shape]).astype(dtype)
    graph = Graph(word)
    graph.node("Some", array, number=number, word=word, numbers=[number, 0, -1], share=0.1)
    read = onnx.load_from_string(graph.bytes()).graph
    assert read.name == word
    assert np.array_equal(onnx.numpy_helper.to_array(read.initializer[0]), array)
    assert read.initializer[0].data_type == helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    values = {attribute.name: helper.get_attribute_value(attribute) for attribute in read.node[0].attribute}
    assert values == {
        "number": number,
        "word": word.encode(),
        "numbers": [number, 0, -1],
        "share": pytest.approx(0.1),
    }
