"""The towers that are built from bare weights equal the networks that the weights were made for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from genius.encode import lite_image as efficientnet
from genius.encode import lite_text as minilm
from genius.errors import InputError
from tests.encode.small_towers import BLOCKS, efficientnet_weights

torch = pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
functional = torch.nn.functional


def run(model: bytes, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


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
        statistics = (weights[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        value = functional.batch_norm(value, *statistics, eps=1e-3)
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


def test_efficientnet_lite() -> None:
    weights = efficientnet_weights()
    pixels = torch.randn(2, 3, efficientnet.SIDE, efficientnet.SIDE)
    found = run(
        efficientnet.build({name: value.numpy() for name, value in weights.items()}), pixels=pixels.numpy()
    )
    expected = reference_efficientnet(weights, pixels)
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value.numpy(), atol=2e-5, rtol=1e-4, err_msg=name)


def test_minilm_equals_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 12}
    config = transformers.BertConfig(**sizes, intermediate_size=96, max_position_embeddings=40)
    network = transformers.BertModel(config, add_pooling_layer=False).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    ids = torch.randint(0, 50, (3, 11))
    mask = torch.ones_like(ids)
    mask[1, 4:] = 0
    mask[2, 1:] = 0
    weights = {name: value.numpy() for name, value in network.state_dict().items()}
    found = run(minilm.build(weights), ids=ids.numpy(), mask=mask.numpy())
    with torch.no_grad():
        layers = network(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
    kept = mask[:, :, None].bool()
    for name, value in (("mean", layers[-1]), ("words", layers[0])):
        expected = torch.where(kept, value, 0).sum(1) / mask.sum(1, keepdim=True)
        np.testing.assert_allclose(found[name], expected.numpy(), atol=1e-4)
    expected = torch.where(kept, layers[-1], -torch.inf).amax(1)
    np.testing.assert_allclose(found["max"], expected.numpy(), atol=1e-4)


def test_towers_are_the_same_bytes_each_time() -> None:
    weights = {name: value.numpy() for name, value in efficientnet_weights().items()}
    assert efficientnet.build(weights) == efficientnet.build(weights)


def test_other_weights_are_refused() -> None:
    with pytest.raises(InputError, match="no weights of EfficientNet-Lite"):
        efficientnet.build({"x": np.zeros(3)})
    with pytest.raises(InputError, match="no weights of a BERT encoder"):
        minilm.build({"x": np.zeros(3)})
