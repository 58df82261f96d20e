from __future__ import annotations

import pytest

pytest.importorskip("torch")
import torch

from genius.decode.t5 import DecoderSettings, T5Decoder
from genius.quantize.codebooks import CodebookSettings
from genius.quantize.fusion import Fusion, FusionSettings
from genius.train.decoder import DecoderLoopSettings, DecoderTraining
from genius.train.heads import EncoderSettings
from genius.train.loop import LoopSettings
from genius.train.plan import (
    decoder_macs,
    encoder_macs,
    measure_speed,
    quantizer_macs,
    training_seconds,
)
from genius.train.quantizer import QuantizerLoopSettings, QuantizerSettings


def matrices(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters() if p.ndim == 2)


@pytest.mark.parametrize("hidden", [0, 20])
def test_a_decoder_s_multiply_adds_are_those_of_its_matrices(hidden: int) -> None:
    """With one level, one layer and one vector of prefix, every matrix is used once per query."""
    network = DecoderSettings(layers=1, prefix=1, prefix_hidden=hidden, start_from_codebooks=False)
    settings = DecoderTraining(batch=4, network=network, loop=DecoderLoopSettings(steps=5))
    made = T5Decoder(64, (100,), network)
    looked_up = made.relative_attention_bias.weight.numel() + network.width  # and the start token
    assert decoder_macs(settings, 64, (100,)) == 3 * 5 * 4 * (matrices(made) - looked_up)


def test_twice_the_steps_take_twice_as_long() -> None:
    heads = [encoder_macs(EncoderSettings(loop=LoopSettings(steps=steps))) for steps in (10, 20)]
    loops = [DecoderLoopSettings(steps=steps) for steps in (10, 20)]
    decoder = [decoder_macs(DecoderTraining(loop=loop), 512, (3, 1024)) for loop in loops]
    assert heads[1] == 2 * heads[0] > 0
    assert decoder[1] == 2 * decoder[0] > 0


@pytest.mark.parametrize("width", [0, 10])
def test_a_quantizer_s_multiply_adds_are_those_of_its_fusion_its_codes_and_k_means(width: int) -> None:
    fusion = FusionSettings(hidden=16, width=width)
    settings = QuantizerSettings(
        batch=8,
        buffer=100,
        fusion=fusion,
        codebooks=CodebookSettings(levels=2, size=32, iterations=3),
        loop=QuantizerLoopSettings(steps=7),
    )
    codes = (3 + 64) * (width or 24)
    # The last of λ's matrices is nearly nothing.
    row = matrices(Fusion(24, fusion)) - fusion.hidden + 8 * (width or 24)
    assert quantizer_macs(settings, 24) == 7 * 16 * (3 * row + codes) + 100 * codes * 3


def test_time_is_multiply_adds_by_speed() -> None:
    assert training_seconds(8e9, 1e9) == pytest.approx(20)
    assert 1e6 < measure_speed(2) < 1e15  # per second, of any machine
