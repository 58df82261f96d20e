"""`genius train`: all stages of a recipe in order, those that are done already left alone."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

from genius.corpus.coded import CodedCorpus, code_corpus
from genius.corpus.embedded import EmbeddedCorpus, embed_corpus
from genius.corpus.items import read_items
from genius.corpus.queries import read_prompts, read_queries
from genius.corpus.source import open_source, training_view
from genius.data.mbeir import Tree
from genius.encode.encoder import encoder_loader
from genius.encode.pipeline import tree_features
from genius.model import Model
from genius.train import distributed
from genius.train.decoder import DecoderStage, DecoderTraining
from genius.train.gate import refuse_broken
from genius.train.heads import EncoderSettings, EncoderStage
from genius.train.loop import train
from genius.train.model_writer import write_decoder, write_dense_model, write_quantizer
from genius.train.plan import (
    BASE,
    CODED,
    DECODED,
    Recipe,
    description,
    done_stages,
    duration,
    plan,
    read_recipe,
    work_folder,
)
from genius.train.quantizer import QuantizerSettings, QuantizerStage
from genius.train.towers import tune_towers

__all__ = ["Recipe", "description", "duration", "plan", "read_recipe", "train_model"]

log = logging.getLogger(__name__)


def train_model(
    recipe: Recipe, tree: Tree, out: Path, *, cache: Path, work: Path | None = None, force: bool = False
) -> Model:
    """Train what is missing of the model at `out` and open it; of the tree it sees what the recipe
    takes, or what the tree shows.

    Beside it, in `work` (by default `out` with `-training` behind its name), is what a stopped run goes on
    from, and the log of every step. Raises InputError where a decoder would be trained on a quantizer that
    the doctor calls broken, unless `force` says to do so.
    """
    distributed.start()
    if tree.datasets and not (recipe.datasets or recipe.without):
        recipe = dataclasses.replace(recipe, datasets=tree.datasets)  # so that the model knows of it
    tree = training_view(tree, description(recipe))
    work = work or out.with_name(f"{out.name}-training")
    done = done_stages(out, recipe)
    if "encoder" not in done:
        _train_base(recipe, tree, out, work_folder(work, recipe, BASE), cache)
    if recipe.quantizer is not None and "quantizer" not in done:
        _train_quantizer(recipe, recipe.quantizer, tree, out, work_folder(work, recipe, CODED), cache)
    if recipe.decoder is not None and "decoder" not in done_stages(out, recipe):
        _train_decoder(
            recipe, recipe.decoder, tree, out, work_folder(work, recipe, DECODED), cache, force=force
        )
    return Model.open(out)


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
    pool = read_items(tree, features)
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


def _embedded(model: Model, tree: Tree, cache: Path) -> tuple[EmbeddedCorpus, EmbeddedCorpus]:
    """All items of a tree by a model, with the queries to learn from, and with those that validate."""
    source = open_source(model, tree, cache)
    pool = read_items(tree, source)
    asked, judged = (
        read_queries(tree, source, pool, split, apart=model.instruction_apart) for split in ("train", "val")
    )
    training = embed_corpus(model, source, pool, asked)
    return training, embed_corpus(model, source, pool, judged, items=training.items)


def _train_decoder(
    recipe: Recipe,
    settings: DecoderTraining,
    tree: Tree,
    out: Path,
    work: Path,
    cache: Path,
    *,
    force: bool,
) -> None:
    """Stage 2: code the tree's items by the model of stage 1, then train a decoder to name these codes."""
    model = Model.open(out)
    embedded, judged = _embedded(model, tree, cache)
    training = code_corpus(model, embedded)
    queries = {task: model.vectors(parts) for task, parts in judged.queries.items()}
    validation = CodedCorpus(judged, training.vectors, training.codes, queries)
    if not force:
        refuse_broken(model, validation)
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
