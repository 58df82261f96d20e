"""What training would cost on a named GPU: steps, memory, and hours by the floating-point operations.

Operations are counted from the sizes in a recipe, two for each multiply-add. Hours assume that a GPU reaches
`UTILISATION` of the rate that its data sheet promises: with that, tuning CLIP as UniIR did comes out near the
91 hours on four RTX 3090 that the paper reports. Small networks reach less. Memory is weights, gradients,
AdamW's two moments and the average of weights, and what a step keeps for its backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import torch
from torch import nn

from genius.decode.t5 import T5Decoder
from genius.errors import InputError
from genius.quantize.fusion import Fusion
from genius.train.decoder import DecoderTraining
from genius.train.plan import (
    BACKWARD,
    CLIP_WIDTH,
    RIVAL_SIZES,
    decoder_macs,
    finished_stages,
    quantizer_macs,
)
from genius.train.quantizer import QuantizerSettings
from genius.train.recipe import Recipe
from genius.train.towers import TowerSettings

UTILISATION = 0.3
"""The share of a GPU's rate that training reaches."""
TRAINED_BYTES = 20
"""Of a trained number: itself, its gradient, AdamW's two moments and the moving average, in float32."""
BUFFER_BYTES = 8
"""Of a number that is not trained by gradients: itself, and its moving average."""


@dataclass(frozen=True)
class Gpu:
    """A GPU by its data sheet: memory in GB, and dense matrix products in TFLOP/s."""

    name: str
    memory: int
    float32: float
    bfloat16: float


GPUS = (
    Gpu("RTX 3090", 24, 35.6, 71.0),
    Gpu("RTX 4090", 24, 82.6, 165.2),
    Gpu("L40S", 48, 91.6, 362.0),
    Gpu("A100", 80, 19.5, 312.0),
    Gpu("H100", 80, 67.0, 989.0),
)


@dataclass(frozen=True)
class TransformerSizes:
    """One of a CLIP's towers."""

    layers: int
    width: int
    feed_forward: int
    tokens: int
    heads: int
    inputs: int
    """Numbers that a token is projected from; 0 where it is looked up."""

    @property
    def macs(self) -> float:
        """Multiply-adds of a forward pass over one image or text."""
        projections = 4 * self.width**2 + 2 * self.width * self.feed_forward
        attention = 2 * self.tokens * self.width
        return self.tokens * (self.layers * (projections + attention) + self.inputs * self.width)

    @property
    def activations(self) -> float:
        """Bytes that one image or text keeps for the backward pass, in 16 bits (Korthikanti et al., 2022)."""
        by_width = 34 * self.width + 5 * self.heads * self.tokens
        return float(self.layers * self.tokens * by_width)


@dataclass(frozen=True)
class ClipShape:
    """Both towers of a CLIP."""

    image: TransformerSizes
    text: TransformerSizes
    width: int
    parameters: float
    assumed: bool = False
    """Whether these are ViT-L/14's, because the model is not here to look at."""


VIT_L_14 = ClipShape(
    TransformerSizes(24, 1024, 4096, 257, 16, 3 * 14 * 14),
    TransformerSizes(12, 768, 3072, 77, 12, 0),
    CLIP_WIDTH,
    427.6e6,
    assumed=True,
)


def clip_sizes(source: str) -> ClipShape:
    """The sizes of the CLIP in a folder; of ViT-L/14 if it is not here."""
    file = Path(source) / "config.json"
    if not file.is_file():
        return VIT_L_14
    config = orjson.loads(file.read_bytes())
    image, text = config["vision_config"], config["text_config"]
    patches = (image["image_size"] // image["patch_size"]) ** 2
    image_tower = _tower(image, patches + 1, 3 * image["patch_size"] ** 2)
    text_tower = _tower(text, text.get("max_position_embeddings", 77), 0)
    width = int(config.get("projection_dim", CLIP_WIDTH))
    looked_up = (text.get("vocab_size", 49408) + text_tower.tokens) * text_tower.width
    return ClipShape(image_tower, text_tower, width, _weights(image_tower) + _weights(text_tower) + looked_up)


def _tower(config: dict[str, Any], tokens: int, inputs: int) -> TransformerSizes:
    return TransformerSizes(
        layers=config["num_hidden_layers"],
        width=config["hidden_size"],
        feed_forward=config["intermediate_size"],
        tokens=tokens,
        heads=config["num_attention_heads"],
        inputs=inputs,
    )


def _weights(tower: TransformerSizes) -> float:
    layer = 4 * tower.width**2 + 2 * tower.width * tower.feed_forward
    return tower.layers * layer + (tower.inputs + tower.tokens) * tower.width


# --- the stages


@dataclass(frozen=True)
class StageCost:
    """What one stage takes, whichever GPU it runs on."""

    name: str
    steps: int
    flops: float
    """Of all steps."""
    memory: float
    """Bytes, if all runs on one GPU."""
    precision: str

    def hours(self, gpu: Gpu) -> float:
        """On one GPU."""
        rate = gpu.bfloat16 if self.precision == "bfloat16" else gpu.float32
        return self.flops / (UTILISATION * 1e12 * rate) / 3600


def stage_costs(recipe: Recipe, out: Path) -> Iterator[StageCost]:
    """The cost of each stage that is to be trained and has a device; heads are trained on the processor."""
    finished, quantizer, decoder = finished_stages(out, recipe), recipe.quantizer, recipe.decoder
    width = recipe.encoder.heads.width if recipe.encoder else CLIP_WIDTH
    if recipe.towers is not None:
        sizes = clip_sizes(recipe.towers.source)
        width = recipe.encoder.heads.width if recipe.encoder else sizes.width
        if not recipe.towers.frozen and "encoder" not in finished:
            yield tower_cost(recipe.towers, sizes)
    if quantizer is not None and "quantizer" not in finished:
        yield quantizer_cost(quantizer, width)
    if decoder is not None and "decoder" not in finished:
        code_sizes = RIVAL_SIZES if quantizer is None else quantizer.codebooks.all_sizes
        yield decoder_cost(decoder, (quantizer and quantizer.fusion.width) or width, code_sizes)


def tower_cost(settings: TowerSettings, sizes: ClipShape) -> StageCost:
    """Of tuning a CLIP, if every query and every item has an image and a text."""
    records = 2 * settings.batch * settings.loop.accumulate * settings.loop.steps
    macs = BACKWARD * records * (sizes.image.macs + sizes.text.macs)
    factor = 1 if settings.precision == "bfloat16" else 2
    kept = factor * 2 * settings.batch * (sizes.image.activations + sizes.text.activations)
    memory = TRAINED_BYTES * sizes.parameters + kept
    return StageCost("towers", settings.loop.steps, 2 * macs, memory, settings.precision)


def quantizer_cost(settings: QuantizerSettings, width: int) -> StageCost:
    """Of stage 1, for embeddings of this width."""
    with torch.device("meta"):
        fusion = Fusion(width, settings.fusion)
    rows, candidates = 2 * settings.batch + settings.others, settings.batch + settings.others
    inner = (3 if settings.fusion.with_embedding else 2) * settings.fusion.hidden
    codes = sum(settings.codebooks.all_sizes) * fusion.out_width
    a_row = 3 * inner + settings.fusion.hidden + (6 + len(settings.codebooks.all_sizes)) * width
    contrast = 6 * settings.batch * candidates  # both ways: products, their softmax, its gradient
    if settings.distillation.weight:  # by level: sums of code vectors, and scores
        contrast += settings.codebooks.levels * candidates * (2 * fusion.out_width + 2 * settings.batch)
    memory = TRAINED_BYTES * _count(fusion) + 2 * BUFFER_BYTES * codes + 4 * (rows * a_row + contrast)
    flops = 2 * quantizer_macs(settings, width)
    return StageCost("quantizer", settings.loop.steps, flops, memory, settings.precision)


def decoder_cost(settings: DecoderTraining, width: int, sizes: tuple[int, ...]) -> StageCost:
    """Of stage 2, for vectors of this width and levels of these sizes."""
    with torch.device("meta"):
        network = T5Decoder(width, sizes, replace(settings.network, start_from_codebooks=False))
    described = settings.network
    tower = TransformerSizes(
        described.layers, described.width, described.feed_forward, len(sizes), described.heads, 0
    )
    memory_tokens = described.layers * described.prefix * 4 * described.width * 4
    factor = 1 if settings.precision == "bfloat16" else 2
    # Cross-attention is half as much again; logits, their softmax and its gradient are in float32.
    a_row = factor * 1.5 * tower.activations + memory_tokens + 3 * 4 * sum(sizes)
    memory = TRAINED_BYTES * _count(network) + settings.batch * a_row
    flops = 2 * decoder_macs(settings, width, sizes)
    return StageCost("decoder", settings.loop.steps, flops, memory, settings.precision)


def _count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


# --- in sentences


def find_gpu(name: str) -> Gpu:
    """The GPU of a name, however it is spelled. Raises InputError for one that is not known."""
    plain = name.lower().replace(" ", "").replace("-", "")
    for gpu in GPUS:
        if gpu.name.lower().replace(" ", "") == plain:
            return gpu
    raise InputError(f"there is no data sheet of {name!r} here; there are: {', '.join(g.name for g in GPUS)}")


def cost_lines(recipe: Recipe, out: Path, gpu: Gpu) -> list[str]:
    """What each stage takes on one GPU, in sentences; none if nothing is left to train."""
    costs = list(stage_costs(recipe, out))
    lines = []
    for cost in costs:
        too_much = cost.memory > 1e9 * gpu.memory
        fits = f", more than its {gpu.memory}: take several" if too_much else ""
        lines.append(
            f"  stage {cost.name}: {cost.steps:,} steps, {_number(cost.flops / 1e15)} PFLOP in "
            f"{cost.precision}, about {_number(cost.memory / 1e9)} GB{fits}, {_number(cost.hours(gpu))} hours"
        )
    if not lines:
        return []
    total = _number(sum(cost.hours(gpu) for cost in costs))
    head = (
        f"On one {gpu.name} ({gpu.memory} GB, {gpu.float32:g} TFLOP/s in float32, {gpu.bfloat16:g} in "
        f"bfloat16, of which {UTILISATION:.0%} are assumed), {total} hours:"
    )
    return [head, *lines, *_encoding_lines(recipe, gpu)]


def _encoding_lines(recipe: Recipe, gpu: Gpu) -> list[str]:
    if recipe.towers is None:
        return ["  Encoding and validation are not counted."]
    sizes = clip_sizes(recipe.towers.source)
    million = 2 * sizes.image.macs * 1e6 / (UTILISATION * 1e12 * gpu.float32) / 3600
    model = "a CLIP ViT-L/14, which is assumed," if sizes.assumed else "this CLIP"
    return [
        f"  Encoding a million images by {model} takes {_number(million)} hours in float32; that and "
        "validation are not counted."
    ]


def _number(value: float) -> str:
    """With as many digits as say something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}" if value >= 1 else f"{value:,.2f}"
