"""The learned decoder as ONNX graphs, in single precision and in 8 bits, checked against torch.

`prefix` makes of queries what cross-attention reads, once for each; `step` appends rows to their trees. The
graphs are written by hand: that keeps them small, and of shapes that ONNX Runtime knows how to fuse. Matrices
that are multiplied with the same rows are one matrix, as fewer and wider products are quicker.

The table of embeddings is in neither: rows of it come in. What comes out is compared with it outside, in
single precision; in 8 bits that is a graph too for each level of many codes, `head-1` and so on.
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
from genius.decode.onnx_decoder import MANY, OnnxDecoder, Precision, head_name
from genius.decode.t5 import CodeNetwork, DecoderLayer
from genius.decode.torch_decoder import TorchDecoder
from genius.encode.onnx_graph import Graph
from genius.errors import GeniusError, InputError, require

TOLERANCE: Mapping[Precision, float] = {"fp32": 1e-3, "int8": 0.5}
"""How far log-probabilities of a graph may be from torch's: the largest difference in single precision, the
mean one in 8 bits, which round."""
PROBES = 64
"""How many queries are compared."""


@dataclass(frozen=True)
class Exported:
    """Graphs by precision, and how far their log-probabilities are from torch's, at most and on average."""

    graphs: Mapping[Precision, Mapping[str, bytes]]
    largest: Mapping[Precision, float]
    mean: Mapping[Precision, float]


def export_decoder(network: CodeNetwork, vectors: np.ndarray, codes: np.ndarray) -> Exported:
    """The network as graphs, compared with torch along the `codes` [n, levels] of some query `vectors`.

    Raises GeniusError if a graph's answers differ too much.
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
    for precision, graph in graphs.items():
        found = _walk(OnnxDecoder(graph, table, network.sizes, threads=1), vectors, codes)
        differences = [np.abs(one - two) for one, two in zip(found, expected, strict=True)]
        largest[precision] = float(max(level.max() for level in differences))
        mean[precision] = float(np.mean([level.mean() for level in differences]))
        worst = largest[precision] if precision == "fp32" else mean[precision]
        if not worst <= TOLERANCE[precision]:
            raise GeniusError(
                f"the decoder's {precision} graph differs from torch by {worst:.2g}, more than "
                f"{TOLERANCE[precision]:.2g}: it is not used; please report this with your versions of "
                "torch, onnx and onnxruntime"
            )
    return Exported(graphs, largest, mean)


def _walk(decoder: Decoder, vectors: np.ndarray, codes: np.ndarray) -> list[np.ndarray]:
    """The scores of each level along the codes."""
    decoding, rows = decoder.begin(vectors), np.arange(len(vectors))
    scores = [decoding.scores()]
    for level in codes.T[:-1]:
        decoding.advance(rows, level)
        scores.append(decoding.scores())
    return scores


def prefix_graph(network: CodeNetwork) -> bytes:
    """From vectors [queries, vector_width] to the keys and values of each layer's cross-attention."""
    settings, graph = network.settings, _Graph("prefix")
    value = graph.input("vectors", np.float32, ("queries", network.vector_width))
    maps = list(network.prefix) if isinstance(network.prefix, nn.Sequential) else [network.prefix]
    for one in maps:
        if isinstance(one, nn.Linear):
            value = graph.linear(value, _array(one.weight), _array(one.bias))
        else:
            value = graph.node("Relu", value)
    value = graph.node("Reshape", value, np.array([-1, settings.prefix, settings.width]))
    value = graph.normed(value, network.prefix_norm)
    shape = "queries", settings.heads, settings.prefix, settings.head_width
    reading = [one for layer in _layers(network) for one in (layer.read.key, layer.read.value)]
    for number, part in enumerate(graph.heads(value, reading, settings.heads)):
        graph.output(f"{('key', 'value')[number % 2]}_{number // 2}", part, shape)
    return graph.bytes()


def step_graph(network: CodeNetwork) -> bytes:
    """From new rows to their hidden rows and to the grown cache.

    Of all rows so far a row sees a few: those of its path. `paths` [queries, heads, rows, depth] are their
    numbers, and `distances` [queries, rows, depth] how far above it they are, as in `CodeNetwork.step`.
    """
    settings, graph = network.settings, _Graph("step")
    value = graph.input("embedded", np.float32, ("queries", "rows", settings.width))
    distances = graph.input("distances", np.int64, ("queries", "rows", "depth"))
    heads, head_width = settings.heads, settings.head_width
    paths = graph.input("paths", np.int64, ("queries", heads, "rows", "depth"))
    bias = graph.node("Gather", _array(network.bias()), distances)
    bias = graph.node("Transpose", bias, perm=[0, 3, 1, 2])
    for number, layer in enumerate(_layers(network)):
        memory, past = (
            [
                graph.input(f"{kind}_{part}_{number}", np.float32, ("queries", heads, count, head_width))
                for part in ("key", "value")
            ]
            for kind, count in (("memory", settings.prefix), ("past", "past"))
        )
        normed = graph.normed(value, layer.look_norm)
        look = layer.look
        asking, *new = graph.heads(normed, [look.query, look.key, look.value], heads)
        shape = "queries", heads, "all", head_width
        graph.node("Concat", past[0], new[0], axis=2)
        keys = graph.rename(f"key_{number}", shape)
        graph.node("Concat", past[1], new[1], axis=2)
        values = graph.rename(f"value_{number}", shape)
        looked = graph.attention(asking, keys, values, look.out, (paths, bias))
        value = graph.node("Add", value, looked)
        (asking,) = graph.heads(graph.normed(value, layer.read_norm), [layer.read.query], heads)
        value = graph.node("Add", value, graph.attention(asking, memory[0], memory[1], layer.read.out, None))
        normed = graph.normed(value, layer.think_norm)
        wide = graph.node("Relu", graph.node("MatMul", normed, _array(layer.widen.weight).T))
        value = graph.node("Add", value, graph.node("MatMul", wide, _array(layer.narrow.weight).T))
    graph.output("hidden", graph.normed(value, network.norm), ("queries", "rows", settings.width))
    return graph.bytes()


def head_graphs(network: CodeNetwork) -> dict[str, bytes]:
    """From hidden rows [rows, width] to the logits of a level, for each level of many codes; by name.

    They are graphs of their own, as ONNX Runtime always computes all results of a graph.
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
    """A graph with the decoder's own parts."""

    def normed(self, value: str, norm: nn.RMSNorm) -> str:
        """Spelled out in the way that ONNX Runtime recognises and fuses."""
        mean = self.node("ReduceMean", self.node("Pow", value, np.float32(2)), axes=[-1], keepdims=1)
        size = self.node("Sqrt", self.node("Add", mean, np.float32(norm.eps or 0)))
        return self.node("Mul", self.node("Div", value, size), _array(norm.weight))

    def heads(self, value: str, maps: Sequence[nn.Linear], heads: int) -> list[str]:
        """Linear maps, each as [queries, heads, rows, head_width]."""
        weights = np.concatenate([_array(one.weight).T for one in maps], axis=1)
        mapped = self.node("MatMul", value, weights)
        split = self.node("Reshape", mapped, np.array([0, 0, len(maps) * heads, -1]))
        turned = self.node("Transpose", split, perm=[0, 2, 1, 3])
        return [turned] if len(maps) == 1 else self.split(turned, len(maps), axis=1)

    def attention(
        self, asking: str, keys: str, values: str, out: nn.Linear, seen: tuple[str, str] | None
    ) -> str:
        """What rows take from keys and values: from all, or from those that are seen (paths and bias).

        Products with all keys are one matrix product for a query, and so are those with all values; what
        a row does not see is left out of the softmax between them, which would take longer than both.
        """
        across = self.node("Transpose", keys, perm=[0, 1, 3, 2])
        products = self.node("MatMul", asking, across)
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
        found = self.node("Transpose", self.node("MatMul", weights, values), perm=[0, 2, 1, 3])
        found = self.node("Reshape", found, np.array([0, 0, -1]))
        return self.node("MatMul", found, _array(out.weight).T)


def in_8_bits(content: bytes) -> bytes:
    """The graph with its weights in 8 bits, a scale for each column; what is multiplied with them is rounded
    as it comes."""
    onnx = require("onnx", "train", "exporting a model")
    quantization = require("onnxruntime.quantization", "train", "exporting a model")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "graph.onnx")
        logger = logging.getLogger()
        level = logger.level
        logger.setLevel(logging.ERROR)  # it advises to prepare graphs in a way that ours don't need
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


def _layers(network: CodeNetwork) -> list[DecoderLayer]:
    return [layer for layer in network.layers if isinstance(layer, DecoderLayer)]


def _array(tensor: torch.Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array
