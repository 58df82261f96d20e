"""`genius train`: all stages of a recipe in order, those that are done already left alone."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genius import storage
from genius.data.mbeir import Tree
from genius.doctor.examine import examine
from genius.encode.corpus import read_pool, read_prompts, read_queries
from genius.encode.loaders import encoder_loader
from genius.encode.pipeline import tree_features
from genius.errors import InputError
from genius.evaluate.coded import Coded, code
from genius.evaluate.embedded import Embedded, embed
from genius.evaluate.run import corpus_source
from genius.model import KIND, Model
from genius.train import distributed
from genius.train.decoder import DecoderStage, DecoderTraining
from genius.train.encoder import EncoderSettings, EncoderStage
from genius.train.loop import train
from genius.train.model_writer import write_decoder, write_dense_model, write_quantizer
from genius.train.quantizer import QuantizerSettings, QuantizerStage
from genius.train.recipe import parse, read_toml
from genius.train.towers import TowerSettings
from genius.train.tuning import tune_towers

log = logging.getLogger(__name__)

_PACKAGE = Path(__file__).parents[1]
_SHIPPED = (_PACKAGE / "recipes", _PACKAGE.parents[1] / "recipes")
"""Where recipes are: inside an installed package, or beside the sources."""


EXAMINED = 100
"""Validation queries of each task that the doctor looks at before a decoder is trained."""


@dataclass(frozen=True)
class Recipe:
    """How a model is trained: a name, a seed, and the settings of each stage."""

    name: str
    seed: int = 0
    towers: TowerSettings | None = None
    """Fine-tuning of a CLIP before all else; by default its towers stay as they are."""
    encoder: EncoderSettings | None = None
    """Heads over the towers: trained unless the recipe has [towers] and no [encoder]."""
    quantizer: QuantizerSettings | None = None
    """Fusion and codebooks; without them a model can do dense search only."""
    decoder: DecoderTraining | None = None
    """The learned decoder; without it a model searches by geometry."""

    def __post_init__(self) -> None:
        if self.decoder is not None and self.quantizer is None:
            raise InputError("a decoder learns the codes of a quantizer: add a table [quantizer]")
        if self.towers is None:
            if self.encoder is None:
                object.__setattr__(self, "encoder", EncoderSettings())
        elif self.encoder is not None:
            _check_both(self.towers, self.encoder)


def _check_both(towers: TowerSettings, encoder: EncoderSettings) -> None:
    if towers.joining == "tokens":
        raise InputError(
            'with towers.joining = "tokens" there are no features for heads: leave [encoder] out, '
            'or join by "score"'
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


def train_model(
    recipe: Recipe, tree: Tree, out: Path, *, cache: Path, work: Path | None = None, force: bool = False
) -> Model:
    """Train what is missing of the model at `out` and open it.

    Beside it, in `work` (by default `out` with `-training` behind its name), is what a stopped run goes on
    from, and the log of every step. Raises InputError where a decoder would be trained on a quantizer that
    the doctor calls broken, unless `force` says to do so.
    """
    distributed.start()
    work = work or out.with_name(f"{out.name}-training")
    done = _done(out, recipe)
    if "encoder" not in done:
        _train_base(recipe, tree, out, _work(work, recipe, _BASE), cache)
    if recipe.quantizer is not None and "quantizer" not in done:
        _train_quantizer(recipe, recipe.quantizer, tree, out, _work(work, recipe, _CODED), cache)
    if recipe.decoder is not None and "decoder" not in _done(out, recipe):
        if not force:
            _refuse_broken(out, tree, cache)
        _train_decoder(recipe, recipe.decoder, tree, out, _work(work, recipe, _DECODED), cache)
    return Model.open(out)


def plan(recipe: Recipe, out: Path) -> list[str]:
    """What training will do, in sentences."""
    done = _done(out, recipe)
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
    return [f"Recipe {recipe.name}, seed {recipe.seed}, to {out}:", *numbered]


StageSettings = TowerSettings | EncoderSettings | QuantizerSettings | DecoderTraining


def _described(name: str, settings: StageSettings) -> str:
    steps, every = settings.loop.steps, settings.loop.validate_every
    return f"stage {name}: {steps:,} steps of {settings.batch} queries, validated every {every}"


_BASE = ("seed", "towers", "encoder")
_CODED = (*_BASE, "quantizer")
_DECODED = (*_CODED, "decoder")
"""What of a recipe decides the outcome of a stage."""


def _done(out: Path, recipe: Recipe) -> list[str]:
    """The stages of the model at `out` that were made as this recipe would make them."""
    if not storage.is_artifact(out):
        return []
    manifest = storage.read_manifest(out)
    if manifest.kind != KIND:
        return []
    made, wanted = manifest.settings["recipe"], description(recipe)

    def as_wanted(keys: tuple[str, ...]) -> bool:
        return all(made.get(key) == wanted[key] for key in keys)

    return [
        stage
        for stage, keys in (("encoder", _BASE), ("quantizer", _CODED), ("decoder", _DECODED))
        if stage in manifest.settings["stages"] and as_wanted(keys)
    ]


def _work(work: Path, recipe: Recipe, keys: tuple[str, ...]) -> Path:
    """Where a stage keeps its state: a folder for each recipe, so that a changed one starts anew."""
    described = description(recipe)
    text = json.dumps({key: described[key] for key in keys}, sort_keys=True)
    return work / hashlib.sha256(text.encode()).hexdigest()[:12]


def description(recipe: Recipe) -> dict[str, Any]:
    """The recipe as JSON keeps it: lists, no tuples."""
    return _plain(dataclasses.asdict(recipe))  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _train_base(recipe: Recipe, tree: Tree, out: Path, work: Path, cache: Path) -> None:
    """What a model embeds with: tuned towers, heads, or both."""
    tuned = tune_towers(recipe.towers, tree, work, seed=recipe.seed) if recipe.towers else None
    if recipe.encoder is not None:
        _train_encoder(recipe, recipe.encoder, tree, out, work, cache, tuned.folder if tuned else None)
    elif tuned is not None:
        tuned.write_model(out, description(recipe))


def _train_encoder(
    recipe: Recipe,
    settings: EncoderSettings,
    tree: Tree,
    out: Path,
    work: Path,
    cache: Path,
    tuned: Path | None,
) -> None:
    """Stage 0: encode the tree (by a tuned CLIP, if there is one), then train heads over its features."""
    loader, towers = encoder_loader(settings.towers, settings.source or str(tuned or ""))
    encoder = loader(1)
    features, report = tree_features(tree, loader, cache)
    log.info("Encoded %d pictures and texts, knew %d already.", report.encoded, report.known)
    for error in report.failures[:5]:
        log.warning("left out: %s", error)
    pool = read_pool(tree, features)
    tasks = read_queries(tree, features, pool, "train"), read_queries(tree, features, pool, "val")
    prompts = read_prompts(tree, features)
    stage = EncoderStage(settings, encoder, features, pool, tasks, prompts, seed=recipe.seed)
    scores = train(stage, settings.loop, work / "encoder", seed=recipe.seed)
    _report("encoder", scores)
    if distributed.rank() == 0:
        write_dense_model(
            out, description(recipe), settings, stage.heads, encoder, tuned or towers, features, scores
        )
    distributed.wait()


def _train_quantizer(
    recipe: Recipe, settings: QuantizerSettings, tree: Tree, out: Path, work: Path, cache: Path
) -> None:
    """Stage 1: embed the tree by the model of stage 0, then train fusion and codebooks over that."""
    model = Model.open(out)
    training, validation = _embedded(model, tree, cache)
    stage = QuantizerStage(settings, training, validation, seed=recipe.seed)
    scores = train(stage, settings.loop, work / "quantizer", seed=recipe.seed)
    _report("quantizer", scores)
    if distributed.rank() == 0:
        write_quantizer(model, description(recipe), stage, scores)
    distributed.wait()


def _embedded(model: Model, tree: Tree, cache: Path) -> tuple[Embedded, Embedded]:
    """All items of a tree by a model, with the queries to learn from, and with those that validate."""
    source = corpus_source(model, tree, cache)
    pool = read_pool(tree, source)
    asked, judged = (
        read_queries(tree, source, pool, split, apart=model.instruction_apart) for split in ("train", "val")
    )
    training = embed(model, source, pool, asked)
    return training, embed(model, source, pool, judged, items=training.items)


def _refuse_broken(out: Path, tree: Tree, cache: Path) -> None:
    """A decoder can't mend codes that lost what they stand for, and it takes long to train: look first."""
    verdict = examine(tree, Model.open(out), cache=cache, queries=EXAMINED).verdict
    if verdict.state == "broken":
        reasons = " ".join(reason.finding for reason in verdict.reasons)
        raise InputError(
            f"the quantizer is broken, so no decoder is trained on it: {reasons} Mend it as `genius doctor "
            f"{out} --tree {tree.path}` says, or train all the same with --force"
        )


def _train_decoder(
    recipe: Recipe, settings: DecoderTraining, tree: Tree, out: Path, work: Path, cache: Path
) -> None:
    """Stage 2: code the tree's items by the model of stage 1, then train a decoder to name these codes."""
    model = Model.open(out)
    embedded, judged = _embedded(model, tree, cache)
    training = code(model, embedded)
    queries = {task: model.vectors(parts) for task, parts in judged.queries.items()}
    validation = Coded(judged, training.vectors, training.codes, queries)
    modality_of = model.settings["quantizer"]["modality_of"]
    stage = DecoderStage(settings, model.quantizer, modality_of, training, validation, seed=recipe.seed)
    scores = train(stage, settings.loop, work / "decoder", seed=recipe.seed)
    _report("decoder", scores)
    if distributed.rank() == 0:
        write_decoder(model, description(recipe), stage, scores)
    distributed.wait()


def _report(stage: str, scores: dict[str, float]) -> None:
    log.info(
        "Stage %s: validation %s.", stage, ", ".join(f"{name} {value:.1f}" for name, value in scores.items())
    )
