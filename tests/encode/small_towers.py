"""Small random towers of the embedded encoder's architecture, so that tests need no real weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from genius import storage
from genius.encode import lite, lite_image, lite_text, lite_text_int8, pipeline
from genius.encode.checkpoints import Weights
from genius.runtime import session
from tests.miniature import COLOURS
from tools.text_sizes import measure

# blocks of a small network: width, kernel, stride, in the seven stages of the paper
BLOCKS = [
    (4, 3, 1),
    (6, 3, 2),
    (6, 3, 1),
    (8, 5, 2),
    (10, 3, 2),
    (12, 5, 1),
    (12, 5, 1),
    (14, 5, 2),
    (16, 3, 1),
]

WORDS = (
    "[PAD]",
    "[UNK]",
    "a",
    "the",
    "square",
    "one",
    "find",
    "prompt",
    "of",
    ".",
    "picture",
    "text",
    "that",
    "matches",
)


def efficientnet_weights(seed: int = 0) -> dict[str, Any]:
    torch.manual_seed(seed)
    weights: dict[str, Any] = {}

    def convolution(name: str, norm: str, outputs: int, inputs: int, kernel: int) -> None:
        weights[f"{name}.weight"] = (
            torch.randn(outputs, inputs, kernel, kernel) / (inputs * kernel * kernel) ** 0.5
        )
        weights[f"{norm}.weight"] = torch.rand(outputs) + 0.5
        weights[f"{norm}.bias"] = torch.randn(outputs) * 0.3
        weights[f"{norm}.running_mean"] = torch.randn(outputs) * 0.3
        weights[f"{norm}.running_var"] = torch.rand(outputs) + 0.5

    convolution("_conv_stem", "_bn0", 4, 3, 3)
    inputs = 4
    for number, (width, kernel, _) in enumerate(BLOCKS):
        inner, name = inputs, f"_blocks.{number}."
        if number > 0:
            inner = 2 * inputs
            convolution(f"{name}_expand_conv", f"{name}_bn0", inner, inputs, 1)
        convolution(f"{name}_depthwise_conv", f"{name}_bn1", inner, 1, kernel)
        convolution(f"{name}_project_conv", f"{name}_bn2", width, inner, 1)
        inputs = width
    convolution("_conv_head", "_bn1", 20, inputs, 1)
    weights["_fc.weight"], weights["_fc.bias"] = torch.randn(1000, 20), torch.randn(1000)
    return weights


def bert_weights(words: int, width: int = 24, layers: int = 2) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return random.normal(size=shape, scale=0.4).astype(np.float32)

    weights = {
        "embeddings.word_embeddings.weight": normal(words, width),
        "embeddings.position_embeddings.weight": normal(lite.MAX_TOKENS, width) * 0.1,
        "embeddings.token_type_embeddings.weight": normal(2, width),
    }
    sizes = {
        "attention.self.query": (width, width),
        "attention.self.key": (width, width),
        "attention.self.value": (width, width),
        "attention.output.dense": (width, width),
        "intermediate.dense": (2 * width, width),
        "output.dense": (width, 2 * width),
    }
    for layer in range(layers):
        for name, shape in sizes.items():
            weights[f"encoder.layer.{layer}.{name}.weight"] = normal(*shape)
            weights[f"encoder.layer.{layer}.{name}.bias"] = normal(shape[0])
    norms = ["embeddings.LayerNorm"]
    norms += [
        f"encoder.layer.{n}.{p}.LayerNorm" for n in range(layers) for p in ("attention.output", "output")
    ]
    for norm in norms:
        weights[f"{norm}.weight"] = np.ones(width, np.float32)
        weights[f"{norm}.bias"] = np.zeros(width, np.float32)
    return weights


def run_graph(model: bytes, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    """All outputs of an ONNX model, by name."""
    graph = session(model)
    names = [output.name for output in graph.get_outputs()]
    return dict(zip(names, graph.run(None, inputs), strict=True))


def small_sizes(words: Weights) -> dict[str, np.ndarray]:
    """How large channels are before the matrices of a small text tower."""
    random = np.random.default_rng(0)
    count = len(words["embeddings.word_embeddings.weight"])
    return measure(words, (random.integers(0, count, 7).tolist() for _ in range(8)))


def write_small_towers(folder: Path, precision: lite.TowerPrecision = "fp32") -> Path:
    """An artifact that `Lite.open` takes: tiny towers, and a tokenizer that knows a few words."""
    words = (*WORDS, *COLOURS)
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, "[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    with storage.create(folder, kind=lite.KIND, format=lite.FORMAT, settings={"small": True}) as draft:
        image = lite_image.build({name: value.numpy() for name, value in efficientnet_weights().items()})
        (draft.folder / "image.onnx").write_bytes(image)
        network = bert_weights(len(words))
        if precision == "int8":
            text = lite_text_int8.build(network, small_sizes(network))
        else:
            text = lite_text.build(network)
        (draft.folder / "text.onnx").write_bytes(text)
        tokenizer.save(str(draft.folder / "tokenizer.json"))
    return folder


def use_small_towers(home: Path, patch: pytest.MonkeyPatch) -> None:
    """Make commands use the towers and the cache in `home`, and encode in this process."""
    patch.setattr(lite, "build", lambda **_: home / "towers")
    patch.setattr(pipeline, "default_cache", lambda: home / "cache")
    patch.setattr(pipeline, "cores", lambda: 1)
