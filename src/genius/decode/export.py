"""The learned decoder as ONNX graphs, in single precision and in 8 bits, checked against torch.

`prefix` computes the keys and values of cross-attention, once for each query; `step` appends rows to the
queries' trees. The graphs are written by hand, which keeps them small and of shapes that ONNX Runtime can
fuse. Matrices that are multiplied with the same rows are joined into one, as fewer and wider products are
quicker.

Neither graph holds the table of embeddings: rows of it are inputs. Logits are computed outside, in single
precision; in 8 bits each level of many codes has a graph for them, `head-1` and so on.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from genius.decode.decoder import Decoder
from genius.decode.onnx_decoder import (
    CACHE_INPUT,
    MANY,
    PREFIX_INPUT,
    OnnxDecoder,
    Precision,
    head_name,
)
from genius.decode.t5 import DecoderLayer, T5Decoder
from genius.decode.torch_decoder import TorchDecoder
from genius.encode.onnx_graph import Graph
from genius.errors import GeniusError, InputError, require

TOLERANCE: Mapping[Precision, float] = {"fp32": 1e-3, "int8": 0.5}
"""How far log-probabilities of a graph may be from torch's: the largest difference in single precision, the
mean one in 8 bits, which round."""
PROBES = 64
"""Queries along whose codes graphs are compared with torch."""


@dataclass(frozen=True)
class Exported:
    """Graphs by precision, and how far their log-probabilities are from torch's, at most and on average.

    Single precision is always there; 8 bits may have been too far off.

    Attributes:
        graphs: the graphs of each precision by name.
        largest: the largest difference, by precision.
        mean: the mean difference, by precision.
    """

    graphs: Mapping[Precision, Mapping[str, bytes]]
    largest: Mapping[Precision, float]
    mean: Mapping[Precision, float]


def export_decoder(
    network: T5Decoder, vectors: np.ndarray, codes: np.ndarray, *, needs_8_bits: bool = True
) -> Exported:
    """The network as graphs, compared with torch along `codes` [n, levels] of query `vectors` [n, width].

    Raises InputError without queries, and GeniusError if a graph's scores differ too much; in 8 bits it is
    then left out unless `needs_8_bits`.
    """
    if not len(vectors) or codes.shape != (len(vectors), len(network.sizes)):
        raise InputError(
            "graphs are compared with torch along codes of some queries, "
            f"not along shapes {vectors.shape} and {codes.shape}"
        )
    vectors, codes = vectors[:PROBES].astype(np.float32), codes[:PROBES].astype(np.int64)
    plain = {"prefix": prefix_graph(network), "step": step_graph(network)}
    graphs: dict[Precision, dict[str, bytes]] = {
        "fp32": plain,
        "int8": {name: in_8_bits(content) for name, content in {**plain, **head_graphs(network)}.items()},
    }
    table = network.codes.weight.detach().cpu().numpy()
    expected = _walk(TorchDecoder(network, network.codes.weight.device), vectors, codes)
    largest: dict[Precision, float] = {}
    mean: dict[Precision, float] = {}
    for precision, graph in list(graphs.items()):
        decoder = OnnxDecoder(graph, table, network.sizes, 1, network.settings.normalisation)
        scores = _walk(decoder, vectors, codes)
        differences = [np.abs(ours - torchs) for ours, torchs in zip(scores, expected, strict=True)]
        largest[precision] = float(max(level.max() for level in differences))
        mean[precision] = float(np.mean([level.mean() for level in differences]))
        worst = largest[precision] if precision == "fp32" else mean[precision]
        if not worst <= TOLERANCE[precision]:
            if precision == "int8" and not needs_8_bits:
                del graphs[precision]
                continue
            raise GeniusError(
                f"the decoder's {precision} graph differs from torch by {worst:.2g}, more than "
                f"{TOLERANCE[precision]:.2g}: it is not used; please report this with your versions of "
                "torch, onnx and onnxruntime"
            )
    return Exported(graphs, largest, mean)


def _walk(decoder: Decoder, vectors: np.ndarray, codes: np.ndarray) -> list[np.ndarray]:
    """The scores [n, codes] of each level along the codes."""
    state, rows = decoder.begin(vectors), np.arange(len(vectors))
    scores = [state.scores()]
    for level in codes.T[:-1]:
        state.advance(rows, level)
        scores.append(state.scores())
    return scores


def prefix_graph(network: T5Decoder) -> bytes:
    """From vectors [queries, vector_width] to the keys and values of each layer's cross-attention."""
    settings, graph = network.settings, _Graph("prefix")
    value = graph.input("vectors", np.float32, ("queries", network.vector_width))
    maps = list(network.prefix) if isinstance(network.prefix, nn.Sequential) else [network.prefix]
    for layer in maps:
        if isinstance(layer, nn.Linear):
            value = graph.linear(value, _array(layer.weight), _array(layer.bias))
        else:
            value = graph.node("Relu", value)
    value = graph.node("Reshape", value, np.array([-1, settings.prefix, settings.width]))
    value = graph.normed(value, network.prefix_norm)
    shape = "queries", settings.heads, settings.prefix, settings.head_width
    attentions = [layer.cross_attention for layer in _layers(network)]
    projections = [projection for attention in attentions for projection in (attention.key, attention.value)]
    for number, projected in enumerate(graph.heads(value, projections, settings.heads)):
        graph.output(f"{('key', 'value')[number % 2]}_{number // 2}", projected, shape)
    return graph.bytes()


def step_graph(network: T5Decoder) -> bytes:
    """From new rows to their hidden rows and to the grown cache of self-attention.

    A row sees only the rows of its path. `paths` [queries, heads, rows, depth] are their numbers among all
    rows so far, and `distances` [queries, rows, depth] how far above it they are, as in `T5Decoder.step`.
    """
    settings, graph = network.settings, _Graph("step")
    hidden = graph.input("embedded", np.float32, ("queries", "rows", settings.width))
    distances = graph.input("distances", np.int64, ("queries", "rows", "depth"))
    heads, head_width = settings.heads, settings.head_width
    paths = graph.input("paths", np.int64, ("queries", heads, "rows", "depth"))
    bias = graph.node("Gather", _array(network.position_bias()), distances)
    bias = graph.node("Transpose", bias, perm=[0, 3, 1, 2])
    for number, layer in enumerate(_layers(network)):
        prefix, past = (
            [
                graph.input(f"{start}{part}_{number}", np.float32, ("queries", heads, count, head_width))
                for part in ("key", "value")
            ]
            for start, count in ((PREFIX_INPUT, settings.prefix), (CACHE_INPUT, "past"))
        )
        normed = graph.normed(hidden, layer.self_attention_norm)
        attention = layer.self_attention
        query, *new = graph.heads(normed, [attention.query, attention.key, attention.value], heads)
        shape = "queries", heads, "all", head_width
        graph.node("Concat", past[0], new[0], axis=2)
        keys = graph.rename(f"key_{number}", shape)
        graph.node("Concat", past[1], new[1], axis=2)
        values = graph.rename(f"value_{number}", shape)
        attended = graph.attention(query, keys, values, attention.out, (paths, bias))
        hidden = graph.node("Add", hidden, attended)
        attention = layer.cross_attention
        (query,) = graph.heads(graph.normed(hidden, layer.cross_attention_norm), [attention.query], heads)
        attended = graph.attention(query, prefix[0], prefix[1], attention.out, None)
        hidden = graph.node("Add", hidden, attended)
        normed = graph.normed(hidden, layer.mlp_norm)
        up = graph.node("Relu", graph.node("MatMul", normed, _array(layer.mlp.up.weight).T))
        hidden = graph.node("Add", hidden, graph.node("MatMul", up, _array(layer.mlp.down.weight).T))
    graph.output("hidden", graph.normed(hidden, network.norm), ("queries", "rows", settings.width))
    return graph.bytes()


def head_graphs(network: T5Decoder) -> dict[str, bytes]:
    """From hidden rows [rows, width] to the logits [rows, codes] of a level, for each level of many codes; by
    name.

    Each is a graph of its own, as ONNX Runtime always computes all results of a graph.
    """
    table = _array(network.codes.weight) * np.float32(network.settings.width**-0.5)
    graphs = {}
    for level, (first, size) in enumerate(zip(network.offsets, network.sizes, strict=True)):
        if size >= MANY:
            graph = Graph("head")
            hidden = graph.input("hidden", np.float32, ("rows", network.settings.width))
            logits = graph.node("MatMul", hidden, table[first : first + size].T)
            graph.output("logits", logits, ("rows", size))
            graphs[head_name(level)] = graph.bytes()
    return graphs


class _Graph(Graph):
    """A graph with the building blocks of the decoder."""

    def normed(self, value: str, norm: nn.RMSNorm) -> str:
        """The norm of rows, spelled out in the way that ONNX Runtime recognises and fuses."""
        mean = self.node("ReduceMean", self.node("Pow", value, np.float32(2)), axes=[-1], keepdims=1)
        size = self.node("Sqrt", self.node("Add", mean, np.float32(norm.eps or 0)))
        return self.node("Mul", self.node("Div", value, size), _array(norm.weight))

    def heads(self, value: str, projections: Sequence[nn.Linear], heads: int) -> list[str]:
        """Linear projections of rows, each as [queries, heads, rows, head_width]."""
        count = len(projections)
        weights = np.concatenate([_array(projection.weight).T for projection in projections], axis=1)
        projected = self.node("MatMul", value, weights)
        split = self.node("Reshape", projected, np.array([0, 0, count * heads, -1]))
        turned = self.node("Transpose", split, perm=[0, 2, 1, 3])
        return [turned] if count == 1 else self.split(turned, count, axis=1)

    def attention(
        self, query: str, keys: str, values: str, out: nn.Linear, seen: tuple[str, str] | None
    ) -> str:
        """Attention of rows to all keys, or only to those that they see (paths and bias).

        Products with all keys are one matrix product per query, and so are those with all values; rows that
        are not seen are left out of the softmax between them, which would take longer than both.
        """
        across = self.node("Transpose", keys, perm=[0, 1, 3, 2])
        products = self.node("MatMul", query, across)
        if seen is None:
            weights = self.node("Softmax", products, axis=-1)
        else:
            paths, bias = seen
            taken = self.node("Add", self.node("GatherElements", products, paths, axis=3), bias)
            nothing = self.node("ConstantOfShape", self.node("Shape", products))
            weights = self.node(
                "ScatterElements",
                nothing,
                paths,
                self.node("Softmax", taken, axis=-1),
                axis=3,
                reduction="add",
            )
        attended = self.node("Transpose", self.node("MatMul", weights, values), perm=[0, 2, 1, 3])
        attended = self.node("Reshape", attended, np.array([0, 0, -1]))
        return self.node("MatMul", attended, _array(out.weight).T)


def in_8_bits(content: bytes) -> bytes:
    """The graph with its weights in 8 bits, a scale for each column; the rows that are multiplied with them
    are rounded as they come."""
    onnx = require("onnx", "train", "exporting a model")
    quantization = require("onnxruntime.quantization", "train", "exporting a model")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "graph.onnx")
        logger = logging.getLogger()
        level = logger.level
        logger.setLevel(logging.ERROR)  # it advises a preparation that our graphs don't need
        try:
            quantization.quantize_dynamic(
                onnx.load_from_string(content),
                path,
                op_types_to_quantize=["MatMul"],
                per_channel=True,
                weight_type=quantization.QuantType.QInt8,
                reduce_range=True,  # in 7 bits, as sums of pairs overflow where a processor adds in 16 bits
            )
        finally:
            logger.setLevel(level)
        return path.read_bytes()


def _layers(network: T5Decoder) -> list[DecoderLayer]:
    return [layer for layer in network.layers if isinstance(layer, DecoderLayer)]


def _array(tensor: torch.Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array
