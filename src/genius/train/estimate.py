"""How long training should take, roughly: the products that the sizes in a recipe ask for, at this machine's
pace."""

from __future__ import annotations

import time

import torch

from genius.decode.decoder import DecoderSettings
from genius.train.decoder import DecoderTraining
from genius.train.encoder import EncoderSettings
from genius.train.quantizer import QuantizerSettings

BACKWARD = 3
"""A step's products, by those of its forward pass."""
OVERHEAD = 2.5
"""How much longer a step takes than its products would in one large matrix product: measured on decoders of
2 and 6 layers."""
SIDE = 512


def pace(seconds: float = 0.2) -> float:
    """Products of two numbers a second, in a matrix product of middling size."""
    one, two = torch.ones(SIDE, SIDE), torch.ones(SIDE, SIDE)
    one @ two  # (the first one starts threads)
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        one @ two
        count += 1
    return count * SIDE**3 / (time.perf_counter() - started)


def seconds(products: float, pace: float) -> float:
    """How long steps with so many products take."""
    return OVERHEAD * products / pace


def encoder_products(settings: EncoderSettings) -> float:
    """Of all steps of stage 0."""
    heads = settings.heads
    parts = sum(int(part.partition(":")[2] or 0) for part in (*heads.image_parts, *heads.text_parts))
    row = heads.members * heads.hidden * (parts + 3 * heads.hidden + 3 * heads.content)
    rows = 2 * settings.batch + settings.negatives
    contrast = settings.batch * (settings.batch + settings.negatives) * heads.width
    return BACKWARD * settings.loop.steps * (rows * row + contrast)


def quantizer_products(settings: QuantizerSettings, width: int) -> float:
    """Of all steps of stage 1, for embeddings of this width, and of k-means at its start."""
    fusion, codes = settings.fusion, sum(settings.codebooks.all_sizes)
    seen = (3 if fusion.joined else 2) * fusion.hidden
    row = seen * (2 * width + seen + fusion.hidden) + settings.batch * width
    steps = settings.loop.steps * 2 * settings.batch * (BACKWARD * row + codes * width)
    starts = 2 if settings.restart else 1
    return steps + starts * settings.buffer * codes * width * settings.codebooks.iterations


def decoder_products(settings: DecoderTraining, width: int, sizes: tuple[int, ...]) -> float:
    """Of all steps of stage 2, for vectors of this width and codes of these levels."""
    return BACKWARD * settings.loop.steps * settings.batch * _query_products(settings.network, width, sizes)


def _query_products(network: DecoderSettings, width: int, sizes: tuple[int, ...]) -> float:
    """Of one query's forward pass along one code."""
    inner, hidden = network.heads * network.head_width, network.prefix_hidden
    layer = network.width * (6 * inner + 2 * network.feed_forward)
    out = network.prefix * network.width
    prefix = hidden * (width + out) if hidden else width * out
    prefix += network.prefix * network.layers * 2 * network.width * inner
    return len(sizes) * network.layers * layer + sum(sizes) * network.width + prefix
