"""What a model embeds a benchmark from: cached features, or the images and texts themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from genius.data.mbeir import SPLITS, Split, Tree
from genius.encode.features import Features
from genius.encode.inputs import EncoderInputs, InputRows
from genius.encode.pipeline import tree_features
from genius.model import Model


def open_source(
    model: Model, tree: Tree, cache: Path, splits: Sequence[Split] = SPLITS
) -> Features | InputRows:
    """What the model embeds a tree from, or some of its splits; features that are missing are encoded."""
    if not model.uses_features or model.encodes_queries_apart:  # cached features are those of items
        contents = EncoderInputs(model.instruction_apart)
        contents.add_tree(tree, splits)
        return InputRows(contents)
    features, _ = tree_features(
        tree, model.encoder_loader, cache, apart=model.instruction_apart, splits=splits
    )
    features.check(model.encoder)
    return features


def training_view(tree: Tree, recipe: Mapping[str, Any]) -> Tree:
    """What of the whole tree a recipe trains on: some of its data sets, all but some, or all."""
    if recipe.get("datasets"):
        return tree.only(*recipe["datasets"])
    return tree.without(*recipe["without"]) if recipe.get("without") else tree.only()
