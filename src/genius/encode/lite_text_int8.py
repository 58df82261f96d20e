"""The text tower in 8 bits, by ONNX Runtime's own operators for it, built from the weights alone.

Weights are whole numbers with a unit for each channel; some have 7 bits, as processors without VNNI sum pairs
of products in 16 bits (the features of a text differ a little between such processors and others). What a
matrix takes is rounded to bytes whose unit follows from its least and largest
number: texts pass one at a time, so that a text's features don't depend on those beside it.

A unit for all tokens and channels would be coarse where a few of them are large, so large ones are made
smaller first: channels before a matrix by how large they usually are (`lite_text_sizes.json`, measured by
`python -m tools.text_sizes`), with its weights made larger in turn; and tokens before a layer's last matrix
by their largest number.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import orjson

from genius.encode.checkpoints import Weights
from genius.encode.lite_text import EPSILON, HEADS, layer_count
from genius.encode.onnx_graph import Graph

SIZES = Path(__file__).with_name("lite_text_sizes.json")
LARGEST, LARGEST_OF_ATTENTION = 127, 63
"""Of a rounded weight; 7 bits in attention's matrices, where sums of pairs would overflow most often."""
SMOOTHING = 0.65
"""How much of a channel's size is moved into the weights: a power of it."""

Sizes = Mapping[str, np.ndarray]
"""The largest numbers of each channel before matrices, by the names of these."""


def read_sizes() -> dict[str, np.ndarray]:
    """The sizes that were measured for the real weights."""
    return {name: np.array(sizes, np.float32) for name, sizes in orjson.loads(SIZES.read_bytes()).items()}


def build(weights: Weights, sizes: Sizes) -> bytes:
    """The text tower as an ONNX model: from the `ids` of one text, int64 [1, length], to three outputs.

    They are those of `lite_text.build`. Raises InputError for weights of another network.
    """
    layers = layer_count(weights)
    graph = Graph("minilm-int8")
    ids = graph.input("ids", np.int64, ("n", "length"))
    hidden = _embeddings(graph, ids, weights)
    words = graph.node("ReduceMean", hidden, axes=[1], keepdims=0)
    for layer in range(layers):
        hidden = _layer(graph, hidden, weights, sizes, f"encoder.layer.{layer}.")
    width = weights["embeddings.word_embeddings.weight"].shape[1]
    graph.output("mean", graph.node("ReduceMean", hidden, axes=[1], keepdims=0), ("n", width))
    graph.output("max", graph.node("ReduceMax", hidden, axes=[1], keepdims=0), ("n", width))
    graph.output("words", words, ("n", width))
    return graph.bytes()


def _embeddings(graph: Graph, ids: str, weights: Weights) -> str:
    name = "embeddings."
    places = weights[f"{name}position_embeddings.weight"] + weights[f"{name}token_type_embeddings.weight"][0]
    length = graph.node("Slice", graph.node("Shape", ids), *(np.array([n], np.int64) for n in (1, 2)))
    positions = graph.node("Slice", places, np.array([0], np.int64), length)
    words = graph.node("Gather", weights[f"{name}word_embeddings.weight"], ids)
    return _norm(graph, graph.node("Add", words, positions), weights, f"{name}LayerNorm")


def _layer(graph: Graph, value: str, weights: Weights, sizes: Sizes, name: str) -> str:
    own = f"{name}attention.self."
    parts = [f"{own}{part}" for part in ("query", "key", "value")]
    matrix = np.concatenate([weights[f"{part}.weight"] for part in parts])
    bias = np.concatenate([weights[f"{part}.bias"] for part in parts])
    projected = _linear(graph, value, matrix, bias, LARGEST_OF_ATTENTION, sizes[own])
    attended = graph.runtime_node("MultiHeadAttention", *graph.split(projected, 3, axis=2), num_heads=HEADS)
    output = _matrix(weights, f"{name}attention.output.dense")
    attended = _linear(graph, attended, *output, LARGEST_OF_ATTENTION)
    value = _norm(graph, graph.node("Add", attended, value), weights, f"{name}attention.output.LayerNorm")
    inner = f"{name}intermediate.dense"
    hidden = graph.runtime_node(
        "Gelu", _linear(graph, value, *_matrix(weights, inner), LARGEST, sizes[inner])
    )
    hidden = _linear_by_token(graph, hidden, *_matrix(weights, f"{name}output.dense"))
    return _norm(graph, graph.node("Add", hidden, value), weights, f"{name}output.LayerNorm")


def _matrix(weights: Weights, name: str) -> tuple[np.ndarray, np.ndarray]:
    return weights[f"{name}.weight"], weights[f"{name}.bias"]


def _linear(
    graph: Graph,
    value: str,
    matrix: np.ndarray,
    bias: np.ndarray,
    largest: int,
    sizes: np.ndarray | None = None,
) -> str:
    """A linear layer; with `sizes`, large channels before it are made smaller."""
    if sizes is not None:
        most = np.maximum(np.abs(matrix).max(axis=0), 1e-4)
        divisors = np.maximum(sizes, 1e-4) ** SMOOTHING / most ** (1 - SMOOTHING)
        value, matrix = graph.node("Mul", value, (1 / divisors).astype(np.float32)), matrix * divisors
    return _multiply(graph, value, matrix, largest, bias.astype(np.float32))


def _linear_by_token(graph: Graph, value: str, matrix: np.ndarray, bias: np.ndarray) -> str:
    """A linear layer before which each token is divided by its largest number."""
    largest = graph.node("ReduceMax", graph.node("Abs", value), axes=[-1], keepdims=1)
    largest = graph.node("Max", largest, np.float32(1e-6))
    result = _multiply(graph, graph.node("Div", value, largest), matrix, LARGEST)
    result = graph.node("Mul", result, largest)
    return graph.node("Add", result, bias.astype(np.float32))


def _multiply(graph: Graph, value: str, matrix: np.ndarray, largest: int, *bias: np.ndarray) -> str:
    """The product with a matrix [outputs, inputs] in whole numbers."""
    rounded, units = rounded_matrix(matrix, largest)
    zeros = np.zeros(len(units), np.int8)
    return graph.runtime_node(
        "DynamicQuantizeMatMul", value, np.ascontiguousarray(rounded.T), units, zeros, *bias
    )


def rounded_matrix(matrix: np.ndarray, largest: int) -> tuple[np.ndarray, np.ndarray]:
    """A matrix [outputs, inputs] in whole numbers of at most `largest`, int8, and the unit of each output."""
    most = np.abs(matrix).max(axis=1)
    units = (np.where(most > 0, most, 1) / largest).astype(np.float32)
    return np.rint(matrix / units[:, None]).astype(np.int8), units


def _norm(graph: Graph, value: str, weights: Weights, name: str) -> str:
    scale, shift = weights[f"{name}.weight"], weights[f"{name}.bias"]
    return graph.node("LayerNormalization", value, scale, shift, axis=-1, epsilon=EPSILON)
