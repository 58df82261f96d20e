"""A tiny model that codes, trained in a moment on the miniature benchmark."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from genius import storage
from genius.corpus.coded import CodedCorpus, code_corpus
from genius.corpus.embedded import embed_corpus
from genius.corpus.items import read_items
from genius.corpus.queries import read_queries
from genius.corpus.source import open_source
from genius.data.mbeir import Split, Tree
from genius.model import Model
from genius.train.run import Recipe, read_recipe, train_model
from tests.encode.small_towers import use_small_towers, write_small_towers
from tests.recipes import CODED


def write_home(folder: Path) -> Path:
    """Towers and a recipe."""
    write_small_towers(folder / "towers")
    (folder / "recipe.toml").write_text(CODED)
    return folder


def train_coded(
    home: Path, miniature: Path, out: str, recipe: Recipe | None = None, work: str = "work"
) -> Model:
    """Train a model in `home` by a recipe, or by the one that is written there."""
    with pytest.MonkeyPatch.context() as patch:
        use_small_towers(home, patch)
        recipe = recipe or read_recipe(home / "recipe.toml")
        # They share what training keeps, so that stages which they have in common are trained once.
        return train_model(recipe, Tree(miniature), home / out, cache=home / "cache", work=home / work)


def with_codebooks(recipe: Recipe, **changes: Any) -> Recipe:
    """A recipe with other settings of its codebooks."""
    assert recipe.quantizer is not None
    codebooks = dataclasses.replace(recipe.quantizer.codebooks, **changes)
    quantizer = dataclasses.replace(recipe.quantizer, codebooks=codebooks)
    return dataclasses.replace(recipe, quantizer=quantizer)


def coded_corpus(model: Model, tree: Path, cache: Path, split: Split) -> CodedCorpus:
    """The items of a tree and the queries of a split, embedded and coded by a model."""
    opened = Tree(tree)
    source = open_source(model, opened, cache)
    items = read_items(opened, source, split)
    queries = read_queries(opened, source, items, split, apart=model.instruction_apart)
    return code_corpus(model, embed_corpus(model, source, items, queries))


def replace_codebooks(model: Path, codebooks: Sequence[np.ndarray], out: Path) -> None:
    """Write a copy of a model that has other codebooks."""
    artifact = storage.open(model, kind="model")
    manifest, name = artifact.manifest, "codebooks.safetensors"
    with storage.create(out, kind="model", format=manifest.format, settings=manifest.settings) as draft:
        draft.reuse(artifact, *(set(manifest.files) - {name}))
        levels = {f"level_{number}": codebook for number, codebook in enumerate(codebooks)}
        save_file(levels, draft.folder / name)
