"""An evaluation by embeddings that others extracted equals one that encodes, and an index takes them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("faiss")
pytest.importorskip("onnx")
import torch
from typer.testing import CliRunner

from genius import Model, dense_model
from genius.cli import app
from genius.data.mbeir import UNION, Tree
from genius.encode import pipeline
from genius.encode.direct import image_features
from genius.errors import InputError, MissingError
from genius.evaluate.run import evaluate_model
from genius.train.recipe import Recipe
from genius.train.run import train_model
from genius.train.towers import TowerSettings
from tests.encode.small_clip import write_clip
from tests.hub_tree import write_hub_tree

MOST_ITEMS, MOST_QUERIES = 10_000_000, 500_000


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A tree, a CLIP model that sums its features, and that model's embeddings in UniIR's files."""
    folder = tmp_path_factory.mktemp("given")
    write_clip(folder / "clip")
    write_hub_tree(folder / "M-BEIR", ("mscoco", "cirr"))
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        for module in (pipeline, dense_model):
            patch.setattr(module, "cores", lambda: 1)
        torch.set_num_threads(1)
        tree = Tree(folder / "M-BEIR")
        recipe = Recipe("clip", towers=TowerSettings(str(folder / "clip"), frozen=True))
        model = train_model(recipe, tree, folder / "model", cache=folder / "cache")
        write_embeddings(tree, model, folder / "embed")
        yield folder
    torch.set_num_threads(threads)


def write_embeddings(tree: Tree, model: Model, folder: Path) -> None:
    """As UniIR's embedder leaves them: a file for each local pool, and one for each task's test queries."""
    for kind in ("cand_pool", "test"):
        (folder / kind).mkdir(parents=True)
    for name in tree.pools:
        if name != UNION:
            items = list(tree.pool(name))
            _save(folder / "cand_pool", f"{name}_cand_pool", model.embed_items(items), items, MOST_ITEMS)
    for task in tree.tasks("test"):
        queries = list(tree.queries("test", task))
        _save(folder / "test", f"{task}_test", model.embed_queries(queries), queries, MOST_QUERIES)


def _save(folder: Path, name: str, rows: np.ndarray, records: list, most: int) -> None:  # type: ignore[type-arg]
    numbers = [[int(part) for part in record.id.split(":")] for record in records]
    np.save(folder / f"mbeir_{name}_embed.npy", rows.astype(np.float16))
    np.save(folder / f"mbeir_{name}_ids.npy", [dataset * most + number for dataset, number in numbers])


def test_the_figures_are_those_of_encoding(home: Path) -> None:
    results = [
        evaluate_model(
            home / "M-BEIR",
            home / "model",
            split="test",
            cache=home / "cache",
            protocol="genius",
            vectors=given,
        )
        for given in (None, home / "embed")
    ]
    encoded, taken = ({m.key: m.value for m in result.evaluation.measurements} for result in results)
    assert taken == pytest.approx(encoded)
    assert results[1].settings["vectors"] == "embed" and "features" not in results[1].made_from


def test_features_of_parts_are_summed_up_as_they_are(home: Path, tmp_path: Path) -> None:
    """GENIUS's pools have features of images and of texts, of any length, for absent parts too."""
    tree, model = Tree(home / "M-BEIR"), Model.open(home / "model")
    for name in tree.pools:
        items = [item for item in tree.pool(name) if name != UNION]
        if not items:
            continue
        numbers = [[int(part) for part in item.id.split(":")] for item in items]
        images = [item.image for item in items if item.image]
        texts = [model.read_text(item.text) for item in items]
        features = np.ones((len(items), model.width), np.float32)
        has_image = np.array([item.image is not None for item in items])
        if images:
            features[has_image] = image_features(model.encoder, images)[0]
        pool = {
            "img": torch.from_numpy(features),
            "text": torch.from_numpy(model.encoder.encode_texts(texts)),
            "img_mask": torch.from_numpy(has_image.astype(np.int64)),
            "text_mask": torch.tensor([int(bool(text)) for text in texts]),
            "id_to_index": {
                dataset * MOST_ITEMS + number: row for row, (dataset, number) in enumerate(numbers)
            },
        }
        torch.save(pool, tmp_path / f"cand_pool_{name}_IT_dict.pt")
    shutil.copytree(home / "embed/test", tmp_path / "test")
    evaluations = [
        evaluate_model(home / "M-BEIR", model.path, split="test", cache=home / "cache", vectors=vectors)
        for vectors in (None, tmp_path)
    ]
    encoded, taken = ({m.key: m.value for m in result.evaluation.measurements} for result in evaluations)
    assert taken == pytest.approx(encoded)


def test_a_model_of_vectors_is_fitted_indexed_and_evaluated(home: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    pools, tree, model = str(home / "embed"), str(home / "M-BEIR"), str(tmp_path / "fitted")
    fitted = run(app, ["fit", tree, "--encoder", "precomputed", "--vectors", pools, "-o", model])
    assert fitted.exit_code == 0, fitted.output
    index = ["index", tree, "-m", model, "--vectors", pools, "-o", str(tmp_path / "index")]
    assert run(app, index, catch_exceptions=False).exit_code == 0
    arguments = ["evaluate", tree, "-m", model, "--protocol", "genius", "--vectors", pools]
    shown = run(app, arguments, catch_exceptions=False)
    assert shown.exit_code == 0 and "Table 9 of the supplement" in shown.stdout


def test_a_device_that_is_not_here_is_named(home: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("here is one")
    arguments = ["evaluate", str(home / "M-BEIR"), "-m", str(home / "model"), "--device", "cuda:99"]
    with pytest.raises(MissingError, match="torch finds no CUDA here"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_what_does_not_fit_is_named(home: Path, coded_model: Path, tmp_path: Path) -> None:
    def evaluate(model: Path, vectors: Path) -> None:
        evaluate_model(
            home / "M-BEIR", model, split="test", cache=home / "cache", protocol="genius", vectors=vectors
        )

    with pytest.raises(InputError, match="makes embeddings by heads or tokens of its own"):
        evaluate(coded_model, home / "embed")
    with pytest.raises(InputError, match="should be a folder with vectors of items and of queries"):
        evaluate(home / "model", home / "embed/test/mbeir_cirr_task7_test_embed.npy")
    for kind in ("cand_pool", "test"):
        (tmp_path / kind).mkdir()
        for file in (home / "embed" / kind).glob("*cirr*"):
            (tmp_path / kind / file.name).write_bytes(file.read_bytes())
    with pytest.raises(InputError, match=r"48 of 60 have no vector here, such as item '9:\d+'"):
        evaluate(home / "model", tmp_path)
    for file in (home / "embed").rglob("*_ids.npy"):
        rows = np.load(file.with_name(file.name.replace("_ids", "_embed")))
        np.save(tmp_path / file.parent.name / file.name, np.load(file))
        np.save(tmp_path / file.parent.name / file.name.replace("_ids", "_embed"), np.tile(rows, 2))
    with pytest.raises(InputError, match="a vector has 64 numbers, and this model takes 32"):
        evaluate(home / "model", tmp_path)
    arguments = [
        "evaluate",
        str(home / "M-BEIR"),
        "-m",
        str(home / "model"),
        "--vectors",
        str(home / "embed"),
    ]
    with pytest.raises(InputError, match="--exclude-query-item compares images and texts"):
        CliRunner().invoke(app, [*arguments, "--exclude-query-item"], catch_exceptions=False)
