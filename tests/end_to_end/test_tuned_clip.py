"""A CLIP fine-tuned on a tree becomes a model: by the sum of its features (SF), by its tokens (FF), or under
heads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("faiss")
pytest.importorskip("onnx")
import torch
import transformers
from typer.testing import CliRunner

from genius import dense_model, storage
from genius.cli import app
from genius.data.images import load
from genius.data.mbeir import Tree
from genius.data.records import Item, Query
from genius.encode import pipeline
from genius.encode.clip import Clip
from genius.encode.clip_fusion import TokenFusion, TokenFusionSettings
from genius.errors import MismatchError
from genius.evaluate.run import evaluate_model
from genius.model import Model
from genius.train.run import read_recipe, train_model
from tests.encode.small_clip import tokens_of, write_clip

RECIPE = """
name = "tuned"
[towers]
source = "{source}"
fusion_kind = "{fusion_kind}"
batch = 16
temperature = 0.1
validated_items = 20
[towers.loop]
steps = 4
learning_rate = 1e-3
warm_up = 0
validate_every = 2
"""
FUSION = """
[towers.fusion]
layers = 1
heads = 2
head_width = 8
inner_width = 16
"""
HEADS = """
[encoder]
towers = "clip"
batch = 8
negatives = 8
[encoder.heads]
width = 48
raw = 8
hidden = 32
image_parts = ["features:32"]
text_parts = ["features:32"]
[encoder.loop]
steps = 10
warm_up = 2
validate_every = 10
"""

QUERIES = [
    Query(text="a red dog", instruction="find a cat"),
    Query(text="the house"),
    Query(text="old"),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("tuned")
    write_clip(folder / "clip")
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        for module in (pipeline, dense_model):
            patch.setattr(module, "cores", lambda: 1)  # a CLIP's threads are those of the whole process
        patch.setattr(pipeline, "default_cache", lambda: folder / "cache")
        torch.set_num_threads(1)
        yield folder
    torch.set_num_threads(threads)


Trained = Callable[[str, str], Path]


@pytest.fixture(scope="module")
def trained(home: Path, miniature: Path) -> Trained:
    """Trains a model once: the kind of fusion, and what else its recipe says."""

    def made(fusion_kind: str, more: str = "") -> Path:
        name = f"{fusion_kind}-heads" if more == HEADS else fusion_kind
        if not (home / name).exists():
            recipe = home / f"{name}.toml"
            recipe.write_text(RECIPE.format(source=home / "clip", fusion_kind=fusion_kind) + more)
            train_model(read_recipe(recipe), Tree(miniature), home / name, cache=home / "cache")
        return home / name

    return made


def records(miniature: Path) -> tuple[list[Item], list[Query]]:
    """Items and queries of all modalities."""
    tree = Tree(miniature)
    items = [item for item in tree if not item.id.endswith(":90")][::3]  # one picture is missing
    return items, [*QUERIES, *tree.queries("test")]


def tuned_parts(model: Path) -> tuple[Any, Any, Any]:
    """The tuned CLIP, its tokenizer and its preparation of images, all of them transformers' own."""
    folder = model / "towers"
    return (
        transformers.CLIPModel.from_pretrained(folder).eval(),
        transformers.AutoTokenizer.from_pretrained(folder),
        transformers.AutoImageProcessor.from_pretrained(folder),
    )


def unit(rows: Any) -> np.ndarray:
    vectors = np.stack([np.asarray(row) for row in rows])
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def cleaned(text: str | None) -> str:
    """(What the miniature's texts look like when they are cleaned.)"""
    return "" if not text else text[0].upper() + text[1:].rstrip(".") + "."


def text_of(query: Query) -> str:
    return f"{cleaned(query.instruction)} {cleaned(query.text)}".strip()


def test_the_sum_of_a_tuned_clip(trained: Trained, miniature: Path) -> None:
    path = trained("score", "")
    clip, tokenizer, processor = tuned_parts(path)
    original = transformers.CLIPModel.from_pretrained(path.parent / "clip")
    assert not torch.equal(clip.visual_projection.weight, original.visual_projection.weight)
    assert not torch.equal(clip.text_projection.weight, original.text_projection.weight)

    @torch.no_grad()
    def embeddings(image: Any, text: str) -> np.ndarray:
        total = torch.zeros(clip.config.projection_dim)
        if image is not None:
            pixels = processor([load(image)], return_tensors="pt")["pixel_values"]
            total = total + clip.get_image_features(pixel_values=pixels).pooler_output[0]
        if text:
            tokens = tokenizer([text], truncation=True, max_length=12, return_tensors="pt")
            total = total + clip.get_text_features(**tokens).pooler_output[0]
        return total.numpy()

    items, queries = records(miniature)
    model = Model.open(path)
    expected = unit(embeddings(item.image, cleaned(item.text)) for item in items)
    np.testing.assert_allclose(model.embed_items(items), expected, atol=1e-3)  # features have 16 bits
    expected = unit(embeddings(query.image, text_of(query)) for query in queries)
    np.testing.assert_allclose(model.embed_queries(queries), expected, atol=1e-3)


def test_the_tokens_of_a_tuned_clip(trained: Trained, miniature: Path) -> None:
    path = trained("tokens", FUSION)
    clip = Clip.open(path / "towers")
    from safetensors.torch import load_file

    settings = TokenFusionSettings(layers=1, heads=2, head_width=8, inner_width=16)
    fusion = TokenFusion(32, clip.text_length, settings)
    fusion.load_state_dict(load_file(path / "fusion.safetensors"))
    fusion.eval()

    @torch.no_grad()
    def embeddings(image: Any, text: str) -> np.ndarray:
        made: np.ndarray = fusion(*tokens_of(clip, [image and load(image)], [text or None]))[0].numpy()
        return made

    items, queries = records(miniature)
    model = Model.open(path)
    expected = unit(embeddings(item.image, cleaned(item.text)) for item in items)
    np.testing.assert_allclose(model.embed_items(items), expected, atol=1e-5)
    expected = unit(embeddings(query.image, text_of(query)) for query in queries)
    np.testing.assert_allclose(model.embed_queries(queries), expected, atol=1e-5)
    nothing = np.zeros((1, 32), np.float32), np.array([True])
    with pytest.raises(MismatchError, match="embeds pictures and texts by their tokens, so it can't start"):
        model.embed_item_features(nothing, nothing, np.array([0]))


@pytest.mark.parametrize(("fusion_kind", "more"), [("score", ""), ("tokens", FUSION), ("score", HEADS)])
def test_evaluation(trained: Trained, miniature: Path, home: Path, fusion_kind: str, more: str) -> None:
    path = trained(fusion_kind, more)
    shown = CliRunner().invoke(
        app, ["evaluate", str(miniature), "-m", str(path), "--pool", "local"], catch_exceptions=False
    )
    assert "dense-fair" in shown.output
    assert "oven_task8" in shown.output
    result = evaluate_model(miniature, path, split="test", cache=home / "cache", pools=("union",))
    embedded = Model.open(path)
    tree = Tree(miniature)
    pool = [item for item in tree.pool("union") if not item.id.endswith(":90")]
    items = embedded.embed_items(pool)
    for run in result.evaluation.runs:
        if run.system != "dense" or str(run.task) not in ("webqa_task1", "mscoco_task3", "oven_task8"):
            continue
        queries = list(tree.queries("test", run.task))
        scores = embedded.embed_queries(queries) @ items.T
        for query, row in zip(queries, scores, strict=True):
            ranking = [pair for pair in run.results[query.id] if not pair[0].endswith(":90")]
            # Cached features have 16 bits, and equal contents any order.
            np.testing.assert_allclose(
                [score for _, score in ranking][:20], np.sort(row)[::-1][:20], atol=5e-3
            )


def test_the_query_s_own_item_can_be_left_out(trained: Trained, miniature: Path, home: Path) -> None:
    """In task 4 the query's image is an item of the pool, and here its only positive."""
    for fusion_kind, more in (("score", ""), ("tokens", FUSION)):
        path = trained(fusion_kind, more)
        for exclude in (False, True):
            result = evaluate_model(
                miniature,
                path,
                split="test",
                cache=home / "cache",
                tasks=["webqa_task4"],
                pools=("local",),
                exclude=exclude,
            )
            assert (result.evaluation.value("dense", "local", "webqa_task4", "hit@10") > 0) != exclude


def test_a_model_needs_nothing_else(trained: Trained, tmp_path: Path) -> None:
    """Moved elsewhere, without the CLIP that it began with and the folder where it was trained."""
    for fusion_kind, more in (("score", ""), ("tokens", FUSION), ("score", HEADS)):
        path = trained(fusion_kind, more)
        before = Model.open(path).embed_queries(QUERIES)
        moved = tmp_path / path.name
        path.rename(moved)
        try:
            np.testing.assert_array_equal(Model.open(moved).embed_queries(QUERIES), before)
            manifest = storage.open(moved, kind="model", verify=True).manifest
            assert {"towers/config.json", "towers/model.safetensors", "towers/vocab.json"} <= set(
                manifest.files
            )
        finally:
            moved.rename(path)


def test_heads_over_tuned_towers(trained: Trained, home: Path) -> None:
    with_heads, without = Model.open(trained("score", HEADS)), Model.open(trained("score", ""))
    assert (with_heads.fusion_kind, without.fusion_kind) == ("heads", "score")
    assert with_heads.encoder.fingerprint == without.encoder.fingerprint, "the same seed, the same towers"
    assert with_heads.encoder.fingerprint != Clip.open(home / "clip").fingerprint
    assert (with_heads.width, without.width) == (48, 32)


def test_the_same_recipe_again_does_nothing(trained: Trained, home: Path, miniature: Path) -> None:
    path = trained("tokens", FUSION)
    before = storage.read_manifest(path)
    train_model(read_recipe(home / "tokens.toml"), Tree(miniature), path, cache=home / "cache")
    assert storage.read_manifest(path) == before
    again = home / "again"
    train_model(read_recipe(home / "tokens.toml"), Tree(miniature), again, cache=home / "cache")
    assert storage.read_manifest(again).fingerprint == before.fingerprint, "the same seed, the same model"
