"""Small decoders with random weights, and the same weights in Hugging Face's T5."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from genius.decode.t5 import CodeNetwork, DecoderSettings

WIDTH = 10
"""Of query vectors."""
SETTINGS = DecoderSettings(
    layers=2, width=24, heads=3, head_width=5, feed_forward=40, prefix=4, start_from_codebooks=False
)
SIZES = (3, 11, 7, 13)


def network(
    sizes: tuple[int, ...] = SIZES, settings: DecoderSettings = SETTINGS, seed: int = 0
) -> CodeNetwork:
    """A network whose every weight is random, norms too; it is sure enough of itself to have an opinion."""
    torch.manual_seed(seed)
    made = CodeNetwork(WIDTH, sizes, settings)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
        made.distances.weight.mul_(5)
    return made.eval()


def queries(count: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng([seed, 5]).normal(size=(count, WIDTH))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def some_codes(count: int, sizes: tuple[int, ...] = SIZES, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, 6]).integers(0, sizes, (count, len(sizes)))


def as_t5(network: CodeNetwork, *, encoder_layers: int = 0) -> Any:
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
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=None,
    )
    model: Any = T5ForConditionalGeneration(config).eval()
    weights = {
        "shared.weight": network.codes.weight,
        "encoder.final_layer_norm.weight": network.prefix_norm.weight,
        "decoder.final_layer_norm.weight": network.norm.weight,
        "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": network.distances.weight,
    }
    for number, layer in enumerate(network.layers):
        block = f"decoder.block.{number}.layer."
        weights[f"{block}0.layer_norm.weight"] = layer.look_norm.weight
        weights[f"{block}1.layer_norm.weight"] = layer.read_norm.weight
        weights[f"{block}2.layer_norm.weight"] = layer.think_norm.weight
        weights[f"{block}2.DenseReluDense.wi.weight"] = layer.widen.weight
        weights[f"{block}2.DenseReluDense.wo.weight"] = layer.narrow.weight
        for place, attention in (("0.SelfAttention", layer.look), ("1.EncDecAttention", layer.read)):
            for theirs, ours in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "out")):
                weights[f"{block}{place}.{theirs}.weight"] = getattr(attention, ours).weight
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    tied = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"}
    assert {name for name in missing if not name.startswith("encoder.block")} <= tied
    assert torch.equal(model.lm_head.weight, network.codes.weight)
    return model


def prefixes(network: CodeNetwork, vectors: np.ndarray) -> torch.Tensor:
    """What the prefix's layer makes of vectors, before the encoder's norm."""
    settings = network.settings
    return network.prefix(torch.from_numpy(vectors)).view(-1, settings.prefix, settings.width)
