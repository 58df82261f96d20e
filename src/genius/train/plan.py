"""What training will do, and for how long: stages that are finished, stages to train, an estimate of the
time.

The estimate counts the multiply-adds that the sizes in a recipe require, at this machine's measured speed.
It is for a dry run, which has nothing better: a real run tells by its first steps (`pace`).
"""

from __future__ import annotations

import hashlib
import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import torch

from genius import storage
from genius.decode.fused_decoder import fusion_settings
from genius.decode.t5 import DecoderSettings
from genius.model import KIND
from genius.train.decoder import DecoderTraining
from genius.train.heads import EncoderSettings
from genius.train.quantizer import QuantizerSettings
from genius.train.recipe import Recipe, description
from genius.train.towers import TowerSettings

StageName = Literal["encoder", "quantizer", "identifiers", "decoder"]
_BASE = ("seed", "datasets", "without", "pools", "held_out", "towers", "encoder")
RECIPE_KEYS: dict[StageName, tuple[str, ...]] = {
    "encoder": _BASE,
    "quantizer": (*_BASE, "quantizer"),
    "identifiers": (*_BASE, "identifiers"),
    "decoder": (*_BASE, "identifiers", "quantizer", "decoder"),
}
"""The keys of a recipe that a stage depends on; `encoder` stands for the towers too."""

StageSettings = TowerSettings | EncoderSettings | QuantizerSettings | DecoderTraining


def plan(recipe: Recipe, out: Path) -> list[str]:
    """What training will do, in sentences."""
    finished = finished_stages(out, recipe)
    steps = []
    if "encoder" not in finished:
        if recipe.towers is not None and recipe.towers.frozen:
            steps.append(f"take {recipe.towers.source} as it is")
        elif recipe.towers is not None:
            steps.append(_stage_line("towers", recipe.towers))
        if recipe.encoder is not None:
            speed = "about 70 pictures and 600 texts a second on two cores"
            steps.append(f"encode what is not in the cache yet ({speed})")
            steps.append(_stage_line("encoder", recipe.encoder))
    if recipe.quantizer is not None and "quantizer" not in finished:
        steps.append(_stage_line("quantizer", recipe.quantizer))
    if recipe.identifiers != "codes" and "identifiers" not in finished:
        steps.append(f"give every item its {recipe.identifiers} identifier")
    if recipe.decoder is not None and "decoder" not in finished:
        steps.append(_stage_line("decoder", recipe.decoder))
    if recipe.decoder is not None and has_other_fusion(out, recipe):
        weight = recipe.decoder.geometric_fusion.weight
        steps.append(f"set the weight of geometry in the learned decoder's scores to {weight:g}")
    if not steps:
        return [f"{out} was trained by this recipe already: nothing to do."]
    numbered = [f"  {number}. {step}" for number, step in enumerate(steps, start=1)]
    return [f"Recipe {recipe.name}, seed {recipe.seed}{_chosen_datasets(recipe)}, to {out}:", *numbered]


def _stage_line(name: str, settings: StageSettings) -> str:
    steps, every = settings.loop.steps, settings.loop.validate_every
    rows = "rows" if isinstance(settings, DecoderTraining) else "queries"  # a decoder's may be items
    return f"stage {name}: {steps:,} steps of {settings.batch} {rows}, validated every {every}"


def _chosen_datasets(recipe: Recipe) -> str:
    """The data sets that a recipe takes, unless it takes all."""
    only, without = ", ".join(recipe.datasets), ", ".join(recipe.without)
    return f", on {only} alone" if only else f", without {without}" if without else ""


# --- what is finished


def finished_stages(out: Path, recipe: Recipe) -> list[StageName]:
    """The stages of the model at `out` that were trained as this recipe would train them."""
    if not storage.is_artifact(out):
        return []
    manifest = storage.read_manifest(out)
    if manifest.kind != KIND:
        return []
    trained, wanted = _training_settings(manifest.settings["recipe"]), _training_settings(description(recipe))
    return [
        stage
        for stage, keys in RECIPE_KEYS.items()
        if stage in manifest.settings["stages"] and all(trained.get(key) == wanted.get(key) for key in keys)
    ]


def _training_settings(described: dict[str, Any]) -> dict[str, Any]:
    """What a recipe says of training: all but for the decoder's fusion with geometry, which needs none."""
    decoder = described.get("decoder")
    if not decoder:
        return described
    return described | {"decoder": {key: decoder[key] for key in decoder if key != "geometric_fusion"}}


def has_other_fusion(out: Path, recipe: Recipe) -> bool:
    """Whether the decoder of the model at `out`, trained by this recipe, is fused with geometry otherwise."""
    if recipe.decoder is None or "decoder" not in finished_stages(out, recipe):
        return False
    return fusion_settings(storage.read_manifest(out).settings["decoder"]) != recipe.decoder.geometric_fusion


def work_folder(work: Path, recipe: Recipe, stage: StageName) -> Path:
    """The folder of a stage's checkpoints, named by its part of the recipe: a changed one starts afresh."""
    described = _training_settings(description(recipe))
    content = {key: described[key] for key in RECIPE_KEYS[stage] if key in described}
    text = json.dumps(content, sort_keys=True)
    return work / hashlib.sha256(text.encode()).hexdigest()[:12]


# --- how long it takes

BACKWARD = 3
"""Multiply-adds of a training step, relative to those of its forward pass."""
OVERHEAD = 2.5
"""How much longer a step takes than its multiply-adds would in one large matrix product: measured on decoders
with 2 and 6 layers."""
MATRIX_SIDE = 512
"""Of the matrix product that measures the machine's speed."""
RIVAL_SIZES = (256,) * 6
"""About what identifiers of rivals are, for an estimate."""
CLIP_WIDTH = 768
"""The width of most CLIPs' embeddings, which is close enough for an estimate."""


def duration(recipe: Recipe, out: Path) -> str:
    """How long training should take on the processor, in a sentence; empty if nothing is left for it or
    nothing can be estimated. (`cost` has what GPUs take.)"""
    finished, macs, quantizer = finished_stages(out, recipe), 0.0, recipe.quantizer
    width = recipe.encoder.heads.width if recipe.encoder else CLIP_WIDTH
    if recipe.encoder is not None and "encoder" not in finished:
        macs += encoder_macs(recipe.encoder)
    if quantizer is not None and quantizer.device == "cpu" and "quantizer" not in finished:
        macs += quantizer_macs(quantizer, width)
    width = (quantizer and quantizer.fusion.width) or width
    decoder = None if "decoder" in finished else recipe.decoder
    if decoder is not None and decoder.device == "cpu":
        # How many symbols identifiers of a rival have is known once items have them.
        sizes = quantizer.codebooks.all_sizes if quantizer is not None else RIVAL_SIZES
        macs += decoder_macs(decoder, width, sizes)
    if not macs:
        return ""
    minutes = max(1, round(training_seconds(macs, measure_speed()) / 60))
    uncounted = "tuning of towers, encoding and validation" if recipe.towers else "encoding and validation"
    return (
        f"About {minutes:,} minute{'' if minutes == 1 else 's'} on this machine's processor if it does "
        f"nothing else, by the sizes in the recipe and a timed matrix product; {uncounted} not counted. "
        "Training itself says how long it takes by its first steps."
    )


def measure_speed(rounds: int = 20) -> float:
    """Multiply-adds per second of a matrix product of medium size, on all cores.

    One thread is timed, by the time that it had a core for: what else the machine is doing does not count.
    """
    left, right = torch.ones(MATRIX_SIDE, MATRIX_SIDE), torch.ones(MATRIX_SIDE, MATRIX_SIDE)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        ends = [time.thread_time()]
        for _ in range(rounds):
            left @ right
            ends.append(time.thread_time())
    finally:
        torch.set_num_threads(threads)
    return threads * MATRIX_SIDE**3 / min(end - start for start, end in pairwise(ends) if end > start)


def training_seconds(macs: float, speed: float) -> float:
    """How long steps with this many multiply-adds take at a speed in multiply-adds per second."""
    return OVERHEAD * macs / speed


def encoder_macs(settings: EncoderSettings) -> float:
    """Multiply-adds of all steps of stage 0."""
    heads = settings.heads
    inputs = sum(int(part.partition(":")[2] or 0) for part in (*heads.image_parts, *heads.text_parts))
    per_row = heads.members * heads.hidden * (inputs + 3 * heads.hidden + 3 * heads.content)
    rows = 2 * settings.batch + settings.negatives
    contrast = settings.batch * (settings.batch + settings.negatives) * heads.width
    return BACKWARD * settings.loop.steps * (rows * per_row + contrast)


def quantizer_macs(settings: QuantizerSettings, width: int) -> float:
    """Multiply-adds of all steps of stage 1, for embeddings of this width, and of the k-means before them."""
    fusion, codes = settings.fusion, sum(settings.codebooks.all_sizes)
    out = fusion.width or width
    hidden = (3 if fusion.with_embedding else 2) * fusion.hidden
    per_row = hidden * (width + (fusion.share_hidden or fusion.hidden)) + settings.batch * out
    per_row += (fusion.mix_hidden or hidden) * (hidden + out)
    per_row += fusion.width * width
    if settings.distillation.weight:  # queries with all items of the batch, by each level
        per_row += settings.codebooks.levels * settings.batch * out // 2
    steps = settings.loop.steps * 2 * settings.batch * (BACKWARD * per_row + codes * out)
    starts = 2 if settings.restart else 1
    return steps + starts * settings.buffer * codes * out * settings.codebooks.iterations


def decoder_macs(settings: DecoderTraining, width: int, sizes: tuple[int, ...]) -> float:
    """Multiply-adds of all steps of stage 2, for vectors of this width and levels of these sizes."""
    return BACKWARD * settings.loop.steps * settings.batch * _forward_macs(settings.network, width, sizes)


def _forward_macs(network: DecoderSettings, width: int, sizes: tuple[int, ...]) -> float:
    """Multiply-adds of the decoder's forward pass for one query along one code."""
    inner, hidden = network.heads * network.head_width, network.prefix_hidden
    layer = network.width * (6 * inner + 2 * network.feed_forward)
    prefix_outputs = network.prefix * network.width
    prefix = hidden * (width + prefix_outputs) if hidden else width * prefix_outputs
    prefix += network.prefix * network.layers * 2 * network.width * inner
    scored = sum(sizes) if network.normalisation == "level" else len(sizes) * (1 + sum(sizes))
    return len(sizes) * network.layers * layer + scored * network.width + prefix
