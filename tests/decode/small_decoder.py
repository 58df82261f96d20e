"""Small decoders with random weights, and the same weights in Hugging Face's T5."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch

from genius.decode.export import export_decoder
from genius.decode.onnx_decoder import OnnxDecoder, Precision
from genius.decode.t5 import DecoderLayer, DecoderSettings, T5Decoder

WIDTH = 10
"""Of query vectors."""
SETTINGS = DecoderSettings(
    layers=2, width=24, heads=3, head_width=5, feed_forward=40, prefix=4, start_from_codebooks=False
)
SIZES = (3, 11, 7, 13)


def changed(**changes: Any) -> DecoderSettings:
    return dataclasses.replace(SETTINGS, **changes)


def network(sizes: tuple[int, ...] = SIZES, settings: DecoderSettings = SETTINGS, seed: int = 0) -> T5Decoder:
    """A network whose every weight is random, norms too, with scores that differ clearly between codes."""
    torch.manual_seed(seed)
    made = T5Decoder(WIDTH, sizes, settings)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
        made.relative_attention_bias.weight.mul_(5)
    return made.eval()


def queries(count: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng([seed, 5]).normal(size=(count, WIDTH))
    unit: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit.astype(np.float32)


def some_codes(count: int, sizes: tuple[int, ...] = SIZES, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, 6]).integers(0, sizes, (count, len(sizes)))


def onnx(network: T5Decoder, precision: Precision = "fp32") -> OnnxDecoder:
    """The network as ONNX Runtime runs it."""
    exported = export_decoder(network, queries(4), some_codes(4, network.sizes))
    table = network.codes.weight.detach().numpy()
    return OnnxDecoder(exported.graphs[precision], table, network.sizes, 1, network.settings.normalisation)


def as_t5(network: T5Decoder, *, encoder_layers: int = 0) -> Any:
    """The network's weights as T5ForConditionalGeneration has them.

    Its encoder has no layers, as in the reference code; `generate` needs one that has as many as the decoder,
    but does not use them if it is given the encoder's output.
    """
    from transformers import T5Config, T5ForConditionalGeneration

    settings = network.settings
    config = T5Config(
        vocab_size=len(network.codes.weight),
        d_model=settings.width,
        d_kv=settings.head_width,
        d_ff=settings.feed_forward,
        num_heads=settings.heads,
        num_layers=encoder_layers,
        num_decoder_layers=settings.layers,
        relative_attention_num_buckets=settings.buckets,
        relative_attention_max_distance=settings.max_distance,
        dropout_rate=settings.dropout,
        decoder_start_token_id=0,  # type: ignore[call-arg]  # taken, though not declared
        pad_token_id=0,
        eos_token_id=None,
    )
    model: Any = T5ForConditionalGeneration(config).eval()
    bias = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    weights = {
        bias: network.relative_attention_bias.weight,
        "shared.weight": network.codes.weight,
        "encoder.final_layer_norm.weight": network.prefix_norm.weight,
        "decoder.final_layer_norm.weight": network.norm.weight,
    }
    for number, layer in enumerate(network.layers):
        assert isinstance(layer, DecoderLayer)
        block = f"decoder.block.{number}.layer."
        weights[f"{block}0.layer_norm.weight"] = layer.self_attention_norm.weight
        weights[f"{block}1.layer_norm.weight"] = layer.cross_attention_norm.weight
        weights[f"{block}2.layer_norm.weight"] = layer.mlp_norm.weight
        weights[f"{block}2.DenseReluDense.wi.weight"] = layer.mlp.up.weight
        weights[f"{block}2.DenseReluDense.wo.weight"] = layer.mlp.down.weight
        attentions = {"0.SelfAttention": layer.self_attention, "1.EncDecAttention": layer.cross_attention}
        for place, attention in attentions.items():
            for theirs, ours in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "out")):
                weights[f"{block}{place}.{theirs}.weight"] = getattr(attention, ours).weight
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    tied = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"}
    assert {name for name in missing if not name.startswith("encoder.block")} <= tied
    assert torch.equal(model.lm_head.weight, network.codes.weight)
    return model


def prefixes(network: T5Decoder, vectors: np.ndarray) -> torch.Tensor:
    """The prefixes [n, prefix, width] of vectors, before the encoder's norm."""
    settings = network.settings
    rows: torch.Tensor = network.prefix(torch.from_numpy(vectors))
    return rows.view(-1, settings.prefix, settings.width)
