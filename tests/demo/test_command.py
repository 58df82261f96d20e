"""`genius demo --train` from beginning to end, with a tiny model on the miniature benchmark."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from PIL import Image
from typer.testing import CliRunner

from genius.cli import app
from genius.data.mbeir import Tree
from genius.data.tasks import Task
from genius.demo import corpus, report
from genius.demo.naming import NamedImage
from genius.encode import lite_weights, pipeline
from genius.model import Model
from genius.train import run as training


@pytest.fixture
def small_demo(coded_model: Path, coded_home: Path, miniature: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The miniature for the corpus, and a model that is trained already."""

    def train_model(recipe: Any, tree: Tree, out: Path, *, cache: Path) -> Model:
        shutil.copytree(coded_model, out, dirs_exist_ok=True)
        return Model.open(out)

    def name_images(model: Model, tree: Tree, task: Task) -> list[NamedImage]:
        first, second = list(tree.queries("test", Task("mscoco", 3)))[:2]
        return [NamedImage(first, "red", "red"), NamedImage(second, "green", "blue")]

    monkeypatch.setattr(corpus, "demo_tree", lambda: miniature)
    monkeypatch.setattr(lite_weights, "fetch", list)
    monkeypatch.setattr(training, "train_model", train_model)
    monkeypatch.setattr(report, "name_images", name_images)
    monkeypatch.setattr(pipeline, "default_cache", lambda: coded_home / "cache")


def run(out: Path) -> str:
    runner = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"})
    return runner.invoke(app, ["demo", "--train", "--out", str(out)], catch_exceptions=False).stdout


@pytest.mark.long
@pytest.mark.usefixtures("small_demo")
def test_the_demo_measures_searches_and_says_how_to_go_on(miniature: Path, tmp_path: Path) -> None:
    lines = run(tmp_path).splitlines()
    expected = [
        f"{miniature}: M-BEIR tree of 99 items (39 image, 36 text, 24 pair)",
        f"Recipe demo, seed 0, to {tmp_path / 'model'}:",
        "hit rate in the local pool",
        "hit rate in the union pool",
        "  right  mbeir_images/squares/0.jpg: red",
        "  WRONG  mbeir_images/squares/1.jpg: blue",
        "1 of 2 pictures of families never seen in training are nearest to their own name.",
        f"The model is in {tmp_path / 'model'}, its figures, runs and a plot in {tmp_path / 'results'}.",
        f"The data, a tree to train and to measure by, are in {miniature}.",
        "text to image: The red one",
        f"These searches with their pictures: {tmp_path / 'searches.png'}",
        f"99 items are in {tmp_path / 'index'}.",
    ]
    stripped = [line.rstrip() for line in lines]
    places = [stripped.index(line) for line in expected]
    assert places == sorted(places)
    (diagnosis,) = [place for place, line in enumerate(lines) if line.startswith("The doctor says: ")]
    assert places[6] < diagnosis < places[7]
    assert lines[-2].endswith(f"genius search {tmp_path / 'index'} a happy cat --want pair")
    assert lines[-1].endswith(f"genius serve {tmp_path / 'index'}, then http://127.0.0.1:8000")
    for name in ("emoji.png", "searches.png", "results/plot.png", "doctor/map.png"):
        with Image.open(tmp_path / name) as image:
            assert image.width > 100
    again = run(tmp_path).splitlines()
    assert "(As measured before: neither the model nor the data have changed.)" in again
    assert again[-3:] == lines[-3:]
