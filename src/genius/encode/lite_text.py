"""A BERT encoder (MiniLM) as an ONNX graph, built from the weights alone."""

from __future__ import annotations

import math

import numpy as np

from genius.encode.checkpoints import Weights
from genius.encode.onnx_graph import Graph
from genius.errors import InputError

HEADS = 12
EPSILON = 1e-12


def build(weights: Weights) -> bytes:
    """The text tower as an ONNX model: from `ids` and `mask`, int64 [n, length], to three outputs [n, width].

    `mean` and `max` are over the tokens of the last layer, `words` is the mean of the token embeddings
    themselves. Raises InputError for weights of another network.
    """
    graph = Graph("minilm")
    add_outputs(graph, weights)
    return graph.bytes()


def add_outputs(graph: Graph, weights: Weights) -> None:
    """Add the inputs, layers and outputs of the tower to a graph."""
    layers = layer_count(weights)
    ids = graph.input("ids", np.int64, ("n", "length"))
    mask = graph.node("Cast", graph.input("mask", np.int64, ("n", "length")), to=1)
    kept = graph.node("Unsqueeze", mask, np.array([2], np.int64))
    hidden = _embeddings(graph, ids, weights)
    words = _mean(graph, hidden, kept)
    # Added to attention scores before the softmax: 0 for tokens, a large negative number for padding.
    masked = graph.node("Mul", graph.node("Sub", np.float32(1), mask), np.float32(-1e4))
    bias = graph.node("Unsqueeze", masked, np.array([1, 2], np.int64))
    for layer in range(layers):
        hidden = _layer(graph, hidden, bias, weights, f"encoder.layer.{layer}.")
    width = weights["embeddings.word_embeddings.weight"].shape[1]
    graph.output("mean", _mean(graph, hidden, kept), ("n", width))
    low = graph.node("Mul", graph.node("Sub", np.float32(1), kept), np.float32(1e4))
    highest = graph.node("ReduceMax", graph.node("Sub", hidden, low), axes=[1], keepdims=0)
    graph.output("max", highest, ("n", width))
    graph.output("words", words, ("n", width))


def layer_count(weights: Weights) -> int:
    """The layers of an encoder. Raises InputError for weights of another network."""
    layers = {int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer.")}
    if not layers or "embeddings.word_embeddings.weight" not in weights:
        raise InputError("these are no weights of a BERT encoder: embeddings or layers are missing")
    return max(layers) + 1


def _embeddings(graph: Graph, ids: str, weights: Weights) -> str:
    name = "embeddings."
    words = graph.node("Gather", weights[f"{name}word_embeddings.weight"], ids)
    length = graph.node("Slice", graph.node("Shape", ids), *(np.array([n], np.int64) for n in (1, 2)))
    positions = graph.node(
        "Slice", weights[f"{name}position_embeddings.weight"], np.array([0], np.int64), length
    )
    total = graph.node("Add", words, positions)
    total = graph.node("Add", total, weights[f"{name}token_type_embeddings.weight"][0])
    return _norm(graph, total, weights, f"{name}LayerNorm")


def _layer(graph: Graph, value: str, bias: str, weights: Weights, name: str) -> str:
    attended = _attention(graph, value, bias, weights, f"{name}attention.self.")
    attended = _linear(graph, attended, weights, f"{name}attention.output.dense")
    value = _norm(graph, graph.node("Add", attended, value), weights, f"{name}attention.output.LayerNorm")
    inner = _gelu(graph, _linear(graph, value, weights, f"{name}intermediate.dense"))
    inner = _linear(graph, inner, weights, f"{name}output.dense")
    return _norm(graph, graph.node("Add", inner, value), weights, f"{name}output.LayerNorm")


def _attention(graph: Graph, value: str, bias: str, weights: Weights, name: str) -> str:
    width = weights[f"{name}query.weight"].shape[0]
    by_head = np.array([0, 0, HEADS, width // HEADS], np.int64)

    def heads(part: str, order: list[int]) -> str:
        split = graph.node("Reshape", _linear(graph, value, weights, f"{name}{part}"), by_head)
        return graph.node("Transpose", split, perm=order)

    scores = graph.node("MatMul", heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]))
    scores = graph.node("Div", scores, np.float32(math.sqrt(width // HEADS)))
    shares = graph.node("Softmax", graph.node("Add", scores, bias), axis=-1)
    mixed = graph.node("MatMul", shares, heads("value", [0, 2, 1, 3]))
    mixed = graph.node("Transpose", mixed, perm=[0, 2, 1, 3])
    return graph.node("Reshape", mixed, np.array([0, 0, width], np.int64))


def _linear(graph: Graph, value: str, weights: Weights, name: str) -> str:
    return graph.linear(value, weights[f"{name}.weight"], weights[f"{name}.bias"])


def _norm(graph: Graph, value: str, weights: Weights, name: str) -> str:
    scale, shift = weights[f"{name}.weight"], weights[f"{name}.bias"]
    return graph.node("LayerNormalization", value, scale, shift, axis=-1, epsilon=EPSILON)


def _gelu(graph: Graph, value: str) -> str:
    share = graph.node("Erf", graph.node("Div", value, np.float32(math.sqrt(2))))
    share = graph.node("Mul", graph.node("Add", share, np.float32(1)), np.float32(0.5))
    return graph.node("Mul", value, share)


def _mean(graph: Graph, value: str, kept: str) -> str:
    """The mean over the kept tokens."""
    total = graph.node("ReduceSum", graph.node("Mul", value, kept), np.array([1], np.int64), keepdims=0)
    return graph.node("Div", total, graph.node("ReduceSum", kept, np.array([1], np.int64), keepdims=0))
