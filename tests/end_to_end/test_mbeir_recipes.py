"""The full-size recipes, end to end on a small tree with the names of M-BEIR on the hub, in small sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("faiss")
pytest.importorskip("onnx")
import torch
from typer.testing import CliRunner

from genius import dense_model
from genius.cli import app
from genius.corpus.items import read_items, read_training_items
from genius.corpus.queries import read_queries
from genius.data.mbeir import SPLITS, Tree
from genius.decode.t5 import DecoderSettings
from genius.encode import pipeline
from genius.encode.clip import Clip
from genius.encode.inputs import EncoderInputs, InputRows
from genius.errors import InputError, MissingError
from genius.evaluate.paper import PaperComparison
from genius.evaluate.run import evaluate_model
from genius.train.loop import LoopSettings
from genius.train.recipe import Recipe, description, read_recipe
from genius.train.run import train_model
from genius.train.towers import TowerSettings
from tests.encode.small_clip import write_clip
from tests.hub_tree import QUERIES, write_hub_tree

ROOT = Path(__file__).parents[2]
Loop = TypeVar("Loop", bound=LoopSettings)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("mbeir")
    write_clip(folder / "clip")
    write_hub_tree(folder / "M-BEIR", ("mscoco", "nights", "oven"))
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        for module in (pipeline, dense_model):
            patch.setattr(module, "cores", lambda: 1)  # a CLIP's threads are those of the whole process
        torch.set_num_threads(1)
        yield folder
    torch.set_num_threads(threads)


def shipped(name: str) -> Recipe:
    return read_recipe(ROOT / f"recipes/{name}.toml")


def few_steps(loop: Loop) -> Loop:
    return dataclasses.replace(loop, steps=6, validate_every=3, save_every=3, warm_up=1)


def small(recipe: Recipe, home: Path) -> Recipe:
    """A recipe with its own choices, in sizes that a moment is enough for."""
    assert recipe.towers and recipe.quantizer
    towers = dataclasses.replace(recipe.towers, source=str(home / "clip"), device="cpu")
    quantizer = dataclasses.replace(
        recipe.quantizer,
        batch=16,
        device="cpu",
        validated=4,
        codebooks=dataclasses.replace(recipe.quantizer.codebooks, levels=3, size=8, iterations=5),
        fusion=dataclasses.replace(
            recipe.quantizer.fusion, hidden=16, width=min(recipe.quantizer.fusion.width, 20)
        ),
        loop=few_steps(recipe.quantizer.loop),
    )
    decoder = recipe.decoder
    if decoder is not None:
        network = DecoderSettings(
            **dataclasses.asdict(decoder.network)
            | {"layers": 1, "width": 32, "heads": 2, "head_width": 16, "feed_forward": 64, "prefix": 4}
        )
        decoder = dataclasses.replace(
            decoder, batch=16, validated=4, device="cpu", network=network, loop=few_steps(decoder.loop)
        )
    return dataclasses.replace(recipe, towers=towers, quantizer=quantizer, decoder=decoder)


@pytest.mark.parametrize("name", ["mbeir-paper", "mbeir-best"])
def test_a_recipe_trains_and_is_measured_by_the_paper_s_tables(name: str, home: Path) -> None:
    whole = shipped(name)
    assert whole.towers and whole.quantizer
    assert whole.quantizer.codebooks.all_sizes == (3, *(4096,) * 8)
    assert whole.quantizer.upsampled and whole.pools == "training"
    assert whole.quantizer.device == "cuda" and whole.quantizer.precision == "bfloat16"
    tree, cache = home / "M-BEIR", home / "cache"
    model = train_model(small(whole, home), Tree(tree), home / name, cache=cache, force=True)
    stages = ["encoder", "quantizer", "decoder"] if name == "mbeir-paper" else ["encoder", "quantizer"]
    assert model.stages == stages and model.fusion_kind == "score"
    assert model.settings["recipe"]["pools"] == "training"
    assert model.encoder.fingerprint == Clip.open(home / "clip").fingerprint  # frozen
    result = evaluate_model(tree, model.path, split="test", cache=cache, protocol="genius")
    comparison = PaperComparison(result)
    ours = [figure for figure in comparison.figures() if figure.system and figure.ours is not None]
    assert {figure.queries for figure in ours} == {QUERIES}
    assert {figure.task for figure in ours if figure.table == 9} == {
        *("mscoco_task0", "mscoco_task3", "nights_task4", "oven_task6", "oven_task8")
    }
    row = "genius" if name == "mbeir-paper" else "geometry"
    systems = {f"{row}-b{beams}{more}" for beams in (30, 50) for more in ("", "+rerank")}
    assert {figure.system for figure in ours} == {"dense", *systems}
    # It reads the same split of the same features again, and so finds all of it in the cache.
    folders = [path.name for path in cache.glob("*/tree-*")]
    assert sorted(name.rpartition("-instructed")[2] for name in folders) == ["-test", "-train-val"]


def test_a_dry_run_says_what_the_recipes_cost(home: Path) -> None:
    arguments = ["train", "mbeir-paper", "--tree", str(home / "M-BEIR"), "--dry-run"]
    shown = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "1. take clip-sf-large as it is" in shown.stdout
    assert "On one RTX 3090 (24 GB" in shown.stdout and "stage decoder: 40,362 steps" in shown.stdout
    assert "this machine's processor" not in shown.stdout
    shown = CliRunner().invoke(app, [*arguments, "--gpu", "H100"], catch_exceptions=False)
    assert "On one H100 (80 GB" in shown.stdout
    with pytest.raises(InputError, match="there is no data sheet of 'abacus'"):
        CliRunner().invoke(app, [*arguments, "--gpu", "abacus"], catch_exceptions=False)


def test_a_recipe_for_a_gpu_is_refused_where_there_is_none(home: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("here is one")
    recipe = dataclasses.replace(
        small(shipped("mbeir-best"), home), quantizer=shipped("mbeir-best").quantizer
    )
    with pytest.raises(MissingError, match=r'trains quantizer on a GPU.*say device = "cpu" in \[quantizer\]'):
        train_model(recipe, Tree(home / "M-BEIR"), home / "none", cache=home / "cache")


def test_frozen_towers_have_nothing_to_train() -> None:
    with pytest.raises(InputError, match="a transformer to train: it can't be frozen"):
        TowerSettings("clip", frozen=True, fusion_kind="tokens")


def test_a_recipe_that_takes_all_pools_is_described_as_before() -> None:
    assert "pools" not in description(read_recipe("demo"))
    assert description(shipped("mbeir-best"))["pools"] == "training"


# --- what of the tree is trained on


def test_answers_that_only_the_training_pool_holds_are_trained_on(home: Path) -> None:
    tree = Tree(home / "M-BEIR")
    for splits in (SPLITS, ("train", "val")):
        inputs = EncoderInputs()
        inputs.add_tree(tree, splits)
        source = InputRows(inputs)
        items = read_training_items(tree, source, splits)
        queries = {str(task.task): task for task in read_queries(tree, source, items, "train")}
        assert len(queries["mscoco_task0"]) == QUERIES
        every = {item.id for split in splits for item in tree.items(split)}
        assert set(items.ids) == every
    tested = read_items(tree, source, "test")
    assert set(tested.ids) < {item.id for split in SPLITS for item in tree.items(split)}
    view = tree.only("mscoco")
    answers = {answer for query in view.queries("train") for answer in query.positives}
    assert len(answers) == 2 * QUERIES and answers <= {item.id for item in view.items("train")}


def test_the_mix_repeats_small_data_sets(home: Path) -> None:
    repetitions = Tree(home / "M-BEIR").repetitions()
    queries = {query.id: query.dataset for query in Tree(home / "M-BEIR").queries("train")}
    assert {id: 3 if dataset == "nights" else 1 for id, dataset in queries.items()} == repetitions
    assert np.sum(list(repetitions.values())) == QUERIES * (4 + 3)
