"""The image tower, built from bare weights, equals the network that the weights were made for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from genius.encode import lite_image
from genius.errors import InputError
from tests.encode.small_towers import BLOCKS, efficientnet_weights, run_graph

pytest.importorskip("torch")
pytest.importorskip("onnx")
import torch

functional = torch.nn.functional


def reference_efficientnet(weights: dict[str, Any], pixels: Any) -> dict[str, Any]:
    """The same network, layer by layer as the paper has it."""

    def layer(value: Any, name: str, norm: str, stride: int = 1, clip: bool = True) -> Any:
        kernel = weights[f"{name}.weight"]
        size, side = kernel.shape[2], value.shape[2]
        padding = max((-(-side // stride) - 1) * stride + size - side, 0)  # TensorFlow's SAME
        before, after = padding // 2, padding - padding // 2
        value = functional.pad(value, (before, after, before, after))
        groups = kernel.shape[0] if kernel.shape[1] == 1 and size > 1 else 1
        value = functional.conv2d(value, kernel, stride=stride, groups=groups)
        statistics = {
            part: weights[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        }
        value = functional.batch_norm(value, **statistics, eps=1e-3)
        return functional.relu6(value) if clip else value

    value = layer(pixels, "_conv_stem", "_bn0", 2)
    ends = {}
    for number, (width, _, stride) in enumerate(BLOCKS):
        name, inner = f"_blocks.{number}.", value
        if number > 0:
            inner = layer(inner, f"{name}_expand_conv", f"{name}_bn0")
        inner = layer(inner, f"{name}_depthwise_conv", f"{name}_bn1", stride)
        inner = layer(inner, f"{name}_project_conv", f"{name}_bn2", clip=False)
        repeated = number > 0 and BLOCKS[number - 1][0] == width
        value = ends[width] = inner + value if repeated else inner
    head = layer(value, "_conv_head", "_bn1")
    mean = head.mean((2, 3))
    stages = [
        part
        for end in ends.values()
        for part in (end.mean((2, 3)), (end.var((2, 3), correction=0) + 1e-6) ** 0.5)
    ]
    cells = [torch.arange(17)[(torch.arange(17) * 3 // 17) == place] for place in range(3)]
    grid = [
        ends[12][:, :, rows][:, :, :, columns].sum((2, 3)) * (3 / 17) ** 2
        for rows in cells
        for columns in cells
    ]
    return {
        "mean": mean,
        "max": head.amax((2, 3)),
        "logits": mean @ weights["_fc.weight"].T + weights["_fc.bias"],
        "stages": torch.cat(stages, 1),
        "grid": torch.stack(grid, 2).flatten(1),
    }


def test_the_tower_equals_efficientnet_lite() -> None:
    weights = efficientnet_weights()
    pixels = torch.randn(2, 3, lite_image.SIDE, lite_image.SIDE)
    outputs = run_graph(
        lite_image.build({name: value.numpy() for name, value in weights.items()}), pixels=pixels.numpy()
    )
    expected = reference_efficientnet(weights, pixels)
    assert set(outputs) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value.numpy(), atol=2e-5, rtol=1e-4, err_msg=name)


def test_a_second_network_sees_the_same_pixels() -> None:
    first, second = ({n: v.numpy() for n, v in efficientnet_weights(seed=seed).items()} for seed in (0, 1))
    pixels = np.random.default_rng(0).normal(size=(2, 3, lite_image.SIDE, lite_image.SIDE)).astype(np.float32)
    alone = [run_graph(lite_image.build(weights), pixels=pixels) for weights in (first, second)]
    outputs = run_graph(lite_image.build(first, second), pixels=pixels)
    assert outputs.keys() == alone[0].keys() | {"second_mean", "second_max", "second_logits"}
    for name, value in outputs.items():
        expected = alone[name.startswith("second_")][name.removeprefix("second_")]
        np.testing.assert_allclose(value, expected, atol=1e-6, err_msg=name)
    assert not np.allclose(outputs["mean"], outputs["second_mean"])


def test_the_tower_is_the_same_bytes_each_time() -> None:
    weights = {name: value.numpy() for name, value in efficientnet_weights().items()}
    assert lite_image.build(weights) == lite_image.build(weights)


def test_other_weights_are_refused() -> None:
    with pytest.raises(InputError, match="no weights of EfficientNet-Lite"):
        lite_image.build({"x": np.zeros(3)})
