"""What a model embeds a benchmark from: cached features, or the images and texts themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from genius.data.mbeir import Tree
from genius.encode.contents import Contents
from genius.encode.feature_cache import content_key
from genius.encode.features import ABSENT, Features
from genius.encode.pipeline import tree_features
from genius.errors import InputError
from genius.model import Model


class ContentRows:
    """Images and texts by row, as features are, for models that embed whole records."""

    def __init__(self, contents: Contents) -> None:
        self.images = list(contents.images.values())
        self.texts = list(contents.texts)
        self._image_rows: dict[str | None, int] = {name: row for row, name in enumerate(contents.images)}
        self._text_rows: dict[str | None, int] = {text: row for row, text in enumerate(contents.texts)}

    def image_rows(self, names: Iterable[str | None]) -> np.ndarray:
        """The rows of images by name; -1 for absent ones."""
        return np.array([self._image_rows.get(name, ABSENT) for name in names], np.int32)

    def text_rows(self, texts: Iterable[str | None]) -> np.ndarray:
        """The rows of texts; -1 for absent ones."""
        return np.array([self._text_rows.get(text, ABSENT) for text in texts], np.int32)

    def image_key(self, row: int) -> bytes:
        """Equal for images of equal content; an unreadable image equals only itself."""
        try:
            return content_key(self.images[row].read())
        except InputError:
            return self.images[row].name.encode()

    def text_key(self, row: int) -> bytes:
        """Equal for equal texts."""
        return self.texts[row].encode()


def open_source(model: Model, tree: Tree, cache: Path) -> Features | ContentRows:
    """What the model embeds the tree from; features that are missing are encoded now."""
    if not model.joins_features:
        contents = Contents(model.instruction_apart)
        contents.add_tree(tree)
        return ContentRows(contents)
    features, _ = tree_features(tree, model.encoder_loader, cache, apart=model.instruction_apart)
    features.check(model.encoder)
    return features


def training_view(tree: Tree, recipe: Mapping[str, Any]) -> Tree:
    """What of the whole tree a recipe trains on: some of its data sets, all but some, or all."""
    if recipe.get("datasets"):
        return tree.only(*recipe["datasets"])
    return tree.without(*recipe["without"]) if recipe.get("without") else tree.only()
