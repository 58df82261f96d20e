"""From a tree to a dense model to its figures, with tiny towers on the miniature benchmark."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("faiss")

from typer.testing import CliRunner

from genius import storage
from genius.cli import app
from genius.data.mbeir import Tree
from genius.data.records import Item, Query
from genius.errors import InputError, MismatchError
from genius.evaluate.run import evaluate_model
from genius.model import Model
from genius.train.run import read_recipe, train_model
from tests.encode.small_towers import use_small_towers, write_small_towers
from tests.recipes import DENSE, dense_recipe


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dense")
    write_small_towers(folder / "towers")
    (folder / "recipe.toml").write_text(DENSE)
    (folder / "fusion.toml").write_text(dense_recipe("feature", "fusion"))
    return folder


@pytest.fixture(autouse=True)
def small_world(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_towers(home, monkeypatch)


@pytest.fixture(scope="module")
def trained(home: Path, miniature: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        use_small_towers(home, patch)
        train_model(read_recipe(home / "recipe.toml"), Tree(miniature), home / "model", cache=home / "cache")
    return home / "model"


def test_training_learns_the_miniature(trained: Path, miniature: Path, home: Path) -> None:
    result = evaluate_model(miniature, trained, split="test", cache=home / "cache")
    # (In the union every image and text stands three times, in three data sets; one of them counts.)
    assert result.evaluation.value("dense-fair", "local", "mean", "hit@5") > 0.8
    assert result.evaluation.value("dense-fair", "union", "mean", "hit@5") > 0.5
    for run in result.evaluation.runs:
        pool = {item.id for item in Tree(miniature).pool("union" if run.pool == "union" else run.task)}
        for ranking in run.results.values():
            ids = [item for item, _ in ranking]
            assert len(ids) == len(set(ids))
            assert set(ids) <= pool


def test_a_model_embeds_items_and_queries_without_torch_as_from_cached_features(
    trained: Path, miniature: Path
) -> None:
    model = Model.open(trained, threads=1)
    items = [item for item in Tree(miniature) if not item.id.endswith(":90")][:20]  # one image is missing
    vectors = model.embed_items(items)
    assert vectors.shape == (20, model.width)
    lengths = np.linalg.norm(np.delete(vectors, -4, axis=1), axis=1)  # without the number against hubs
    np.testing.assert_allclose(lengths, 1, atol=1e-5)
    alone = np.concatenate([model.embed_items([item]) for item in items])
    np.testing.assert_allclose(vectors, alone, atol=1e-4)
    queries = model.embed_queries(
        [Query(text="the red one"), Query(text="the red one", instruction="Prompt 1 of webqa 1.")]
    )
    assert not np.allclose(queries[0], queries[1])
    with pytest.raises(InputError, match="there is no query"):
        model.embed_queries([])


@pytest.mark.long
def test_the_same_recipe_again_does_nothing_and_the_same_seed_gives_the_same_model(
    trained: Path, miniature: Path, home: Path
) -> None:
    before = storage.read_manifest(trained)
    recipe = read_recipe(home / "recipe.toml")
    train_model(recipe, Tree(miniature), trained, cache=home / "cache")
    assert storage.read_manifest(trained) == before
    train_model(recipe, Tree(miniature), home / "again", cache=home / "cache")
    again = storage.read_manifest(home / "again")
    assert again.files["heads.safetensors"] == before.files["heads.safetensors"]


@pytest.mark.long
def test_feature_fusion_trains_too(miniature: Path, home: Path) -> None:
    recipe = read_recipe(home / "fusion.toml")
    train_model(recipe, Tree(miniature), home / "fusion", cache=home / "cache")
    result = evaluate_model(miniature, home / "fusion", split="test", cache=home / "cache", pools=("local",))
    assert result.evaluation.value("dense-fair", "local", "mean", "hit@5") > 0.8


def test_the_commands(trained: Path, miniature: Path, home: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    shown = runner.invoke(
        app, ["encode", str(miniature), "-o", str(tmp_path / "features")], catch_exceptions=False
    )
    assert "0 encoded now" in shown.output
    assert "could not be read" in shown.output
    arguments = ["train", str(home / "recipe.toml"), "--tree", str(miniature), "-o", str(trained)]
    shown = runner.invoke(app, arguments, catch_exceptions=False)
    assert "nothing to do" in shown.output
    arguments = ["evaluate", str(miniature), "-m", str(trained), "--split", "val", "--pool", "union"]
    shown = runner.invoke(
        app, [*arguments, "--json", "-o", str(tmp_path / "results")], catch_exceptions=False
    )
    lines = [json.loads(line) for line in shown.stdout.splitlines() if line.startswith("{")]
    assert {"system", "pool", "task", "metric", "value", "queries"} == set(lines[0])
    assert {line["task"] for line in lines} >= {"mean", "oven_task8"}
    results = storage.open(tmp_path / "results", kind="results")
    run = results.file("runs/dense_union_webqa_task1.txt").read_text().splitlines()[0].split()
    assert run[0] == "2:1011"
    assert run[1] == "Q0"
    assert run[3] == "1"
    assert results.manifest.made_from["model"] == Model.open(trained).fingerprint
    assert "| task |" in results.file("table.md").read_text()
    with pytest.raises(InputError, match="there is no task 'cirr_task7' in val; there are: mscoco_task0"):
        runner.invoke(app, [*arguments, "--task", "cirr_task7"], catch_exceptions=False)


def test_the_query_s_own_item_can_be_left_out(trained: Path, miniature: Path, home: Path) -> None:
    """In task 4 the query's image is an item of the pool, and here its only positive."""
    with_it = evaluate_model(miniature, trained, split="test", cache=home / "cache", tasks=["webqa_task4"])
    without = evaluate_model(
        miniature, trained, split="test", cache=home / "cache", tasks=["webqa_task4"], exclude=True
    )
    assert with_it.evaluation.value("dense-fair", "local", "webqa_task4", "hit@1") > 0
    assert without.evaluation.value("dense-fair", "local", "webqa_task4", "hit@10") == 0
    for run in without.evaluation.runs:
        assert all(len(ranking) > 5 for ranking in run.results.values())


def test_a_tree_without_training_pairs(own_miniature: Path, home: Path) -> None:
    for path in (own_miniature / "query/train").iterdir():
        path.unlink()
    with pytest.raises(InputError, match="has no train queries with an answer in its pools"):
        train_model(
            read_recipe(home / "recipe.toml"), Tree(own_miniature), home / "none", cache=home / "cache"
        )


def test_a_model_folder_that_is_something_else(home: Path, trained: Path) -> None:
    with pytest.raises(MismatchError, match="holds towers, but model is needed"):
        Model.open(home / "towers")


def test_an_item_s_image_that_is_missing_is_named(trained: Path, miniature: Path) -> None:
    broken = next(item for item in Tree(miniature) if item.id.endswith(":90"))
    with pytest.raises(InputError, match=r"gone.jpg: cannot read image"):
        Model.open(trained).embed_items([Item("a", "fine"), broken])
