"""How long training should take, roughly: the products that the sizes in a recipe ask for, at this machine's
pace."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from genius import storage
from genius.decode.t5 import DecoderSettings
from genius.errors import InputError
from genius.model import KIND
from genius.train.decoder import DecoderTraining
from genius.train.heads import EncoderSettings
from genius.train.quantizer import QuantizerSettings
from genius.train.recipe import parse, read_toml
from genius.train.towers import TowerSettings

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
    seen = (3 if fusion.with_embedding else 2) * fusion.hidden
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


_PACKAGE = Path(__file__).parents[1]
_SHIPPED = (_PACKAGE / "recipes", _PACKAGE.parents[1] / "recipes")
"""Where recipes are: inside an installed package, or beside the sources."""
CLIP_WIDTH = 768
"""Of most CLIPs' embeddings; for an estimate that is near enough."""


@dataclass(frozen=True)
class Recipe:
    """How a model is trained: a name, a seed, and the settings of each stage."""

    name: str
    seed: int = 0
    datasets: tuple[str, ...] = ()
    """The data sets of the tree that are trained on; by default all."""
    without: tuple[str, ...] = ()
    """Data sets that are left out of training, as in the paper's zero-shot experiment."""
    towers: TowerSettings | None = None
    """Fine-tuning of a CLIP before all else; by default its towers stay as they are."""
    encoder: EncoderSettings | None = None
    """Heads over the towers: trained unless the recipe has [towers] and no [encoder]."""
    quantizer: QuantizerSettings | None = None
    """Fusion and codebooks; without them a model can do dense search only."""
    decoder: DecoderTraining | None = None
    """The learned decoder; without it a model searches by geometry."""

    def __post_init__(self) -> None:
        if self.datasets and self.without:
            raise InputError("say which data sets to train on, or which to train without, not both")
        if self.decoder is not None and self.quantizer is None:
            raise InputError("a decoder learns the codes of a quantizer: add a table [quantizer]")
        if self.towers is None:
            if self.encoder is None:
                object.__setattr__(self, "encoder", EncoderSettings())
        elif self.encoder is not None:
            _check_both(self.towers, self.encoder)


def _check_both(towers: TowerSettings, encoder: EncoderSettings) -> None:
    if towers.fusion_kind == "tokens":
        raise InputError(
            'with towers.fusion_kind = "tokens" there are no features for heads: leave [encoder] out, '
            'or use "score"'
        )
    if encoder.towers != "clip" or encoder.source:
        raise InputError(
            'heads stand on the fine-tuned towers: say towers = "clip" in [encoder], and no source'
        )


def read_recipe(path: Path | str) -> Recipe:
    """The recipe in a TOML file, or one that ships with genius by its name (`demo`).

    Raises InputError for what is no recipe, naming the key.
    """
    file = Path(path)
    if not file.exists() and file.suffix == "" and file.name == str(path):
        found = [folder / f"{path}.toml" for folder in _SHIPPED if (folder / f"{path}.toml").is_file()]
        file = found[0] if found else file
    return parse(Recipe, read_toml(file), path=file)


def plan(recipe: Recipe, out: Path) -> list[str]:
    """What training will do, in sentences."""
    done = done_stages(out, recipe)
    steps = []
    if "encoder" not in done:
        if recipe.towers is not None:
            steps.append(_described("towers", recipe.towers))
        if recipe.encoder is not None:
            speed = "about 70 pictures and 600 texts a second on two cores"
            steps.append(f"encode what is not in the cache yet ({speed})")
            steps.append(_described("encoder", recipe.encoder))
    if recipe.quantizer is not None and "quantizer" not in done:
        steps.append(_described("quantizer", recipe.quantizer))
    if recipe.decoder is not None and "decoder" not in done:
        steps.append(_described("decoder", recipe.decoder))
    if not steps:
        return [f"{out} was trained by this recipe already: nothing to do."]
    numbered = [f"  {number}. {step}" for number, step in enumerate(steps, start=1)]
    return [f"Recipe {recipe.name}, seed {recipe.seed}{_taken(recipe)}, to {out}:", *numbered]


def _taken(recipe: Recipe) -> str:
    """Which data sets a recipe takes, unless it takes all."""
    only, without = ", ".join(recipe.datasets), ", ".join(recipe.without)
    return f", on {only} alone" if only else f", without {without}" if without else ""


def duration(recipe: Recipe, out: Path) -> str:
    """How long that should take, in a sentence; nothing if there is nothing to do, or if it can't be told."""
    done, products, coded = done_stages(out, recipe), 0.0, recipe.quantizer
    width = recipe.encoder.heads.width if recipe.encoder else CLIP_WIDTH
    if recipe.encoder is not None and "encoder" not in done:
        products += encoder_products(recipe.encoder)
    if coded is not None and "quantizer" not in done:
        products += quantizer_products(coded, width)
    if coded is not None and recipe.decoder is not None and "decoder" not in done:
        products += decoder_products(recipe.decoder, width, coded.codebooks.all_sizes)
    if not products:
        return ""
    minutes = max(1, round(seconds(products, pace()) / 60))
    long = f"{minutes:,} minute{'' if minutes == 1 else 's'}"
    more = "tuning of towers, encoding and validation" if recipe.towers else "encoding and validation"
    return (
        f"About {long} on this machine's processor, by the sizes in the recipe and a timed matrix product; "
        f"{more} not counted."
    )


StageSettings = TowerSettings | EncoderSettings | QuantizerSettings | DecoderTraining


def _described(name: str, settings: StageSettings) -> str:
    steps, every = settings.loop.steps, settings.loop.validate_every
    rows = "rows" if isinstance(settings, DecoderTraining) else "queries"  # some may be items
    return f"stage {name}: {steps:,} steps of {settings.batch} {rows}, validated every {every}"


BASE = ("seed", "datasets", "without", "towers", "encoder")
CODED = (*BASE, "quantizer")
DECODED = (*CODED, "decoder")
"""What of a recipe decides the outcome of a stage."""


def done_stages(out: Path, recipe: Recipe) -> list[str]:
    """The stages of the model at `out` that were made as this recipe would make them."""
    if not storage.is_artifact(out):
        return []
    manifest = storage.read_manifest(out)
    if manifest.kind != KIND:
        return []
    made, wanted = manifest.settings["recipe"], description(recipe)

    def as_wanted(keys: tuple[str, ...]) -> bool:
        return all(made.get(key) == wanted.get(key) for key in keys)

    return [
        stage
        for stage, keys in (("encoder", BASE), ("quantizer", CODED), ("decoder", DECODED))
        if stage in manifest.settings["stages"] and as_wanted(keys)
    ]


def work_folder(work: Path, recipe: Recipe, keys: tuple[str, ...]) -> Path:
    """Where a stage keeps its state: a folder for each recipe, so that a changed one starts anew."""
    described = description(recipe)
    text = json.dumps({key: described[key] for key in keys if key in described}, sort_keys=True)
    return work / hashlib.sha256(text.encode()).hexdigest()[:12]


def description(recipe: Recipe) -> dict[str, Any]:
    """The recipe as JSON keeps it: lists, no tuples, and no word of data sets if it takes all."""
    values = dataclasses.asdict(recipe)
    for name in ("datasets", "without"):
        if not values[name]:
            del values[name]
    return _plain(values)  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
