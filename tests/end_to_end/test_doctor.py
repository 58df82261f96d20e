"""The doctor's command on the miniature benchmark."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("matplotlib")

import torch
from PIL import Image
from typer.testing import CliRunner

from genius.cli import app
from genius.data.mbeir import Tree
from genius.doctor.examine import examine
from genius.encode import lite, pipeline
from genius.errors import InputError, MissingError
from genius.model import Model
from genius.quantize.codebooks import Codebooks
from genius.quantize.fusion_inputs import FusionInputs
from genius.train.run import read_recipe, train_model
from tests.coded import replace_codebooks
from tests.encode.small_towers import write_small_towers
from tests.recipes import CODED


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, miniature: Path) -> Path:
    """Models: dense alone, with a quantizer, and with codebooks that have nothing to do with the vectors."""
    folder = tmp_path_factory.mktemp("doctor")
    write_small_towers(folder / "towers")
    (folder / "recipe.toml").write_text(CODED)
    recipe = read_recipe(folder / "recipe.toml")
    assert recipe.quantizer is not None
    # So few training pairs say little about the items of other splits: good codebooks are those of k-means
    # over the items themselves.
    brief = dataclasses.replace(
        recipe.quantizer,
        codebooks=dataclasses.replace(recipe.quantizer.codebooks, levels=6, size=24),
        loop=dataclasses.replace(recipe.quantizer.loop, steps=2, learning_rate=1e-5, validate_every=2),
    )
    learned = dataclasses.replace(
        brief, codebooks=dataclasses.replace(brief.codebooks, modality_code="learned")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lite, "build", lambda: folder / "towers")
        patch.setattr(pipeline, "cores", lambda: 1)
        for name, quantizer in (("dense", None), ("brief", brief), ("learned", learned)):
            train_model(
                dataclasses.replace(recipe, quantizer=quantizer),
                Tree(miniature),
                folder / name,
                cache=folder / "cache",
                work=folder / "work",
            )
        items = examine(Tree(miniature), Model.open(folder / "brief"), cache=folder / "cache").items
    books = Codebooks(items.vectors.shape[1], brief.codebooks)
    modality = torch.from_numpy(items.modality.astype(np.int64))
    books.init(torch.from_numpy(items.vectors), modality, torch.Generator().manual_seed(0))
    arrays = [book.numpy() for book in books.vectors_by_level()]
    replace_codebooks(folder / "brief", arrays, folder / "good")
    random = np.random.default_rng(0)
    others = [random.normal(size=array.shape).astype(np.float32) for array in arrays]
    replace_codebooks(folder / "brief", others, folder / "bad")
    return folder


@pytest.fixture(autouse=True)
def small_world(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "default_cache", lambda: home / "cache")
    monkeypatch.setattr(pipeline, "cores", lambda: 1)


def doctor(model: Path, tree: Path, *more: str, code: int = 0) -> str:
    """What the command writes to standard output, if it exits with this code."""
    arguments = ["doctor", str(model), "--tree", str(tree), *more]
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, arguments, catch_exceptions=False)
    assert shown.exit_code == code, shown.output
    return shown.stdout


def test_a_model_that_searches(home: Path, miniature: Path, tmp_path: Path) -> None:
    shown = doctor(home / "good", miniature, "--plots", str(tmp_path), "--split", "test")
    for part in (
        "where recall is lost",
        "oven_task8",
        "modality codes (given), 100.00 % pure",
        "mean cosine",
    ):
        assert part in shown
    images = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.png")}
    assert images >= {"use.png", "recall.png", "survival.png", "map.png"}
    assert len([name for name in images if name.startswith("codes/level")]) == 9
    for name in images:
        with Image.open(tmp_path / name) as image:
            image.load()


def test_a_broken_model_exits_with_1_and_says_so(home: Path, miniature: Path) -> None:
    shown = doctor(home / "bad", miniature, code=1)
    assert "broken: don't train a decoder on it" in shown
    assert "because: Search by codes alone keeps" in shown


def test_json_is_one_object_with_figures_that_fit_a_direct_examination(home: Path, miniature: Path) -> None:
    figures = json.loads(doctor(home / "good", miniature, "--json", "--queries", "3"))
    tree, model = Tree(miniature), Model.open(home / "good")
    direct = examine(tree, model, cache=home / "cache", queries=3)
    assert figures["verdict"]["state"] == direct.verdict.state
    assert figures["queries"] == 8 * 3
    assert figures["recall"]["codes"]["mean"] == pytest.approx(direct.health.codes)
    assert figures["code_spec"]["sizes"] == [3, *[24] * 6]
    # Every image and text of the miniature stands in three data sets: these are one content.
    assert figures["buckets"]["items"] == 102
    assert figures["buckets"]["distinct_contents"] < 60
    items = {item.id: item for item in tree.items("val")}
    for task in direct.tasks:
        for positives in task.positives:
            assert all(direct.items.modality[number] == task.want for number in positives)
    assert direct.item_ids == list(items)
    np.testing.assert_array_equal(
        model.quantizer.codes(direct.items.vectors, direct.items.modality), direct.items.codes
    )


def test_a_learned_modality_code_is_judged_by_what_it_stands_for(home: Path, miniature: Path) -> None:
    health = examine(Tree(miniature), Model.open(home / "learned"), cache=home / "cache").health
    table = np.array(health.confusion)
    assert table.sum() == 102
    assert health.purity == pytest.approx(table.max(axis=1).sum() / 102)
    assert health.code_spec.modality_code == "learned"


def test_vectors_that_are_not_finite_are_a_verdict_and_no_crash(
    home: Path, miniature: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Model.vectors

    def spoilt(self: Model, inputs: FusionInputs) -> np.ndarray:
        vectors = real(self, inputs)
        vectors[::5] = np.nan
        return vectors

    monkeypatch.setattr(Model, "vectors", spoilt)
    assert "are NaN or infinite." in doctor(home / "good", miniature, code=1)


def test_what_can_t_be_examined(home: Path, miniature: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="has no quantizer yet"):
        doctor(home / "dense", miniature)
    with pytest.raises(InputError, match="--split should be one of train, val, test"):
        doctor(home / "good", miniature, "--split", "dev")
    with pytest.raises(InputError, match="say with --plots where"):
        doctor(home / "good", miniature, "--code", "*,1")
    with pytest.raises(InputError, match="a code is written with commas"):
        doctor(home / "good", miniature, "--code", "one", "--plots", str(tmp_path))
    doctor(home / "good", miniature, "--queries", "0", code=2)


def test_a_sheet_of_a_given_code(home: Path, miniature: Path, tmp_path: Path) -> None:
    doctor(home / "good", miniature, "--plots", str(tmp_path), "--code", "1", "--code", "*,999", "--json")
    assert [path.name for path in (tmp_path / "codes").iterdir()] == ["level1_code1.png"]
