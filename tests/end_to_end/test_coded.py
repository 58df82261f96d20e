"""From a tree to a model that codes its items and finds them by beams, on the miniature benchmark."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("faiss")

from safetensors.numpy import load_file
from typer.testing import CliRunner

from genius import storage
from genius.cli import app
from genius.data.mbeir import Tree
from genius.errors import InputError, MissingError
from genius.evaluate.run import evaluate_model
from genius.evaluate.systems import coded_systems
from genius.model import Model
from genius.search.engine import Mode
from genius.train.run import Recipe, plan, read_recipe, train_model
from tests.coded import coded_corpus, train_coded, with_codebooks
from tests.encode.small_towers import use_small_towers


@pytest.fixture(scope="module")
def home(coded_home: Path) -> Path:
    return coded_home


@pytest.fixture(autouse=True)
def small_world(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_towers(home, monkeypatch)


@pytest.fixture(scope="module")
def trained(coded_model: Path) -> Path:
    return coded_model


def _recipe(home: Path, **codebooks: object) -> Recipe:
    """The recipe with other settings of its codebooks."""
    return with_codebooks(read_recipe(home / "recipe.toml"), **codebooks)


def test_a_model_after_this_stage_searches_by_codes(trained: Path, miniature: Path, home: Path) -> None:
    model = Model.open(trained)
    assert model.stages == ["encoder", "quantizer"]
    modes: tuple[Mode, ...] = ("auto", "fast")
    result = evaluate_model(miniature, trained, split="test", cache=home / "cache", modes=modes)
    systems = {measurement.system for measurement in result.evaluation.measurements}
    rows = {f"{name}{more}" for name in ("geometry", "default", "fast") for more in ("", "+rerank")}
    assert systems == {"dense", "dense-fair", "dense-z", "codes", *rows}
    assert result.settings["modes"] == ["auto", "fast"]
    for system, scanned in (("default", 1), ("fast", 0), ("geometry", 0)):  # so few items are scanned
        assert result.evaluation.value(system, "union", "mean", "scanned") == scanned
    candidates = result.evaluation.value("default", "union", "mscoco_task0", "items")
    assert candidates == 42  # all images
    dense = result.evaluation.value("dense-fair", "union", "mean", "hit@5")
    for system in ("geometry+rerank", "default+rerank", "fast+rerank"):
        assert result.evaluation.value(system, "union", "mean", "hit@5") > 0.9 * dense
    assert result.evaluation.value("codes", "local", "mean", "hit@5") > 0.5
    inferred = evaluate_model(miniature, trained, split="test", cache=home / "cache", want=False)
    assert inferred.settings["wanted_modality"] == "inferred"
    assert inferred.evaluation.value("geometry+rerank", "local", "mean", "hit@5") > 0.5


def test_codes_of_a_corpus_are_those_of_its_items_alone(trained: Path, miniature: Path, home: Path) -> None:
    model = Model.open(trained)
    coded = coded_corpus(model, miniature, home / "cache", "test")
    np.testing.assert_array_equal(coded.codes[:, 0], coded.embedded.pool.modality)
    np.testing.assert_allclose(np.linalg.norm(coded.vectors, axis=1), 1, atol=1e-5)
    assert model.quantizer.sizes == (3, 16, 16, 16)
    assert (coded.codes < model.quantizer.sizes).all()
    for number in (0, 40, 101):
        alone = model.quantizer.codes(coded.vectors[[number]], coded.embedded.pool.modality[[number]])
        np.testing.assert_array_equal(alone[0], coded.codes[number])


@pytest.mark.long
def test_stages_that_are_done_are_left_alone_and_a_changed_one_is_trained_anew(
    trained: Path, miniature: Path, home: Path
) -> None:
    before = storage.read_manifest(trained)
    recipe = read_recipe(home / "recipe.toml")
    assert "nothing to do" in plan(recipe, trained)[0]
    train_model(recipe, Tree(miniature), trained, cache=home / "cache")
    assert storage.read_manifest(trained) == before
    changed = _recipe(home, size=4)
    steps = plan(changed, trained)
    assert len(steps) == 2
    assert "stage quantizer" in steps[1]
    train_coded(home, miniature, "copy")
    model = train_coded(home, miniature, "copy", changed)
    assert model.quantizer.sizes == (3, 4, 4, 4)
    after = storage.read_manifest(model.path)
    assert after.files["heads.safetensors"] == before.files["heads.safetensors"]
    assert after.fingerprint != before.fingerprint


@pytest.mark.long
def test_the_same_seed_gives_the_same_codebooks(miniature: Path, home: Path) -> None:
    once, again = (train_coded(home, miniature, name, work=f"{name}-work") for name in ("once", "again"))
    assert once.fingerprint == again.fingerprint


@pytest.mark.long
@pytest.mark.parametrize("kind", ["learned", "classifier", "none"])
def test_every_kind_of_modality_code_trains_and_searches(kind: str, miniature: Path, home: Path) -> None:
    model = train_coded(home, miniature, f"modality-{kind}", _recipe(home, modality_code=kind))
    assert model.quantizer.modality_code == kind
    assert len(model.quantizer.sizes) == (3 if kind == "none" else 4)
    result = evaluate_model(miniature, model.path, split="test", cache=home / "cache", pools=("local",))
    # (Thirty steps are too few for a classifier: a beam that is sent to the wrong modality finds nothing.)
    assert result.evaluation.value("geometry+rerank", "local", "mean", "hit@5") > (
        0.1 if kind == "classifier" else 0.5
    )


@pytest.mark.long
def test_the_published_fusion_and_shared_codebooks_train_too(miniature: Path, home: Path) -> None:
    recipe = _recipe(home, shared=True)
    assert recipe.quantizer is not None
    fusion = dataclasses.replace(recipe.quantizer.fusion, with_embedding=False)
    recipe = dataclasses.replace(recipe, quantizer=dataclasses.replace(recipe.quantizer, fusion=fusion))
    model = train_coded(home, miniature, "shared", recipe)
    arrays = load_file(model.path / "codebooks.safetensors")
    np.testing.assert_array_equal(arrays["level_1"], arrays["level_2"])
    evaluate_model(miniature, model.path, split="test", cache=home / "cache", pools=("local",))


def test_too_few_vectors_for_the_codes_are_refused(miniature: Path, home: Path) -> None:
    with pytest.raises(InputError, match="vectors are too few for 4096 codes"):
        train_coded(home, miniature, "too-many", _recipe(home, size=4096))


def test_a_dense_model_says_what_it_lacks(home: Path, miniature: Path) -> None:
    recipe = dataclasses.replace(read_recipe(home / "recipe.toml"), quantizer=None)
    model = train_coded(home, miniature, "dense", recipe)
    with pytest.raises(MissingError, match="has no quantizer yet"):
        model.quantizer  # noqa: B018


def test_the_default_ranks_by_code_score(trained: Path, miniature: Path, home: Path) -> None:
    model = Model.open(trained)
    coded = coded_corpus(model, miniature, home / "cache", "test")
    items, quantized = coded.embedded.pool, model.quantizer.reconstruct(coded.codes)
    search = coded_systems(model, coded)["default"]
    for task, vectors in coded.queries.items():
        wanted = np.flatnonzero(items.modality == coded.embedded.tasks[task].want)
        numbers = search(task, np.arange(len(items.ids))).numbers[:, :5]
        sq_distances = ((vectors[:, None] - quantized[wanted]) ** 2).sum(axis=2)
        ranked = ((vectors[:, None] - quantized[numbers]) ** 2).sum(axis=2)
        np.testing.assert_allclose(ranked, np.sort(sq_distances, axis=1)[:, :5], atol=1e-4)


def test_evaluate_by_inferred_modality_from_the_command_line(trained: Path, miniature: Path) -> None:
    arguments = ["evaluate", str(miniature), "-m", str(trained), "--split", "val", "--pool", "union"]
    shown = CliRunner().invoke(app, [*arguments, "--want", "inferred", "--json"], catch_exceptions=False)
    assert '"geometry"' in shown.stdout
    only = [*arguments, "--system", "default", "--system", "dense-fair", "--json"]
    shown = CliRunner().invoke(app, only, catch_exceptions=False)
    assert {json.loads(line)["system"] for line in shown.stdout.splitlines()} == {"default", "dense-fair"}
    with pytest.raises(InputError, match="no system 'sparse' in this model; there are: dense, dense-fair"):
        CliRunner().invoke(app, [*arguments, "--system", "sparse"], catch_exceptions=False)
    with pytest.raises(InputError, match="--want should be one of known, inferred"):
        CliRunner().invoke(app, [*arguments, "--want", "guessed"], catch_exceptions=False)


def _evaluated(*arguments: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    """What the command line prints as JSON, by system, task and metric."""
    shown = CliRunner().invoke(app, arguments, catch_exceptions=False)
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    return {(row["system"], row["task"], row["metric"]): row for row in rows}


def test_unseen_items_alone_with_few_beams_for_some_queries(
    trained: Path, own_miniature: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every system searches the items that training did not ask for; here one is taken out of training."""
    arguments = ["evaluate", str(own_miniature), "-m", str(trained), "--pool", "unseen", "--json"]
    with pytest.raises(InputError, match="the pool unseen has nothing to measure"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    made: list[dict[str, Any]] = []

    def systems(*arguments: Any, **options: Any) -> Any:
        made.append(options)
        return coded_systems(*arguments, **options)

    monkeypatch.setattr("genius.evaluate.run.coded_systems", systems)
    for file in (own_miniature / "query/train").iterdir():  # its query stays, with another answer
        file.write_text(file.read_text().replace('"5:201"', '"5:202"'))
    rows = _evaluated(*arguments, "--beams", "2")
    assert {task for _, task, _ in rows} == {"oven_task8", "mean"}
    assert {row["pool"] for row in rows.values()} == {"unseen"}
    assert {row["queries"] for row in rows.values()} == {1}
    assert rows["codes", "oven_task8", "hit@10"]["value"] == 1, "of nine items"
    assert made[-1]["beams"] == 2
    assert rows == _evaluated(*arguments), "so few items are all found, however few the beams"
    assert made[-1]["beams"] == 50
    sampled = _evaluated(*arguments[:4], "--queries", "3", "--json")
    by_task = {task: row["queries"] for (_, task, metric), row in sampled.items() if metric == "mrr"}
    assert by_task == {str(task): 3 for task in Tree(own_miniature).tasks("test")} | {"mean": 24}
    with pytest.raises(InputError, match="--beams has no published figures"):
        CliRunner().invoke(
            app, [*arguments[:4], "--protocol", "genius", "--beams", "2"], catch_exceptions=False
        )
