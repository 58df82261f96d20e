"""Tiny files of the published layout with random numbers, of sizes that are unlike the authors'."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from genius.decode.t5 import DecoderSettings
from genius.published.decoder_file import TABLES, decoder_shapes
from genius.published.quantizer_file import QuantizerSizes

QUANTIZER = QuantizerSizes(width=20, projected=9, mixed=14, shared=11, codes=(3, 8, 6, 8))
DECODER = DecoderSettings(
    layers=3,
    width=24,
    heads=2,
    head_width=5,
    feed_forward=30,
    prefix=4,
    buckets=8,
    start_from_codebooks=False,
)

Tensors = dict[str, Any]


def quantizer_tensors(sizes: QuantizerSizes = QUANTIZER, seed: int = 0) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    tensors = {name: torch.randn(shape, generator=generator) for name, shape in sizes.shapes().items()}
    for name in tensors:
        if name.endswith("initted"):
            tensors[name] = torch.ones(1)
        elif name.startswith("vq."):
            tensors[name] = tensors[name.replace("vq.", "residual_rq.layers.0.")]
    return tensors


def decoder_tensors(quantizer: Tensors, sizes: QuantizerSizes = QUANTIZER, seed: int = 1) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    shapes = decoder_shapes(DECODER, sizes.width, sizes.codes)
    tensors = {name: 0.3 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    tensors |= dict.fromkeys(TABLES, tensors[TABLES[0]])
    return {**{f"quantizer.{name}": tensor for name, tensor in quantizer.items()}, **tensors}


def save(tensors: Tensors, path: Path, **more: Any) -> Path:
    """As the authors' code saves: weights beside what their training needs."""
    torch.save({"model": tensors, "optimizer": {"state": {}}, "epoch": 5, "scaler": {}, **more}, path)
    return path


def save_both(folder: Path) -> tuple[Path, Path]:
    """The two files of one model."""
    quantizer = quantizer_tensors()
    return save(quantizer, folder / "rq.pth"), save(decoder_tensors(quantizer), folder / "t5.pth")
