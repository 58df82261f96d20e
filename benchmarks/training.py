"""What the scripts that train models or decoders share; not a script itself."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from options import add_recipe

from genius.decode.onnx_decoder import TABLE, OnnxDecoder
from genius.train.decoder import DecoderStage, DecoderTraining
from genius.train.quantizer import QuantizerSettings
from genius.train.run import Recipe, read_recipe


def add_training(parser: argparse.ArgumentParser) -> None:
    """The options of scripts that train a model of their own."""
    add_recipe(parser)
    parser.add_argument("--model", type=Path, help="where the trained model is kept (default: in out/)")
    parser.add_argument("--seed", type=int, help="instead of the recipe's")
    parser.add_argument("--force", action="store_true", help="train a decoder even on broken codes")


def recipe_of(options: argparse.Namespace) -> Recipe:
    """The recipe of `add_training`'s options, with their seed if they have one."""
    recipe = read_recipe(options.recipe)
    return recipe if options.seed is None else dataclasses.replace(recipe, seed=options.seed)


def training_digest(
    arrays: Iterable[np.ndarray], seed: int, settings: QuantizerSettings | DecoderTraining
) -> str:
    """A short name for a training run: other arrays, another seed or another setting give another name."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    text = json.dumps([digest.hexdigest(), seed, dataclasses.asdict(settings)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def export_decoder(stage: DecoderStage, threads: int | None = None) -> OnnxDecoder:
    """A trained decoder as a search runs it, by default on all cores."""
    graphs, table = stage.export().graphs["fp32"], stage.decoder.state_dict()[TABLE].cpu().numpy()
    return OnnxDecoder(graphs, table, stage.decoder.sizes, threads)
