"""`genius train`: all stages of a recipe in order; stages that are finished are skipped."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path

import torch

from genius.corpus.coded import CodedCorpus, code_corpus
from genius.corpus.embedded import EmbeddedCorpus, embed_corpus
from genius.corpus.items import read_training_items
from genius.corpus.queries import read_prompts, read_queries
from genius.corpus.source import open_source, training_view
from genius.data.mbeir import SPLITS, Split, Tree
from genius.encode.encoder import encoder_loader
from genius.encode.features import Features
from genius.encode.inputs import InputRows
from genius.encode.pipeline import tree_features
from genius.errors import MissingError
from genius.identifiers.scheme import RivalName
from genius.model import Model
from genius.train import distributed
from genius.train.decoder import DecoderStage, DecoderTraining
from genius.train.gate import refuse_broken
from genius.train.heads import EncoderSettings, EncoderStage, with_start
from genius.train.identifiers import fit_identifiers
from genius.train.loop import train
from genius.train.model_writer import (
    write_decoder,
    write_dense_model,
    write_fusion,
    write_identifiers,
    write_quantizer,
    write_tuned_model,
)
from genius.train.pairs import without_held_out
from genius.train.plan import duration, finished_stages, has_other_fusion, plan, work_folder
from genius.train.quantizer import QuantizerSettings, QuantizerStage
from genius.train.recipe import Recipe, description, read_recipe
from genius.train.towers import tune_towers

__all__ = ["Recipe", "description", "duration", "plan", "read_recipe", "train_model"]

log = logging.getLogger(__name__)


def train_model(
    recipe: Recipe, tree: Tree, out: Path, *, cache: Path, work: Path | None = None, force: bool = False
) -> Model:
    """Train the stages that the model at `out` lacks, and open it.

    The tree is restricted to the data sets that the recipe or the tree itself selects. `work` (by default
    `out` with `-training` after its name) keeps the checkpoints that an interrupted run resumes from, and the
    log of every step. Raises InputError where a decoder would be trained on a quantizer that the doctor calls
    broken, unless `force` is set.
    """
    _check_devices(recipe)
    distributed.init()
    if tree.datasets and not (recipe.datasets or recipe.without):
        recipe = dataclasses.replace(recipe, datasets=tree.datasets)  # so that the model records it
    tree = training_view(tree, description(recipe))
    work = work or out.with_name(f"{out.name}-training")
    finished = finished_stages(out, recipe)
    if "encoder" not in finished:
        _train_embeddings(recipe, tree, out, work_folder(work, recipe, "encoder"), cache)
    if recipe.quantizer is not None and "quantizer" not in finished:
        _train_quantizer(recipe, recipe.quantizer, tree, out, work_folder(work, recipe, "quantizer"), cache)
    if recipe.identifiers != "codes" and "identifiers" not in finished:
        _assign_identifiers(recipe, recipe.identifiers, tree, out, cache)
    if recipe.decoder is not None and "decoder" not in finished_stages(out, recipe):
        folder = work_folder(work, recipe, "decoder")
        _train_decoder(recipe, recipe.decoder, tree, out, folder, cache, force=force)
    elif recipe.decoder is not None and has_other_fusion(out, recipe):
        if distributed.rank() == 0:
            write_fusion(Model.open(out), description(recipe), recipe.decoder.geometric_fusion)
        distributed.barrier()
    return Model.open(out)


def _train_embeddings(recipe: Recipe, tree: Tree, out: Path, work: Path, cache: Path) -> None:
    """Train what a model embeds by: tuned towers, heads, or both."""
    tuned = tune_towers(recipe.towers, tree, work, seed=recipe.seed) if recipe.towers else None
    if recipe.encoder is not None:
        _train_heads(recipe, recipe.encoder, tree, out, work, cache, tuned.folder if tuned else None)
    elif tuned is not None:
        if distributed.rank() == 0:
            write_tuned_model(out, description(recipe), tuned)
        distributed.barrier()


def _train_heads(
    recipe: Recipe,
    settings: EncoderSettings,
    tree: Tree,
    out: Path,
    work: Path,
    cache: Path,
    tuned: Path | None,
) -> None:
    """Stage 0: encode the tree (by a tuned CLIP, if there is one), then train heads over its features."""
    settings = with_start(settings)
    loader, towers = encoder_loader(settings.towers, settings.source or str(tuned or ""))
    encoder = loader(1)
    splits = _splits(recipe)
    features, report = tree_features(tree, loader, cache, splits=splits)
    log.info("Encoded %d pictures and texts; %d were in the cache.", report.encoded, report.known)
    for error in report.failures[:5]:
        log.warning("left out: %s", error)
    pool = read_training_items(tree, features, splits)
    training = without_held_out(read_queries(tree, features, pool, "train"), pool.ids, recipe.held_out)
    tasks = training, read_queries(tree, features, pool, "val")
    prompts = read_prompts(tree, features)
    stage = EncoderStage(settings, encoder, features, pool, tasks, prompts, seed=recipe.seed)
    scores = train(stage, settings.loop, work / "encoder", seed=recipe.seed)
    if settings.heads.hubness or settings.raw_tolerance:
        scores = stage.calibrate()
    _log_scores("encoder", scores)
    if distributed.rank() == 0:
        write_dense_model(
            out, description(recipe), settings, stage.heads, encoder, tuned or towers, features, scores
        )
    distributed.barrier()


def _train_quantizer(
    recipe: Recipe, settings: QuantizerSettings, tree: Tree, out: Path, work: Path, cache: Path
) -> None:
    """Stage 1: embed the tree by the model of stage 0, then train fusion and codebooks on that."""
    model = Model.open(out, device=_device(recipe))
    source = open_source(model, tree, cache, _splits(recipe))
    training, validation = _embedded(model, tree, source, _splits(recipe), recipe.held_out)
    mix = tree.repetitions() if settings.upsampled else None
    stage = QuantizerStage(settings, training, validation, seed=recipe.seed, repetitions=mix)
    scores = train(stage, settings.loop, work / "quantizer", seed=recipe.seed)
    if settings.refit:
        scores = stage.refit_codebooks()
    _log_scores("quantizer", scores)
    if distributed.rank() == 0:
        write_quantizer(model, description(recipe), stage, scores)
    distributed.barrier()


def _assign_identifiers(recipe: Recipe, name: RivalName, tree: Tree, out: Path, cache: Path) -> None:
    """Instead of stage 1: embed the tree by the model of stage 0, and give its items identifiers."""
    if distributed.rank() == 0:
        model = Model.open(out, device=_device(recipe))
        source = open_source(model, tree, cache, _splits(recipe))
        training, _ = _embedded(model, tree, source, _splits(recipe))
        identifiers = fit_identifiers(name, model, training, source, seed=recipe.seed)
        write_identifiers(model, description(recipe), identifiers)
    distributed.barrier()


def _check_devices(recipe: Recipe) -> None:
    """Raise MissingError if a stage is to run on a GPU that torch can't use, before anything is trained."""
    stages = {"towers": recipe.towers, "quantizer": recipe.quantizer, "decoder": recipe.decoder}
    for name, settings in stages.items():
        if settings is not None and settings.device == "cuda" and not torch.cuda.is_available():
            raise MissingError(
                f"the recipe trains {name} on a GPU, and torch finds none here: "
                f'say device = "cpu" in [{name}], or install a CUDA build of torch'
            )


def _splits(recipe: Recipe) -> tuple[Split, ...]:
    """The splits whose items training sees."""
    return SPLITS if recipe.pools == "all" else ("train", "val")


def _device(recipe: Recipe) -> str | None:
    """Where a CLIP encodes: where it would be tuned."""
    return "cuda" if recipe.towers is not None and recipe.towers.device == "cuda" else None


def _embedded(
    model: Model, tree: Tree, source: Features | InputRows, splits: Sequence[Split], held_out: float = 0.0
) -> tuple[EmbeddedCorpus, EmbeddedCorpus]:
    """The items of a tree with its training queries, without those of answers that are held out, and with its
    validation queries, by a model."""
    pool = read_training_items(tree, source, splits)
    train_queries, val_queries = (
        read_queries(tree, source, pool, split, apart=model.instruction_apart) for split in ("train", "val")
    )
    training = embed_corpus(model, source, pool, without_held_out(train_queries, pool.ids, held_out))
    return training, embed_corpus(model, source, pool, val_queries, items=training.items)


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
    """Stage 2: code the tree's items by the model of stage 1, then train a decoder to generate the codes."""
    model = Model.open(out, device=_device(recipe))
    source = open_source(model, tree, cache, _splits(recipe))
    embedded, val_embedded = _embedded(model, tree, source, _splits(recipe))
    training = code_corpus(model, embedded, source)
    queries = {task: model.query_vectors(inputs) for task, inputs in val_embedded.queries.items()}
    validation = CodedCorpus(val_embedded, training.vectors, training.codes, queries)
    if model.has_code_vectors and not force:
        refuse_broken(model, validation)
    forced = model.has_code_vectors and model.search_settings.force_modality
    modality_of = model.settings["quantizer"]["modality_of"] if forced else []
    mix = tree.repetitions() if settings.upsampled else None
    stage = DecoderStage(
        settings, model.code_space, modality_of, training, validation, seed=recipe.seed, repetitions=mix
    )
    scores = train(stage, settings.loop, work / "decoder", seed=recipe.seed)
    _log_scores("decoder", scores)
    if distributed.rank() == 0:
        write_decoder(model, description(recipe), stage, scores)
    distributed.barrier()


def _log_scores(stage: str, scores: dict[str, float]) -> None:
    log.info(
        "Stage %s: validation %s.", stage, ", ".join(f"{name} {value:.1f}" for name, value in scores.items())
    )
