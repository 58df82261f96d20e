"""EfficientNet-Lite as an ONNX graph, built from the weights alone.

Depth and widths follow from the shapes of the weights; only the strides are fixed, as in the paper (Tan and
Le, arXiv 1905.11946; Lite: no squeeze-and-excitation, ReLU6). Batch normalisation is folded into the
convolutions.
"""

from __future__ import annotations

import numpy as np

from genius.encode.checkpoints import Weights
from genius.encode.onnx_graph import Graph
from genius.errors import InputError

SIDE = 260
STAGE_STRIDES = (1, 2, 2, 2, 1, 2, 1)
EPSILON = 1e-3


def build(weights: Weights) -> bytes:
    """The image tower as an ONNX model, from `pixels` [n, 3, side, side], (value − 127) / 128.

    `mean` and `max` pool the last layer over positions, `logits` are ImageNet's classes, `stages` are mean
    and standard deviation over positions at the end of each stage, `grid` is the fifth stage pooled to 3 × 3.
    Raises InputError for weights of another network.
    """
    blocks = _block_count(weights)
    graph = Graph("efficientnet-lite")
    value = graph.input("pixels", np.float32, ("n", 3, SIDE, SIDE))
    value = _convolution(graph, value, weights, "_conv_stem", "_bn0", stride=2, clip=True)
    stages: list[str] = []
    widths: list[int] = []
    for block in range(blocks):
        first = _starts_a_stage(weights, block)
        if first and block > 0:
            stages += _statistics(graph, value)
        if first:
            widths.append(_width(weights, block))
        stride = STAGE_STRIDES[len(widths) - 1] if first else 1
        value = _block(graph, value, weights, f"_blocks.{block}.", stride, skip=not first)
        if len(widths) == 5:
            middle = value
    stages += _statistics(graph, value)
    value = _convolution(graph, value, weights, "_conv_head", "_bn1", stride=1, clip=True)
    mean = graph.node("ReduceMean", value, axes=[2, 3], keepdims=0)
    features = weights["_fc.weight"].shape[1]
    graph.output("mean", mean, ("n", features))
    graph.output("max", graph.node("ReduceMax", value, axes=[2, 3], keepdims=0), ("n", features))
    graph.output("logits", graph.linear(mean, weights["_fc.weight"], weights["_fc.bias"]), ("n", 1000))
    graph.output("stages", graph.node("Concat", *stages, axis=1), ("n", 2 * sum(widths)))
    graph.output("grid", _grid(graph, middle, cells=3, side=-(-SIDE // 16)), ("n", 9 * widths[4]))
    return graph.bytes()


def _block_count(weights: Weights) -> int:
    blocks = {int(name.split(".")[1]) for name in weights if name.startswith("_blocks.")}
    if not blocks or "_fc.weight" not in weights:
        raise InputError("these are no weights of EfficientNet-Lite: _blocks or _fc is missing")
    return max(blocks) + 1


def _width(weights: Weights, block: int) -> int:
    return int(weights[f"_blocks.{block}._project_conv.weight"].shape[0])


def _starts_a_stage(weights: Weights, block: int) -> bool:
    return block == 0 or _width(weights, block) != _width(weights, block - 1)


def _block(graph: Graph, value: str, weights: Weights, name: str, stride: int, *, skip: bool) -> str:
    """An inverted residual block: expand, depthwise convolution, project."""
    inner = value
    if f"{name}_expand_conv.weight" in weights:
        inner = _convolution(graph, inner, weights, f"{name}_expand_conv", f"{name}_bn0", clip=True)
    inner = _convolution(
        graph, inner, weights, f"{name}_depthwise_conv", f"{name}_bn1", stride=stride, clip=True
    )
    inner = _convolution(graph, inner, weights, f"{name}_project_conv", f"{name}_bn2")
    return graph.node("Add", inner, value) if skip else inner


def _convolution(
    graph: Graph, value: str, weights: Weights, name: str, norm: str, *, stride: int = 1, clip: bool = False
) -> str:
    kernel = weights[f"{name}.weight"].astype(np.float32)
    scale = weights[f"{norm}.weight"] / np.sqrt(weights[f"{norm}.running_var"] + EPSILON)
    shift = weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * scale
    depthwise = kernel.shape[1] == 1 and kernel.shape[2] > 1
    result = graph.node(
        "Conv",
        value,
        (kernel * scale[:, None, None, None]).astype(np.float32),
        shift.astype(np.float32),
        auto_pad="SAME_UPPER",  # as TensorFlow pads, where the weights come from
        strides=[stride, stride],
        group=kernel.shape[0] if depthwise else 1,
    )
    return graph.node("Clip", result, np.float32(0), np.float32(6)) if clip else result


def _statistics(graph: Graph, value: str) -> list[str]:
    """Mean and standard deviation over positions."""
    mean = graph.node("ReduceMean", value, axes=[2, 3], keepdims=1)
    centred = graph.node("Sub", value, mean)
    variance = graph.node("ReduceMean", graph.node("Mul", centred, centred), axes=[2, 3], keepdims=0)
    deviation = graph.node("Sqrt", graph.node("Add", variance, np.float32(1e-6)))
    return [graph.node("Flatten", mean, axis=1), deviation]


def _grid(graph: Graph, value: str, cells: int, side: int) -> str:
    """Averages over a grid of cells × cells, as two matrix products."""
    row = np.arange(side) * cells // side == np.arange(cells)[:, None]
    pool = (row * (cells / side)).astype(np.float32)
    pooled = graph.node("MatMul", graph.node("MatMul", pool, value), pool.T)
    return graph.node("Flatten", pooled, axis=1)
