"""Heads over a CLIP's features: the same training, another encoder."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("faiss")

from genius.data.mbeir import Tree
from genius.data.records import Item
from genius.encode import pipeline
from genius.errors import MismatchError
from genius.evaluate.run import evaluate_model
from genius.model import Model
from genius.train.run import read_recipe, train_model
from tests.encode.small_clip import write_clip

RECIPE = """
name = "clip"
[encoder]
towers = "clip"
source = "{source}"
batch = 8
negatives = 8
[encoder.heads]
width = 48
raw = 8
hidden = 32
dropout = 0.0
image_parts = ["features:{width}"]
text_parts = ["features:{width}"]
[encoder.loop]
steps = 60
warm_up = 5
validate_every = 20
average = 0.9
"""


def test_a_dense_model_over_clip(miniature: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "cores", lambda: 1)
    width = write_clip(tmp_path / "clip").config.projection_dim
    (tmp_path / "recipe.toml").write_text(RECIPE.format(source=tmp_path / "clip", width=width))
    recipe = read_recipe(tmp_path / "recipe.toml")
    model = train_model(recipe, Tree(miniature), tmp_path / "model", cache=tmp_path / "cache")
    assert model.settings["encoder"]["kind"] == "clip"
    assert not (model.path / "towers").exists()  # a CLIP stays where it is
    result = evaluate_model(
        miniature, tmp_path / "model", split="test", cache=tmp_path / "cache", pools=("local",)
    )
    assert result.evaluation.value("dense-fair", "local", "mean", "hit@5") > 0.6
    write_clip(tmp_path / "clip", seed=1)
    with pytest.raises(
        MismatchError, match=r"was trained on the encoder \w+, but .*clip is now \w+: bring the old one"
    ):
        Model.open(tmp_path / "model").embed_items([Item("a", "red")])
