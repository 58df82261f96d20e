"""From a tree to a model with identifiers of a rival, by every recipe, on the miniature benchmark."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

from typer.testing import CliRunner

from genius import Index, Item, Query, storage
from genius.cli import app
from genius.corpus.coded import code_corpus
from genius.corpus.embedded import embed_corpus
from genius.corpus.items import read_items
from genius.corpus.queries import read_queries
from genius.corpus.source import open_source
from genius.data.mbeir import Tree
from genius.decode.t5 import DecoderSettings
from genius.doctor.examine import examine
from genius.errors import InputError, MismatchError, MissingError
from genius.evaluate.run import evaluate_model
from genius.identifiers.scheme import RIVALS, row_name
from genius.model import Model
from genius.train.plan import finished_stages
from genius.train.recipe import Recipe, read_recipe
from genius.train.run import plan, train_model
from tests.encode.small_towers import use_small_towers, write_small_towers
from tests.recipes import DECODED

ROOT = Path(__file__).parents[2]
RECIPES = sorted(path for path in (ROOT / "recipes" / "rivals").glob("*.toml") if "pro" not in path.stem)
"""Of those that give items other identifiers than codes, as PRO does not."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rivals")
    write_small_towers(folder / "towers")
    (folder / "small.toml").write_text(DECODED)
    return folder


@pytest.fixture(autouse=True)
def small_world(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_towers(home, monkeypatch)


def tiny(recipe: Recipe, small: Recipe, steps: int = 6) -> Recipe:
    """A recipe with its own choices, but with the sizes and steps of a small one."""
    assert recipe.decoder and small.decoder
    network = dataclasses.asdict(small.decoder.network) | {
        name: getattr(recipe.decoder.network, name)
        for name in ("start_from_codebooks", "normalisation", "special_tokens")
    }
    loop = dataclasses.replace(
        small.decoder.loop, steps=steps, validate_every=max(3, steps // 2), save_every=20
    )
    decoder = dataclasses.replace(
        recipe.decoder, batch=32, validated=4, beams=10, network=DecoderSettings(**network), loop=loop
    )
    return dataclasses.replace(recipe, encoder=small.encoder, decoder=decoder)


def train(home: Path, miniature: Path, recipe: Recipe, out: str) -> Model:
    with pytest.MonkeyPatch.context() as patch:
        use_small_towers(home, patch)
        # They share what training keeps: stage 0 is the same for all.
        return train_model(recipe, Tree(miniature), home / out, cache=home / "cache", work=home / "work")


@pytest.fixture(scope="module")
def structured(home: Path, miniature: Path) -> Path:
    """A model that has learned something."""
    recipe = read_recipe(ROOT / "recipes/rivals/grace-structured.toml")
    return train(home, miniature, tiny(recipe, read_recipe(home / "small.toml"), 150), "structured").path


def test_there_is_a_recipe_for_every_method() -> None:
    assert sorted(read_recipe(path).identifiers for path in RECIPES) == sorted(RIVALS)
    for path in RECIPES:
        recipe = read_recipe(path)
        assert recipe.encoder == read_recipe(ROOT / "recipes/paper.toml").encoder, "stage 0 is shared"
        assert recipe.identifiers != "codes"
        assert f"{path.stem}-like" == row_name(recipe.identifiers)


@pytest.mark.long
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_trains_and_is_evaluated(path: Path, miniature: Path, home: Path) -> None:
    recipe = tiny(read_recipe(path), read_recipe(home / "small.toml"))
    model = train(home, miniature, recipe, path.stem)
    name = model.identifier_name
    assert name != "codes" and name == recipe.identifiers
    assert model.stages == ["encoder", "identifiers", "decoder"]
    assert model.learned.sizes == model.identifiers.sizes
    assert model.settings["decoder"]["identifiers"] == name
    assert "nothing to do" in plan(recipe, model.path)[0]
    evaluation = evaluate_model(
        miniature, model.path, split="test", cache=home / "cache", pools=("union",)
    ).evaluation
    row = row_name(name)
    assert {run.system for run in evaluation.runs} == {"dense", "dense-fair", row, f"{row}+rerank"}
    codes = _coded_pool(model, miniature, home)
    if name != "irgen":
        assert len(np.unique(codes, axis=0)) == len(codes)
    shown = CliRunner().invoke(app, ["show", str(model.path)], catch_exceptions=False)
    assert f"{name}: " in shown.stdout


def _coded_pool(model: Model, miniature: Path, home: Path) -> np.ndarray:
    tree = Tree(miniature)
    source = open_source(model, tree, home / "cache")
    pool = read_items(tree, source)
    queries = read_queries(tree, source, pool, "test")
    return code_corpus(model, embed_corpus(model, source, pool, queries), source).codes


def test_the_decoder_memorises_and_retrieves(structured: Path, miniature: Path, home: Path) -> None:
    result = evaluate_model(
        miniature, structured, split="train", cache=home / "cache", pools=("union",)
    ).evaluation
    row, tasks = "grace-structured-like", {str(run.task) for run in result.runs}
    hits = [result.value(row, "union", task, "hit@5") for task in tasks]
    assert np.mean(hits) > 0.5, hits


def test_an_index_keeps_identifiers_apart(structured: Path, home: Path, tmp_path: Path) -> None:
    model = Model.open(structured, threads=1)
    with Index.create(tmp_path / "index", model) as index:
        for batch in range(3):
            index.add([Item(f"{batch}-{n}", "A red square.") for n in range(9)], cache=home / "cache")
        codes = [index.code(f"{batch}-{n}") for batch in range(3) for n in range(9)]
        assert len(set(codes)) == 27, "though all are alike"
        hits = index.search("a red square", want="text", k=5)
        assert (len(hits), hits.decoder) == (5, "learned")
        assert index.search("a red square", mode="paper", k=3).decoder == "learned"
        assert len(index.search(near="0-0", k=4)) == 4
        for mode in ("paper", "auto"):
            with pytest.raises(MissingError, match=r"structured identifiers have no code vectors.*learned"):
                index.search("a red square", decoder="geometry", mode=mode)


def test_other_identifiers_than_the_index_s_are_an_error(
    structured: Path, miniature: Path, home: Path, tmp_path: Path
) -> None:
    with Index.create(tmp_path / "index", structured) as index:
        index.add([Item("a", "A red square.")], cache=home / "cache")
    coded = train(home, miniature, _without_decoder(read_recipe(home / "small.toml")), "coded")
    with pytest.raises(MismatchError, match=r"have structured identifiers, but the decoder of .* codes"):
        Index.open(tmp_path / "index", coded)
    # A decoder that learned others than its own model's items have.
    changed = _with_decoder_of(structured, "numeric", tmp_path / "changed")
    with pytest.raises(MismatchError, match="learned numeric identifiers, but its items have structured"):
        Model.open(changed).learned  # noqa: B018


def test_what_needs_code_vectors_is_an_error(structured: Path, miniature: Path, home: Path) -> None:
    model, cache = Model.open(structured), home / "cache"
    for use in (lambda: model.geometry, lambda: model.quantizer, lambda: model.has_temperature):
        with pytest.raises(MissingError, match="searches by its learned decoder only"):
            use()
    with pytest.raises(MissingError, match="searches by its learned decoder only"):
        examine(Tree(miniature), model, cache=cache)
    with pytest.raises(InputError, match=r"no system 'geometry' in this model; there are: .*-like"):
        evaluate_model(miniature, structured, split="test", cache=cache, systems=("geometry",))
    with pytest.raises(InputError, match="evaluate it without --protocol genius"):
        evaluate_model(miniature, structured, split="test", cache=cache, protocol="genius")


@pytest.mark.long
def test_codes_and_identifiers_replace_each_other(miniature: Path, home: Path) -> None:
    small = read_recipe(home / "small.toml")
    rival = dataclasses.replace(tiny(read_recipe(ROOT / "recipes/rivals/tiger.toml"), small), decoder=None)
    model = train(home, miniature, rival, "either")
    assert model.stages == ["encoder", "identifiers"]
    with pytest.raises(MissingError, match="has no decoder yet"):
        model.learned  # noqa: B018
    coded = train(home, miniature, _without_decoder(small), "either")
    assert (coded.stages, coded.identifier_name) == (["encoder", "quantizer"], "codes")
    assert "identifiers.safetensors" not in storage.read_manifest(coded.path).files
    assert finished_stages(coded.path, rival) == ["encoder"]
    again = train(home, miniature, rival, "either")
    assert (again.stages, again.fingerprint) == (["encoder", "identifiers"], model.fingerprint)
    assert "codebooks.safetensors" not in storage.read_manifest(again.path).files


def test_irgen_reads_no_instruction(miniature: Path, home: Path) -> None:
    small = read_recipe(home / "small.toml")
    models = {
        name: train(
            home,
            miniature,
            dataclasses.replace(tiny(read_recipe(ROOT / f"recipes/rivals/{name}.toml"), small), decoder=None),
            f"instructed-{name}",
        )
        for name in ("irgen", "tiger")
    }
    queries = [
        Query(text="a red square", instruction=text) for text in ("Find a picture.", "Prompt 1 of webqa 1.")
    ]
    first, second = models["irgen"].embed_queries(queries)
    np.testing.assert_array_equal(first, second)
    first, second = models["tiger"].embed_queries(queries)
    assert not np.array_equal(first, second)


def _without_decoder(recipe: Recipe) -> Recipe:
    return dataclasses.replace(recipe, decoder=None)


def _with_decoder_of(model: Path, name: str, out: Path) -> Path:
    """A copy of a model whose settings say that its decoder learned other identifiers."""
    artifact = storage.open(model, kind="model")
    settings = json.loads(json.dumps(artifact.manifest.settings))
    settings["decoder"]["identifiers"] = name
    with storage.create(out, kind="model", format=artifact.manifest.format, settings=settings) as draft:
        draft.reuse(artifact, *artifact.manifest.files)
    return out
