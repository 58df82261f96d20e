"""The published decoder (`GENIUS_t5small.pth`): a T5 whose encoder has no layers, under Hugging Face's names,
with a copy of the quantizer. All sizes follow from the shapes."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import torch

from genius.decode.onnx_decoder import Normalisation
from genius.decode.t5 import DecoderSettings, T5Decoder
from genius.errors import InputError
from genius.published.files import PublishedFile

WHAT = "GENIUS's decoder"
QUANTIZER = "quantizer."
"""How the names of the quantizer's copy begin."""
SPECIAL_TOKENS = 3
"""Padding, which also starts a code; end; unknown. Codes follow, level after level."""
TABLES = tuple(
    f"id_generator.{name}.weight"
    for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens", "lm_head")
)
"""Four names of one table."""
BIAS = "id_generator.decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
FIRST_QUERY = "id_generator.decoder.block.0.layer.0.SelfAttention.q.weight"
FIRST_UP = "id_generator.decoder.block.0.layer.2.DenseReluDense.wi.weight"
PREFIX = "embed_projector.0"
OUTSIDE_LAYERS = {  # ours: theirs
    "prefix_norm.weight": "id_generator.encoder.final_layer_norm.weight",
    "norm.weight": "id_generator.decoder.final_layer_norm.weight",
    "relative_attention_bias.weight": BIAS,
    "prefix.weight": f"{PREFIX}.weight",
    "prefix.bias": f"{PREFIX}.bias",
}
IN_LAYERS = {
    **{
        f"{ours}.{part}.weight": f"{theirs}.{letter}.weight"
        for ours, theirs in (
            ("self_attention", "layer.0.SelfAttention"),
            ("cross_attention", "layer.1.EncDecAttention"),
        )
        for part, letter in (("query", "q"), ("key", "k"), ("value", "v"), ("out", "o"))
    },
    "self_attention_norm.weight": "layer.0.layer_norm.weight",
    "cross_attention_norm.weight": "layer.1.layer_norm.weight",
    "mlp_norm.weight": "layer.2.layer_norm.weight",
    "mlp.up.weight": "layer.2.DenseReluDense.wi.weight",
    "mlp.down.weight": "layer.2.DenseReluDense.wo.weight",
}
_BLOCK = re.compile(r"id_generator\.decoder\.block\.(\d+)\.")


def decoder_shapes(
    settings: DecoderSettings, vector_width: int, sizes: Sequence[int]
) -> dict[str, tuple[int, ...]]:
    """The shape of each weight of a decoder by name, without the quantizer's copy."""
    width, inner, out = settings.width, settings.heads * settings.head_width, settings.prefix * settings.width
    by_end = {
        **{f"attention.{part}.weight": (inner, width) for part in ("query", "key", "value")},
        "attention.out.weight": (width, inner),
        "norm.weight": (width,),
        "mlp.up.weight": (settings.feed_forward, width),
        "mlp.down.weight": (width, settings.feed_forward),
        "relative_attention_bias.weight": (settings.buckets, settings.heads),
        "prefix.weight": (out, vector_width),
        "prefix.bias": (out,),
    }
    shapes: dict[str, tuple[int, ...]] = {name: (SPECIAL_TOKENS + sum(sizes), width) for name in TABLES}
    for ours, theirs in _names(settings.layers).items():
        shapes[theirs] = next(shape for end, shape in by_end.items() if ours.endswith(end))
    return shapes


def check_decoder(file: PublishedFile, vector_width: int, sizes: Sequence[int]) -> None:
    """Raise InputError that names what is missing, too much, or of a wrong shape.

    `file` is without the quantizer's copy, whose vectors are so wide, with so many codes by level.
    """
    file.check_names({*TABLES, *_names(_layers(file)).values()}, WHAT)
    tokens, width = file.size(TABLES[0], 0), file.size(TABLES[0], 1)
    if tokens != (needed := SPECIAL_TOKENS + sum(sizes)):
        raise InputError(
            f"knows {tokens:,} tokens, but levels of {_plus(sizes)} codes need {needed:,} with "
            f"{SPECIAL_TOKENS} special ones: it belongs to another quantizer",
            path=file.path,
        )
    heads, inner, out = file.size(BIAS, 1), file.size(FIRST_QUERY, 0), file.size(f"{PREFIX}.weight", 0)
    if min(heads, width) < 1 or inner % heads or out % width:
        raise InputError(
            f"has {heads} heads over {inner} numbers and a prefix of {out} numbers for a network {width} "
            "wide, which don't fit together",
            path=file.path,
        )
    file.check_shapes(decoder_shapes(_settings(file, "vocabulary"), vector_width, sizes))


def read_decoder(
    file: PublishedFile, vector_width: int, sizes: Sequence[int], normalisation: Normalisation = "vocabulary"
) -> T5Decoder:
    """The network of a file that was checked. Raises InputError if its tables differ."""
    table = file.read(TABLES[0])
    for name in TABLES[1:]:
        if not np.array_equal(table, file.read(name)):
            raise InputError(
                f"has different embeddings in {TABLES[0]} and {name}, which GENIUS has in common",
                path=file.path,
            )
    network = T5Decoder(vector_width, sizes, _settings(file, normalisation))
    weights = {ours: torch.from_numpy(file.read(theirs)) for ours, theirs in _names(_layers(file)).items()}
    # Ours begins with the start token; tokens that are no codes come last.
    ordered = np.concatenate([table[:1], table[SPECIAL_TOKENS:], table[1:SPECIAL_TOKENS]])
    network.load_state_dict({"codes.weight": torch.from_numpy(ordered), **weights})
    return network.eval()


def _settings(file: PublishedFile, normalisation: Normalisation) -> DecoderSettings:
    width, heads = file.size(TABLES[0], 1), file.size(BIAS, 1)
    buckets = file.size(BIAS, 0)
    return DecoderSettings(
        layers=_layers(file),
        width=width,
        heads=heads,
        head_width=file.size(FIRST_QUERY, 0) // heads,
        feed_forward=file.size(FIRST_UP, 0),
        prefix=file.size(f"{PREFIX}.weight", 0) // width,
        prefix_hidden=0,
        start_from_codebooks=False,
        buckets=buckets,
        max_distance=max(DecoderSettings.max_distance, buckets),
        normalisation=normalisation,
        special_tokens=SPECIAL_TOKENS - 1,
    )


def _layers(file: PublishedFile) -> int:
    return max(1, len({match[1] for name in file.tensors if (match := _BLOCK.match(name))}))


def _names(layers: int) -> dict[str, str]:
    """Their names of all weights but the tables, by ours."""
    names = dict(OUTSIDE_LAYERS)
    for layer in range(layers):
        start = f"id_generator.decoder.block.{layer}."
        names |= {f"layers.{layer}.{ours}": f"{start}{theirs}" for ours, theirs in IN_LAYERS.items()}
    return names


def _plus(sizes: Sequence[int]) -> str:
    return " + ".join(f"{size:,}" for size in sizes)
