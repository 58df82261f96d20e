"""UniIR's BLIP, imported: compared with what UniIR's own code computed, and files that are not what they
should be."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("onnx")
import torch
from PIL import Image
from typer.testing import CliRunner

from genius import storage
from genius.cli import app
from genius.data.records import ImageBytes, Item, Query
from genius.encode.blip import Blip, FusedBlip
from genius.encode.encoder import PairEncoder
from genius.errors import InputError, MismatchError, MissingError
from genius.index.index import Index
from genius.model import Model
from genius.published.blip_file import TRAINING_ONLY, BlipSizes
from genius.published.run import ImportedFiles, import_model
from tests.published_models.blip_layout import (
    bert_folder,
    blip_tensors,
    golden,
    images,
    layout,
    recorded,
    save_blip,
)
from tests.published_models.layout import quantizer_tensors, save

KINDS = ["ff", "sf"]
TEXTS: list[str] = recorded()["texts"]
WORDS = "text_encoder.embeddings.word_embeddings.weight"
POOLER = "text_encoder.pooler.dense.weight"
LAYER = "text_encoder.encoder.layer.1.crossattention.self.key.weight"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(bert_folder(tmp_path_factory.mktemp("bert")))


@pytest.fixture(scope="module")
def models(tokenizer: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    home = tmp_path_factory.mktemp("blip")
    files = {kind: save_blip(kind, home / f"blip_{kind}.pth") for kind in KINDS}
    return {
        kind: import_model(ImportedFiles(blip=file, tokenizer=tokenizer), home / kind)
        for kind, file in files.items()
    }


def blip(model: Model) -> Blip:
    assert isinstance(model.encoder, Blip)
    return model.encoder


def as_item(place: int, image: Image.Image | None = None, text: str | None = None) -> Item:
    if image is None:
        return Item(str(place), text)
    content = io.BytesIO()
    image.save(content, "PNG")
    return Item(str(place), text, ImageBytes(content.getvalue()))


def unit(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_network_reads_equals_uniir_s(models: dict[str, Model], kind: str) -> None:
    encoder = blip(models[kind])
    pixels = np.stack([encoder.preprocessing.pixels(image) for image in images()])
    np.testing.assert_array_equal(pixels, golden()["pixels"])
    lengths = golden()["lengths"]
    wanted = [row[:length].tolist() for row, length in zip(golden()["tokens"], lengths, strict=True)]
    assert encoder.tokenizer.token_ids(TEXTS) == wanted
    assert encoder.too_long(TEXTS) == [False, False, False, False, True, False]


@pytest.mark.parametrize("kind", KINDS)
def test_features_equal_uniir_s(models: dict[str, Model], kind: str) -> None:
    encoder, wanted, several = blip(models[kind]), golden(), images()
    assert isinstance(encoder, PairEncoder) == isinstance(encoder, FusedBlip) == (kind == "ff")
    image_rows, text_rows = encoder.encode_images(several), encoder.encode_texts(TEXTS)
    both = image_rows + text_rows[:4]
    if isinstance(encoder, FusedBlip):
        both = encoder.encode_pairs(several, TEXTS[:4])
    for rows, name in ((image_rows, "images"), (text_rows, "texts"), (both, "both")):
        np.testing.assert_allclose(rows, wanted[f"{kind}_{name}"], rtol=0, atol=5e-6, err_msg=name)
    assert not len(encoder.encode_images([])) and not len(encoder.encode_texts([]))


@pytest.mark.parametrize("kind", KINDS)
def test_embeddings_of_items_and_queries(models: dict[str, Model], kind: str) -> None:
    """Of unit length, of all kinds of items in one call; an instruction stands before the text."""
    model, several = models[kind], images()
    assert model.fusion_kind == {"ff": "tokens", "sf": "score"}[kind]
    assert model.stages == ["encoder"] and model.width == golden()[f"{kind}_texts"].shape[1]
    items = [as_item(0, several[0]), as_item(1, text=TEXTS[1]), as_item(2, several[1], TEXTS[1])]
    expected = np.stack([golden()[f"{kind}_{name}"][row] for name, row in (("images", 0), ("texts", 1))])
    rows = model.embed_items([*items, as_item(3, several[0], TEXTS[0])])
    # features are kept in 16 bits where they are summed up
    np.testing.assert_allclose(rows[:2], unit(expected), atol=1e-3)
    np.testing.assert_allclose(rows[2:], unit(golden()[f"{kind}_both"][[1, 0]]), atol=1e-3)
    said = Query(text="red house!", instruction="find the OLD", image=None)
    whole = Query(text="Find the OLD. Red house!")
    first, second = model.embed_queries([said, whole])
    np.testing.assert_allclose(first, second, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_fitted_over_it(models: dict[str, Model], kind: str, tmp_path: Path) -> None:
    """Search by the fitted model finds what exact search by the encoder's embeddings would."""
    several = images()
    items = [as_item(n, several[n % 4].rotate(n)) for n in range(12)]
    items += [as_item(n, text=f"{TEXTS[n % 4]} {n}") for n in range(12, 24)]
    items += [as_item(n, several[n % 4].rotate(n), f"dog {n}") for n in range(24, 36)]
    model = Model.fit(items, encoder=models[kind].path, out=tmp_path / "model", cache=tmp_path / "cache")
    assert model.fusion_kind == models[kind].fusion_kind and model.stages == ["encoder", "quantizer"]
    queries = [
        Query(text="the red dog"),
        Query(text="cat", image=items[3].image),
        Query(image=items[30].image),
    ]
    wanted = models[kind].embed_queries(queries) @ models[kind].embed_items(items).T
    with Index.create(tmp_path / "index", model) as index:
        index.add(items, cache=tmp_path / "cache")
        for query, scores in zip(queries, wanted, strict=True):
            hits = index.search(query, k=36)
            assert len(hits) == 36
            np.testing.assert_allclose([hit.cosine for hit in hits], np.sort(scores)[::-1], atol=2e-3)


def test_the_layout_of_the_published_size() -> None:
    """Names and shapes as UniIR's classes have them; all else in their files is for training."""
    sizes = {"words": 30524, "positions": 512, "text": 768, "text_inner": 3072, "text_layers": 12}
    sizes |= {"vision": 1024, "vision_inner": 4096, "vision_layers": 24, "patch": 16, "grid": 14}
    for kind, fusion in (("ff", "feature"), ("sf", "score")):
        known: Any = fusion
        shapes = BlipSizes(fusion=known, width=768, **sizes).shapes()
        published = {name: shape for name, (shape, _) in layout(f"{kind}_large").items()}
        assert shapes == {name: shape for name, shape in published.items() if not TRAINING_ONLY.match(name)}
        copies = {name for name in published if "_m." in name}
        assert len(copies) == len(shapes) + 1, "a copy of each, and position_ids"
        assert len(published) - len(shapes) - len(copies) == 6, "four queues, temperature, position_ids"


def test_the_size_of_the_published_file() -> None:
    """7.49 GB, as UniIR's page says: all weights, and two moments of each that is trained."""
    published = layout("ff_large")
    stored = sum(int(np.prod(shape)) * (8 if kind == "int64" else 4) for shape, kind in published.values())
    trained = [
        shape for name, (shape, _) in published.items() if name == "temp" or not TRAINING_ONLY.match(name)
    ]
    moments = 2 * 4 * sum(int(np.prod(shape)) for shape in trained)
    assert round((stored + moments) / 1e9, 2) == 7.49


def test_what_a_model_keeps(models: dict[str, Model], tmp_path: Path) -> None:
    manifest = storage.read_manifest(models["ff"].path)
    assert set(manifest.made_from) == {"blip"}
    assert manifest.settings["imported"]["blip"]["file"] == "blip_ff.pth"
    used = {name: value for name, value in blip_tensors("ff").items() if not TRAINING_ONLY.match(name)}
    assert manifest.counts["parameters"] == sum(value.numel() for value in used.values())
    crossed = sum(value.numel() for name, value in blip_tensors("sf").items() if ".crossattention." in name)
    of_sf = {name: value for name, value in blip_tensors("sf").items() if not TRAINING_ONLY.match(name)}
    kept = storage.read_manifest(models["sf"].path).counts["parameters"]
    assert kept == sum(value.numel() for value in of_sf.values()) - crossed // 2  # half are momentum copies


def test_wrappers_are_left_out(tokenizer: str, models: dict[str, Model], tmp_path: Path) -> None:
    wrapped = {f"module._orig_mod.{name}": value for name, value in blip_tensors("ff").items()}
    files = ImportedFiles(blip=save(wrapped, tmp_path / "a.pth"), tokenizer=tokenizer)
    model = import_model(files, tmp_path / "model")
    assert model.encoder.fingerprint == models["ff"].encoder.fingerprint


@pytest.mark.parametrize(
    ("kind", "changed", "message"),
    [
        ("ff", {POOLER: None}, f"is not UniIR's BLIP-FF: missing {POOLER}$"),
        ("ff", {LAYER: None}, f"is not UniIR's BLIP-FF: missing {LAYER}$"),
        ("sf", {"vision_proj.bias": None}, "is not UniIR's BLIP-SF: missing vision_proj.bias$"),
        ("sf", {POOLER: torch.ones(2)}, f"is not UniIR's BLIP-SF: extra {POOLER}$"),
        ("ff", {"itm_head.weight": torch.ones(2)}, "is not UniIR's BLIP-FF: extra itm_head.weight$"),
        ("ff", {"temperature": torch.ones(2)}, "is not UniIR's BLIP-FF: extra temperature$"),
        (
            "ff",
            {LAYER: torch.ones(128, 128)},
            rf"holds {LAYER} with the shape \(128, 128\), but \(128, 192\)",
        ),
        ("ff", {WORDS: torch.ones(9)}, rf"holds {WORDS} with the shape \(9,\), which is none of BLIP"),
        ("ff", {POOLER: torch.full((128, 128), torch.nan)}, f"holds NaN or infinity in {POOLER}"),
    ],
)
def test_a_bad_file(tokenizer: str, tmp_path: Path, kind: str, changed: Any, message: str) -> None:
    named = {name.replace(".", "__"): value for name, value in changed.items()}
    file = save_blip(kind, tmp_path / "a.pth", **named)
    with pytest.raises(InputError, match=rf"a.pth: {message}"):
        import_model(ImportedFiles(blip=file, tokenizer=tokenizer), tmp_path / "model")
    assert not (tmp_path / "model").exists(), "nothing is left behind"


def test_a_width_that_no_blip_has(tokenizer: str, tmp_path: Path) -> None:
    sizes = BlipSizes("feature", 40, 100, 112, 40, 80, 1, 64, 128, 1, 8, 2)
    tensors = {name: torch.ones(shape) for name, shape in sizes.shapes().items()}
    file = save(tensors, tmp_path / "a.pth")
    with pytest.raises(InputError, match=r"a.pth: holds a network 40 wide, which is no multiple of 64"):
        import_model(ImportedFiles(blip=file, tokenizer=tokenizer), tmp_path / "model")


def test_files_of_other_kinds(tokenizer: str, tmp_path: Path) -> None:
    blip_file = save_blip("ff", tmp_path / "blip.pth")
    codes = save(quantizer_tensors(), tmp_path / "rq.pth")
    with pytest.raises(InputError, match=r"is a BLIP .*, but --clip takes a CLIP .*: give it as --blip"):
        import_model(ImportedFiles(blip_file, tokenizer=tokenizer), tmp_path / "model")
    with pytest.raises(InputError, match=r"is a quantizer .*, but --blip takes a BLIP .* as --quantizer"):
        import_model(ImportedFiles(blip=codes, tokenizer=tokenizer), tmp_path / "model")
    with pytest.raises(InputError, match=r"a BLIP is imported alone: .* genius fit --encoder"):
        ImportedFiles(blip=blip_file, quantizer=codes)


def test_tokenizers(models: dict[str, Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = save_blip("ff", tmp_path / "a.pth")

    def imported(tokenizer: str | None) -> Model:
        return import_model(ImportedFiles(blip=file, tokenizer=tokenizer), tmp_path / "model")

    with pytest.raises(InputError, match=r"the file of a BLIP has no tokenizer: name a folder"):
        imported(None)
    with pytest.raises(InputError, match=r"holds no tokenizer of BERT .* files of bert-base-uncased"):
        imported(str(tmp_path))
    few = bert_folder(tmp_path / "few", recorded()["words"][:-1])
    with pytest.raises(
        MismatchError, match=r"has 97 tokens, but the checkpoint needs 98 beside BLIP's own 2"
    ):
        imported(str(few))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(MissingError, match=r"neither in a folder here nor to be had from the hub"):
        imported("nobody/nothing-of-this-name")
    bert_folder(tmp_path)
    assert imported(None).encoder.fingerprint == models["ff"].encoder.fingerprint, "beside the checkpoint"


def test_a_hostile_file(tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Hostile:
        def __reduce__(self) -> Any:
            return os.system, ("touch executed",)

    monkeypatch.chdir(tmp_path)
    path = save(blip_tensors("ff"), tmp_path / "a.pth", config={"hidden": [Hostile()]})
    with pytest.raises(InputError, match=r"a.pth: was refused: it asks for .*system.*"):
        import_model(ImportedFiles(blip=path, tokenizer=tokenizer), tmp_path / "model")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.pth"]


def test_a_damaged_model(models: dict[str, Model], tmp_path: Path) -> None:
    from genius.encode.blip import open_blip

    with pytest.raises(InputError, match="holds no BLIP that genius imported"):
        open_blip(tmp_path)
    for file in (models["ff"].path / "towers").iterdir():
        (tmp_path / file.name).write_bytes(
            file.read_bytes()[:1000] if "model" in file.name else file.read_bytes()
        )
    with pytest.raises(InputError, match=r"model.safetensors: can't be read"):
        open_blip(tmp_path)


def test_the_command(tokenizer: str, tmp_path: Path) -> None:
    file, runner, out = str(save_blip("ff", tmp_path / "a.pth")), CliRunner(), str(tmp_path / "model")
    error = runner.invoke(app, ["import", "--blip", file, "--clip", file, "-o", out]).exception
    assert isinstance(error, InputError) and "only one of them" in str(error)
    result = runner.invoke(app, ["import", "--blip", file, "--tokenizer", tokenizer, "-o", out])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0].startswith("a.pth: UniIR's BLIP-FF, embeddings of 128 numbers; 1.7 million numbers, ")
    assert lines[1:] == [f"{out}: a dense model", f"next: genius fit SOURCE --encoder {out} -o fitted/"]
