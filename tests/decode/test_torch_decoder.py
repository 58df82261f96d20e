from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from safetensors.torch import save_file

from genius.decode.torch_decoder import TorchDecoder
from tests.decode.small_decoder import SIZES, WIDTH, changed, network, queries

FORMAT_1_LAYER = {
    "look_norm.weight": "self_attention_norm.weight",
    "look.query.weight": "self_attention.query.weight",
    "look.key.weight": "self_attention.key.weight",
    "look.value.weight": "self_attention.value.weight",
    "look.out.weight": "self_attention.out.weight",
    "read_norm.weight": "cross_attention_norm.weight",
    "read.query.weight": "cross_attention.query.weight",
    "read.key.weight": "cross_attention.key.weight",
    "read.value.weight": "cross_attention.value.weight",
    "read.out.weight": "cross_attention.out.weight",
    "think_norm.weight": "mlp_norm.weight",
    "widen.weight": "mlp.up.weight",
    "narrow.weight": "mlp.down.weight",
}
FORMAT_1 = {
    "codes.weight": "codes.weight",
    "prefix.0.weight": "prefix.0.weight",
    "prefix.0.bias": "prefix.0.bias",
    "prefix.2.weight": "prefix.2.weight",
    "prefix.2.bias": "prefix.2.bias",
    "prefix_norm.weight": "prefix_norm.weight",
    "distances.weight": "relative_attention_bias.weight",
    "norm.weight": "norm.weight",
    **{f"layers.{n}.{old}": f"layers.{n}.{new}" for n in range(2) for old, new in FORMAT_1_LAYER.items()},
}
"""All names in `decoder.safetensors` of a model of format 1 with two layers, and what they are today."""


@pytest.mark.parametrize("format_1", [False, True])
def test_weights_of_any_format_are_read(format_1: bool, tmp_path: Path) -> None:
    settings = changed(prefix_hidden=6)
    made = network(settings=settings)
    weights = made.state_dict()
    assert set(weights) == set(FORMAT_1.values())
    if format_1:
        weights = {old: weights[new] for old, new in FORMAT_1.items()}
    save_file(weights, tmp_path / "decoder.safetensors")
    described = dataclasses.asdict(settings)
    opened = TorchDecoder.open(tmp_path / "decoder.safetensors", WIDTH, SIZES, described, "cpu")
    codes = np.array([0, 2, 1])
    expected, state = TorchDecoder(made).begin(queries(3), codes), opened.begin(queries(3), codes)
    for level in range(1, len(SIZES)):
        np.testing.assert_array_equal(state.scores(), expected.scores())
        for search in (state, expected):
            search.advance(np.arange(3), np.full(3, level))
