"""A tiny model that codes, trained in a moment on the miniature benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest

from genius.data.mbeir import Tree
from genius.model import Model
from genius.train.run import Recipe, read_recipe, train_model
from tests.encode.small_towers import use_small_towers, write_small_towers
from tests.end_to_end.test_dense import RECIPE as DENSE

RECIPE = (
    DENSE.replace("FUSION_KIND", "score")
    + """
[quantizer]
batch = 32
temperature = 0.05
gamma = 5.0
validated = 30
[quantizer.fusion]
hidden = 32
[quantizer.codebooks]
levels = 3
size = 16
iterations = 5
[quantizer.loop]
steps = 60
learning_rate = 0.001
warm_up = 3
validate_every = 30
save_every = 10
average = 0.0
"""
)


def write_home(folder: Path) -> Path:
    """Towers and a recipe."""
    write_small_towers(folder / "towers")
    (folder / "recipe.toml").write_text(RECIPE)
    return folder


def train_coded(
    home: Path, miniature: Path, out: str, recipe: Recipe | None = None, work: str = "work"
) -> Model:
    with pytest.MonkeyPatch.context() as patch:
        use_small_towers(home, patch)
        recipe = recipe or read_recipe(home / "recipe.toml")
        # They share what training keeps, so that stages which they have in common are trained once.
        return train_model(recipe, Tree(miniature), home / out, cache=home / "cache", work=home / work)
