"""`genius train --pairs`: from a spreadsheet to a trained model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from genius import Index, Item, storage
from genius.cli import app
from genius.data.records import Query
from genius.encode import pipeline
from genius.errors import InputError, MismatchError
from genius.model import Model
from genius.train.fine_tuning import fine_tuning_recipe, prepare_pairs
from genius.train.run import train_model
from tests.encode.small_towers import use_small_towers, write_small_towers
from tests.miniature import COLOURS
from tests.pictures import write_square


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Squares of many colours with nonsense words that only these pairs explain."""
    lines = ["query,item_image"]
    for number, colour in enumerate(COLOURS):
        write_square(tmp_path / f"{colour}.png", colour)
        lines.append(f"{COLOURS[number - 1]},{colour}.png")
    path = tmp_path / "pairs.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(autouse=True)
def small_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_small_towers(tmp_path / "towers")
    use_small_towers(tmp_path, monkeypatch)


def train(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["train", *map(str, arguments)], catch_exceptions=False)


def test_a_table_becomes_a_model_that_indexes_and_searches(
    table: Path, coded_model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    printed = train("--pairs", table, "--start", coded_model, "-o", out).output
    assert f"{table}: {2 * len(COLOURS) - 2} queries to train on, 2 held out" in printed
    assert "held-out queries" in printed
    model = Model.open(out)
    assert model.stages == ["encoder", "quantizer"]
    with Index.create(tmp_path / "index", model) as index:
        index.add([Item("1", "a red square"), Item("2", "a blue square")])
        assert len(index.search("red", k=2)) == 2
    again = train("--pairs", table, "--start", coded_model, "-o", out).output
    assert "was trained by this recipe already" in again


def test_training_starts_from_the_heads_of_a_model(table: Path, coded_model: Path, tmp_path: Path) -> None:
    """Without a step that helps, the heads are those of the start."""
    data = prepare_pairs(table, tmp_path / "tree", _raise)
    recipe = fine_tuning_recipe(data, start=str(coded_model))
    assert recipe.encoder is not None
    frozen = storage.read_manifest(coded_model).settings["heads"]
    object.__setattr__(recipe.encoder.loop, "learning_rate", 1e-12)
    model = train_model(recipe, data.tree, tmp_path / "model", cache=pipeline.default_cache())
    assert model.settings["heads"] == frozen
    start = Model.open(coded_model)
    items = [Item("1", "a red square"), Item("2", "blue")]
    np.testing.assert_allclose(model.embed_items(items), start.embed_items(items), atol=1e-5)


def test_codes_are_kept_where_training_would_make_them_worse(
    table: Path, coded_model: Path, tmp_path: Path
) -> None:
    """Steps that ruin fusion and codebooks leave those of the start."""
    data = prepare_pairs(table, tmp_path / "tree", _raise)
    recipe = fine_tuning_recipe(data, start=str(coded_model))
    assert recipe.quantizer is not None and recipe.encoder is not None
    object.__setattr__(recipe.encoder.loop, "learning_rate", 1e-12)
    for name, value in (("gamma", 1e9), ("contrast", 0.0), ("temperature", 1e3)):
        object.__setattr__(recipe.quantizer, name, value)
    object.__setattr__(recipe.quantizer.loop, "learning_rate", 1.0)
    model = train_model(recipe, data.tree, tmp_path / "model", cache=pipeline.default_cache())
    start = Model.open(coded_model)
    assert model.quantizer.sizes == start.quantizer.sizes
    for book, expected in zip(model.quantizer.codebooks, start.quantizer.codebooks, strict=True):
        np.testing.assert_array_equal(book, expected)
    inputs = start.fusion_inputs([Query(text="a red square")])
    np.testing.assert_allclose(model.vectors(inputs), start.vectors(inputs), atol=1e-5)


def test_a_fitted_model_gets_new_codes(table: Path, coded_model: Path, tmp_path: Path) -> None:
    """It codes embeddings themselves: there is no fusion to start from."""
    items = [Item(str(number), f"{colour} number {number}") for number in range(8) for colour in COLOURS[:1]]
    fitted = Model.fit(items, encoder=str(coded_model), out=tmp_path / "fitted")
    data = prepare_pairs(table, tmp_path / "tree", _raise)
    recipe = fine_tuning_recipe(data, start=str(fitted.path))
    assert recipe.quantizer is not None and not recipe.quantizer.start


def test_a_dry_run_says_what_would_be_done_and_leaves_nothing(
    table: Path, coded_model: Path, tmp_path: Path
) -> None:
    before = sorted(tmp_path.iterdir())
    printed = train("--pairs", table, "--start", coded_model, "-o", tmp_path / "model", "--dry-run").output
    assert "stage encoder:" in printed
    assert "held out" in printed
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("arguments", [(), ("demo",), ("--tree", "tree")])
def test_without_data_the_ways_in_are_named(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"--pairs TABLE .* --tree TREE .* genius fit"):
        train(*arguments, "-o", tmp_path / "model")


def test_pairs_stand_alone(table: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs neither a recipe nor a tree"):
        train("demo", "--pairs", table, "-o", tmp_path / "model")


def test_a_start_of_another_encoder_is_refused(
    table: Path, coded_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = prepare_pairs(table, tmp_path / "tree", _raise)
    recipe = fine_tuning_recipe(data, start=str(coded_model))
    open_model = Model.open

    def opened(path: Path | str) -> Model:
        model = open_model(path)
        model.settings["encoder"] = {**model.settings["encoder"], "fingerprint": "f" * 64}
        return model

    monkeypatch.setattr(Model, "open", opened)
    with pytest.raises(MismatchError, match="start from a model of the same encoder"):
        train_model(recipe, data.tree, tmp_path / "model", cache=pipeline.default_cache())


def _raise(error: InputError) -> None:
    raise error
