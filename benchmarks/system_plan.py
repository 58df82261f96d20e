"""What training the rows of `systems.toml` takes: stages, what rows share, hours; not a script itself.

A stage that has begun is measured: its checkpoint says how long its steps take. Of others the multiply-adds
are counted; how long these take on an idle machine is known from a timed step of a decoder on one thread, by
the processor's time, so that other work does not count.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from genius import storage
from genius.decode.t5 import DecoderSettings, T5Decoder
from genius.train.decoder import DecoderTraining
from genius.train.plan import (
    CLIP_WIDTH,
    RIVAL_SIZES,
    StageName,
    decoder_macs,
    encoder_macs,
    quantizer_macs,
    work_folder,
)
from genius.train.recipe import Recipe

STAGES: tuple[StageName, ...] = ("encoder", "quantizer", "decoder")
TIMED_STEPS = 2


@dataclass(frozen=True)
class StageRun:
    """A stage of a recipe with its checkpoints in `folder`, which recipes that train it alike share."""

    name: StageName
    recipe: Recipe
    folder: Path

    @property
    def steps(self) -> int:
        """How many the recipe has."""
        return self._settings.loop.steps  # type: ignore[no-any-return]

    @property
    def _settings(self) -> Any:
        return getattr(self.recipe, self.name)

    @property
    def state(self) -> Mapping[str, Any]:
        """How far it is: steps and seconds, if it has begun."""
        last = self.folder / "last"
        return storage.read_manifest(last).settings if storage.is_artifact(last) else {}

    @property
    def seconds(self) -> float:
        """What it has taken so far, validations included."""
        return float(self.state.get("seconds", 0.0))

    @property
    def is_measured(self) -> bool:
        """Whether its own steps say how long they take."""
        return int(self.state.get("step", 0)) > 0

    def seconds_left(self) -> float:
        """What it will still take."""
        done = int(self.state.get("step", 0))
        if done >= self.steps:
            return 0.0
        each = self.seconds / done if done else self._estimated_step()
        return (self.steps - done) * each

    def _estimated_step(self) -> float:
        recipe = self.recipe
        width = recipe.encoder.heads.width if recipe.encoder else CLIP_WIDTH
        if recipe.encoder is not None and self.name == "encoder":
            return encoder_macs(recipe.encoder) / self.steps * seconds_per_mac()
        if recipe.quantizer is not None and self.name == "quantizer":
            return quantizer_macs(recipe.quantizer, width) / self.steps * seconds_per_mac()
        assert recipe.decoder is not None
        width = (recipe.quantizer and recipe.quantizer.fusion.width) or width
        sizes = recipe.quantizer.codebooks.all_sizes if recipe.quantizer else RIVAL_SIZES
        seconds = seconds_per_mac(recipe.decoder.precision)
        return decoder_macs(recipe.decoder, width, sizes) / self.steps * seconds


def stage_runs(recipe: Recipe, work: Path) -> Iterator[StageRun]:
    """The stages that a recipe trains by steps."""
    for name in STAGES:
        if getattr(recipe, name) is not None:
            yield StageRun(name, recipe, work_folder(work, recipe, name) / name)


@cache
def seconds_per_mac(precision: str = "float32") -> float:
    """Of a decoder's training on all cores: the faster of two steps, after one that is not counted."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # threads that wait for each other would count as busy
    try:
        return _timed_step(precision) / threads
    finally:
        torch.set_num_threads(threads)


def _timed_step(precision: str) -> float:
    """The seconds of a multiply-add in a step of a decoder, by the processor's time."""
    width, sizes = 512, (1024,) * 8
    network = DecoderSettings(layers=3, width=256, heads=4, head_width=64, feed_forward=1024, prefix=30)
    settings = DecoderTraining(network=replace(network, start_from_codebooks=False))
    decoder = T5Decoder(width, sizes, settings.network)
    optimizer = torch.optim.AdamW(decoder.parameters())
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(settings.batch, width, generator=generator)
    codes = torch.randint(min(sizes), (settings.batch, len(sizes)), generator=generator)
    times = []
    for _ in range(1 + TIMED_STEPS):
        start = time.process_time()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            logits = decoder(vectors, codes)
        levels = zip(logits, decoder.targets(codes).T, strict=True)
        losses = [functional.cross_entropy(scores.float(), targets) for scores, targets in levels]
        torch.stack(losses).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        times.append(time.process_time() - start)
    return min(times[1:]) * settings.loop.steps / decoder_macs(settings, width, sizes)


def decoder_steps(decoder: DecoderTraining | None) -> int | None:
    """How many a recipe's decoder is trained for."""
    return None if decoder is None else decoder.loop.steps
