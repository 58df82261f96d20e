"""EfficientNet-Lite as an ONNX graph, built from the weights alone.

Depth and widths follow from the shapes of the weights; only the strides are fixed, as in the paper (Tan and
Le, arXiv 1905.11946; Lite: no squeeze-and-excitation, ReLU6). Batch normalisation is folded into the
convolutions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genius.encode.checkpoints import Weights
from genius.encode.onnx_graph import Graph
from genius.errors import InputError

SIDE = 260
STAGE_STRIDES = (1, 2, 2, 2, 1, 2, 1)
GRID_STAGE = 4
"""The stage whose positions are kept, coarsely."""
EPSILON = 1e-3


def build(weights: Weights, second: Weights | None = None) -> bytes:
    """The image tower as an ONNX model, from `pixels` [n, 3, side, side], (value − 127) / 128.

    `mean` and `max` pool the last layer over positions, `logits` are ImageNet's classes, `stages` are mean
    and standard deviation over positions at the end of each stage, `grid` is the fifth stage pooled to 3 × 3.
    A second network sees the same pixels: `second_mean`, `second_max` and `second_logits` are its own.
    Raises InputError for weights of another network.
    """
    graph = Graph("efficientnet-lite")
    pixels = graph.input("pixels", np.float32, ("n", 3, SIDE, SIDE))
    stages = _stages(graph, pixels, weights)
    _pooled(graph, stages[-1], weights, "")
    statistics = [part for stage in stages for part in _statistics(graph, stage.value)]
    widths = [stage.width for stage in stages]
    graph.output("stages", graph.node("Concat", *statistics, axis=1), ("n", 2 * sum(widths)))
    grid = _grid(graph, stages[GRID_STAGE].value, cells=3, side=-(-SIDE // 16))
    graph.output("grid", grid, ("n", 9 * widths[GRID_STAGE]))
    if second is not None:
        _pooled(graph, _stages(graph, pixels, second)[-1], second, "second_")
    return graph.bytes()


@dataclass(frozen=True)
class _Stage:
    """The end of a stage: its value in the graph, and its channels."""

    value: str
    width: int


def _stages(graph: Graph, pixels: str, weights: Weights) -> list[_Stage]:
    """All blocks of a network; returns the ends of its stages."""
    blocks = _block_count(weights)
    value = _convolution(graph, pixels, weights, "_conv_stem", "_bn0", stride=2, clip=True)
    stages: list[_Stage] = []
    for block in range(blocks):
        first = _starts_a_stage(weights, block)
        stage = len(stages) if first else len(stages) - 1
        stride = STAGE_STRIDES[stage] if first else 1
        value = _block(graph, value, weights, f"_blocks.{block}.", stride, skip=not first)
        stages[stage:] = [_Stage(value, _width(weights, block))]
    return stages


def _pooled(graph: Graph, last: _Stage, weights: Weights, prefix: str) -> None:
    """The outputs of a network's head: its last layer pooled, and its classes."""
    value = _convolution(graph, last.value, weights, "_conv_head", "_bn1", stride=1, clip=True)
    mean = graph.node("ReduceMean", value, axes=[2, 3], keepdims=0)
    features = weights["_fc.weight"].shape[1]
    graph.output(f"{prefix}mean", mean, ("n", features))
    graph.output(f"{prefix}max", graph.node("ReduceMax", value, axes=[2, 3], keepdims=0), ("n", features))
    logits = graph.linear(mean, weights["_fc.weight"], weights["_fc.bias"])
    graph.output(f"{prefix}logits", logits, ("n", len(weights["_fc.bias"])))


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
