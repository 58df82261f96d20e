"""A model's folder: stages, what it refuses, and folders of format 1."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genius import storage
from genius.data.records import ImageBytes, Item, Query
from genius.dense_model import TENSOR_FILES
from genius.errors import MismatchError, MissingError
from genius.model import FORMAT, KIND, Model
from genius.tensors import read_tensors, tensor_for_graph
from tests.encode.small_clip import IMAGES, TEXTS, write_clip
from tests.pictures import encoded

pytest.importorskip("torch")
pytest.importorskip("onnx")
import onnx
import torch

IMAGE = ImageBytes(encoded(IMAGES[1]), "noise.png")
QUERIES = [
    Query(text="the red one", instruction="Find a picture."),
    Query(image=IMAGE),
    Query(text="a blue square", image=IMAGE, instruction="Find a text."),
]
ITEMS = [Item("a", "a red square"), Item("b", image=IMAGE), Item("c", "the grey one", IMAGE)]

OLD_NAMES = {"fusion_kind": "joining", "dense_baseline": "fair", "embeddings": "joined"}
OLD_TENSORS = {"up": "widen", "down": "shrink", "mlp_norm": "inner_norm"}


def rename_in_graph(content: bytes, old: str, new: str) -> bytes:
    """The ONNX model with another name for a value, inside and outside."""
    model = onnx.load_from_string(content)
    for values in (model.graph.input, model.graph.output):
        for value in values:
            value.name = new if value.name == old else value.name
    for node in model.graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
        node.output[:] = [new if name == old else name for name in node.output]
    return bytes(model.SerializeToString())


def with_its_tensors(artifact: storage.Artifact, name: str) -> bytes:
    """A graph that holds its tensors, as graphs did before they shared them."""
    model = onnx.load(artifact.file(name), load_external_data=False)
    tensors = read_tensors(artifact.file(TENSOR_FILES[name])) if name in TENSOR_FILES else {}
    for constant in model.graph.initializer:
        if constant.data_location == onnx.TensorProto.EXTERNAL:
            tensor = tensor_for_graph(tensors, constant.name)
            constant.CopyFrom(onnx.numpy_helper.from_array(tensor, constant.name))
    return bytes(model.SerializeToString())


def write_as_format_1(model: Path, out: Path) -> Path:
    """The same model with the names that settings, values, graphs and tensors had in format 1."""
    from safetensors.torch import load_file, save_file

    new = storage.open(model, kind=KIND, format=FORMAT)

    def old_names(settings: dict[str, Any]) -> dict[str, Any]:
        return {
            OLD_NAMES.get(name, name): OLD_NAMES.get(value, value) if isinstance(value, str) else value
            for name, value in settings.items()
        }

    settings = old_names(new.manifest.settings)
    settings.pop("tensors", None)
    if "quantizer" in settings:
        settings["quantizer"] = old_names(settings["quantizer"]) | {"memory": {"entries": 0, "gain": 120.0}}
    with storage.create(
        out, kind=KIND, format=1, settings=settings, made_from=new.manifest.made_from
    ) as draft:
        graphs = [
            name for name in new.manifest.files if name in ("items.onnx", "queries.onnx", "fusion.onnx")
        ]
        tensors = [name for name in new.manifest.files if name == "fusion.safetensors"]
        draft.reuse(new, *(name for name in new.manifest.files if name not in graphs + tensors))
        for name in graphs:
            content = with_its_tensors(new, name)
            content = rename_in_graph(content, "embeddings", "joined")
            (draft.folder / name).write_bytes(content)
        for name in tensors:
            renamed = {
                ".".join(OLD_TENSORS.get(part, part) for part in key.split(".")): value
                for key, value in load_file(new.file(name)).items()
            }
            save_file(renamed, draft.folder / name)
    return out


def test_a_coded_model_of_format_1_is_read(coded_model: Path, tmp_path: Path) -> None:
    new, old = Model.open(coded_model), Model.open(write_as_format_1(coded_model, tmp_path / "old"))
    manifest = storage.read_manifest(old.path)
    assert manifest.format == 1
    assert manifest.settings["joining"] == "heads"
    assert manifest.settings["quantizer"]["fair"] in ("joined", "vectors")
    graph_inputs = [declared.name for declared in onnx.load(old.path / "fusion.onnx").graph.input]
    assert "joined" in graph_inputs and "embeddings" not in graph_inputs
    for name in ("fusion_kind", "dense_baseline", "width", "stages"):
        assert getattr(old, name) == getattr(new, name)
    assert old.settings == {name: value for name, value in new.settings.items() if name != "tensors"}
    np.testing.assert_array_equal(old.embed_items(ITEMS), new.embed_items(ITEMS))
    expected, inputs = new.fusion_inputs(QUERIES), old.fusion_inputs(QUERIES)
    np.testing.assert_array_equal(inputs.embeddings, expected.embeddings)
    vectors = old.vectors(inputs)
    np.testing.assert_array_equal(vectors, new.vectors(expected))
    modality = np.zeros(len(QUERIES), np.int64)
    np.testing.assert_array_equal(
        old.quantizer.codes(vectors, modality), new.quantizer.codes(vectors, modality)
    )


@pytest.mark.parametrize(("old", "new"), [("joined", "embeddings"), ("vectors", "vectors")])
def test_the_dense_baseline_of_format_1(coded_model: Path, tmp_path: Path, old: str, new: str) -> None:
    source = storage.open(coded_model)
    settings = dict(source.manifest.settings)
    settings["quantizer"] = {"fair": old}
    with storage.create(tmp_path / "old", kind=KIND, format=1, settings=settings):
        pass
    assert Model.open(tmp_path / "old").dense_baseline == new


@pytest.fixture
def token_model(tmp_path: Path) -> Path:
    """A model that fuses the tokens of a small CLIP, not trained."""
    pytest.importorskip("transformers")
    from safetensors.torch import save_file

    from genius.encode.clip import Clip
    from genius.encode.clip_fusion import TokenFusion, TokenFusionSettings

    write_clip(tmp_path / "clip")
    clip = Clip.open(tmp_path / "clip")
    settings = TokenFusionSettings(layers=1, heads=2, head_width=8, inner_width=16)
    torch.manual_seed(0)
    fusion = TokenFusion(32, clip.text_length, settings)
    content = {
        "stages": ["encoder"],
        "fusion_kind": "tokens",
        "encoder": {"kind": "clip", "source": str(tmp_path / "clip"), "fingerprint": clip.fingerprint},
        "width": 32,
        "fusion": dataclasses.asdict(settings),
    }
    with storage.create(tmp_path / "model", kind=KIND, format=FORMAT, settings=content) as draft:
        save_file(fusion.state_dict(), draft.folder / "fusion.safetensors")
    return tmp_path / "model"


def open_in_this_process(path: Path) -> Model:
    """A CLIP's threads are those of the whole process, so they stay as they are."""
    return Model.open(path, threads=torch.get_num_threads())


def test_a_model_with_token_fusion_of_format_1_is_read(token_model: Path, tmp_path: Path) -> None:
    from safetensors import safe_open

    new = open_in_this_process(token_model)
    old = open_in_this_process(write_as_format_1(token_model, tmp_path / "old"))
    with safe_open(old.path / "fusion.safetensors", "np") as file:
        assert "layers.0.widen.weight" in file.keys()  # noqa: SIM118
    assert (old.fusion_kind, old.uses_features, old.instruction_apart) == ("tokens", False, False)
    images = [IMAGES[0], None, IMAGES[1]]
    np.testing.assert_array_equal(old.embed_records(images, TEXTS[:3]), new.embed_records(images, TEXTS[:3]))


def test_token_fusion_can_not_start_from_features(token_model: Path) -> None:
    features = np.zeros((1, 32), np.float32), np.array([True])
    model = open_in_this_process(token_model)
    calls: list[Callable[[], object]] = [
        lambda: model.embed_item_features(features, features, np.array([0])),
        lambda: model.query_fusion_inputs(features, features, features),
    ]
    for call in calls:
        with pytest.raises(MismatchError, match="by their tokens, so it can't start from features"):
            call()


def test_a_model_of_a_later_format_is_refused(tmp_path: Path) -> None:
    with storage.create(tmp_path / "model", kind=KIND, format=FORMAT + 1, settings={"stages": []}):
        pass
    with pytest.raises(MismatchError, match=f"reads format {FORMAT}: update genius"):
        Model.open(tmp_path / "model")


def test_a_stage_that_was_not_trained_is_named(coded_model: Path) -> None:
    model = Model.open(coded_model)
    with pytest.raises(
        MissingError, match=r"has no decoder yet \(it has: encoder, quantizer\); train it with"
    ):
        model.learned  # noqa: B018


def test_embeddings_by_modality_are_those_of_records_with_one_modality(coded_model: Path) -> None:
    """A record with an image and a text also has the embedding of each alone."""
    model = Model.open(coded_model)
    both, image, text = (
        model.fusion_inputs([Query(instruction="Find a text.", **parts)])
        for parts in ({"text": "a blue square", "image": IMAGE}, {"image": IMAGE}, {"text": "a blue square"})
    )
    inputs = both[slice(0, 1)]
    np.testing.assert_allclose(inputs["image"], image.embeddings, atol=1e-5)
    np.testing.assert_allclose(inputs["text"], text.embeddings, atol=1e-5)
    assert np.abs(inputs["image"] - inputs["embeddings"]).max() > 1e-3


def test_lengths_and_weights_of_each_kind_of_query(coded_model: Path) -> None:
    """A text, an image and both get their own; one number, as older models have, holds for all."""
    model = Model.open(coded_model)
    inputs = model.fusion_inputs(QUERIES)
    unscaled, settings = model.vectors(inputs), model.settings["quantizer"]
    settings |= {"query_scale": [2.0, 3.0, 1.5], "rerank": [0.1, 0.2, 0.3]}  # of images, texts, both
    np.testing.assert_allclose(model.query_vectors(inputs), unscaled * [[3.0], [2.0], [1.5]], rtol=1e-6)
    np.testing.assert_allclose(model.rerank_weights(inputs.kinds), [0.2, 0.1, 0.3], rtol=1e-6)
    as_queries = model.vectors_as_queries(unscaled, np.array([0, 1, 2]))
    np.testing.assert_allclose(as_queries, unscaled * [[2.0], [3.0], [1.5]], rtol=1e-6)
    settings |= {"query_scale": 2.0, "rerank": 0.4}
    np.testing.assert_allclose(model.query_vectors(inputs), 2 * unscaled, rtol=1e-6)
    np.testing.assert_allclose(model.rerank_weights(inputs.kinds), [0.4] * 3, rtol=1e-6)
