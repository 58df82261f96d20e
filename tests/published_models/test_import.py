"""Imports of files of any size, and of files that are not what they should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
import torch
from typer.testing import CliRunner

from genius import storage
from genius.cli import app
from genius.decode.t5 import DecoderSettings
from genius.encode.clip import Clip
from genius.errors import GeniusError, InputError, MismatchError
from genius.model import Model
from genius.published import run
from genius.published.decoder_file import TABLES, decoder_shapes, read_decoder
from genius.published.files import PublishedFile, bare_name
from genius.published.quantizer_file import QuantizerSizes
from genius.published.run import ImportedFiles, import_model
from tests.encode.small_clip import bpe_files
from tests.golden import published_file
from tests.published_models.layout import (
    DECODER,
    QUANTIZER,
    Tensors,
    decoder_tensors,
    quantizer_tensors,
    save,
    save_both,
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return save_both(tmp_path_factory.mktemp("published"))


@pytest.fixture(scope="module")
def imported(files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, list[str]]:
    lines: list[str] = []
    out = tmp_path_factory.mktemp("imported") / "model"
    return import_model(ImportedFiles(None, *files), out, tell=lines.append), lines


def test_the_layout_of_the_published_sizes() -> None:
    """Names and shapes as the authors' code has them in full size."""
    layout = json.loads(published_file("layout_full.json").read_text())
    quantizer = QuantizerSizes(768, 2560, 5120, 5120, (3, *[4096] * 8))
    shapes = {name: tuple(shape) for name, (shape, _) in layout["rq"].items()}
    assert quantizer.shapes() == shapes
    t5_small = DecoderSettings(
        layers=6, width=512, heads=8, head_width=64, feed_forward=2048, prefix=30, start_from_codebooks=False
    )
    expected = decoder_shapes(t5_small, 768, quantizer.codes)
    expected |= {f"quantizer.{name}": shape for name, shape in shapes.items()}
    assert expected == {name: tuple(shape) for name, (shape, _) in layout["t5"].items()}


def test_a_model_folder_as_any_other(imported: tuple[Model, list[str]], files: tuple[Path, Path]) -> None:
    model, lines = imported
    assert model.stages == ["encoder", "quantizer", "decoder"]
    assert model.quantizer.sizes == QUANTIZER.codes and model.takes_vectors
    manifest = storage.read_manifest(model.path)
    assert manifest.made_from == {
        "quantizer": storage.record_of(files[0]).sha256,
        "decoder": storage.record_of(files[1]).sha256,
    }
    assert manifest.settings["imported"]["decoder"]["file"] == "t5.pth"
    assert not [name for name in manifest.files if name.endswith((".pth", ".pkl", ".bin"))]
    assert lines[0] == "encoder: features of 20 numbers that items and queries bring along"
    assert lines[1].startswith("rq.pth: quantizer, codes 3 × 8 × 6 × 8; 0.0 million numbers, ")
    assert lines[2].startswith("t5.pth: decoder, 3 layers of 24 numbers, 2 heads, a prefix of 4; ")


def test_the_network_is_the_t5_of_transformers(files: tuple[Path, Path]) -> None:
    """Loaded strictly from the same file; d_kv is not d_model / heads, and buckets are few."""
    transformers = pytest.importorskip("transformers")
    config = transformers.T5Config(
        vocab_size=3 + sum(QUANTIZER.codes),
        d_model=DECODER.width,
        d_kv=DECODER.head_width,
        d_ff=DECODER.feed_forward,
        num_heads=DECODER.heads,
        num_layers=0,
        num_decoder_layers=DECODER.layers,
        relative_attention_num_buckets=DECODER.buckets,
        decoder_start_token_id=0,
        pad_token_id=0,
    )
    theirs: Any = transformers.T5ForConditionalGeneration(config).eval()
    file = PublishedFile.open(files[1], "decoder")
    weights = {name: torch.from_numpy(file.read(name)) for name in file.tensors}
    inner = {k.removeprefix("id_generator."): v for k, v in weights.items() if k.startswith("id_generator.")}
    theirs.load_state_dict(inner)
    ours = read_decoder(file.without("quantizer."), QUANTIZER.width, QUANTIZER.codes)
    random = np.random.default_rng(0)
    vectors = torch.from_numpy(random.normal(size=(5, QUANTIZER.width)).astype(np.float32))
    codes = torch.from_numpy(random.integers(0, QUANTIZER.codes, (5, len(QUANTIZER.codes))))
    starts = torch.tensor([3, *(3 + np.cumsum(QUANTIZER.codes))[:-1]])
    tokens = torch.cat([torch.zeros(5, 1, dtype=torch.long), codes + starts], 1)[:, :-1]
    prefix = vectors @ weights["embed_projector.0.weight"].T + weights["embed_projector.0.bias"]
    with torch.no_grad():
        expected = theirs(
            inputs_embeds=prefix.view(5, DECODER.prefix, -1), decoder_input_ids=tokens, use_cache=False
        ).logits
        logits = torch.stack(ours(vectors, codes), 1)
    order = [0, *range(3, expected.shape[2]), 1, 2]
    torch.testing.assert_close(logits, expected[:, :, order], atol=2e-5, rtol=1e-5)


def test_any_prefix_of_the_files(tmp_path: Path, files: tuple[Path, Path]) -> None:
    model = import_model(ImportedFiles(None, files[0]), tmp_path / "model")
    assert model.stages == ["encoder", "quantizer"]
    with pytest.raises(InputError, match="there is nothing to import"):
        ImportedFiles()
    with pytest.raises(InputError, match="give --quantizer, too"):
        ImportedFiles(clip=files[0], decoder=files[1])
    with pytest.raises(InputError, match="a tokenizer is for a CLIP or a BLIP"):
        ImportedFiles(quantizer=files[0], tokenizer="x")


def test_names_without_wrappers() -> None:
    for name in ("a.b", "module.a.b", "_orig_mod.module.a.b", "module._orig_mod.a.b"):
        assert bare_name(name) == "a.b"


def test_wrappers_and_what_search_does_not_need_are_left_out(tmp_path: Path) -> None:
    quantizer = quantizer_tensors()
    wrapped = {f"module._orig_mod.{name}": value for name, value in quantizer.items()}
    for name in quantizer:
        if name.endswith("initted"):  # as newer releases of the library save it
            wrapped[f"module._orig_mod.{name}"] = torch.tensor(True)
    wrapped["module._orig_mod.contra_projector.weight"] = torch.ones(2, 2)
    file = PublishedFile.open(save(wrapped, tmp_path / "rq.pth"), "quantizer")
    assert set(file.tensors) == set(quantizer)
    checked = run._Checked.of(ImportedFiles(None, file.path))
    assert checked.width == QUANTIZER.width
    twice = wrapped | quantizer
    with pytest.raises(InputError, match="holds weights twice, with and without the name of a wrapper"):
        PublishedFile.open(save(twice, tmp_path / "twice.pth"), "quantizer")


def checked(quantizer: Tensors, tmp_path: Path, decoder: Tensors | None = None) -> None:
    """Check files of these weights, as an import does before it writes."""
    first = save(quantizer, tmp_path / "rq.pth")
    second = None if decoder is None else save(decoder, tmp_path / "t5.pth")
    import_model(ImportedFiles(None, first, second), tmp_path / "model")


LAST = "residual_rq.layers.3._codebook.embed"
Q0 = "id_generator.decoder.block.0.layer.0.SelfAttention.q.weight"


def bad_quantizers() -> dict[str, tuple[Tensors, str]]:
    good = quantizer_tensors()
    first = "residual_rq.layers.0._codebook.embed"
    return {
        "missing": (
            {k: v for k, v in good.items() if k != "encoder.output_layer.bias"},
            "is not GENIUS's quantizer: missing encoder.output_layer.bias$",
        ),
        "extra": ({**good, "surprise": torch.ones(1)}, "is not GENIUS's quantizer: extra surprise$"),
        "shape": (
            {**good, LAST: torch.ones(1, 8, 21)},
            r"holds residual_rq.layers.3._codebook.embed with the shape \(1, 8, 21\), but \(1, 8, 20\) is",
        ),
        "no axis": ({**good, first: torch.ones(3)}, "which is none of GENIUS"),
        "never filled": (
            {**good, "residual_rq.layers.2._codebook.initted": torch.zeros(1)},
            "was saved before its codebooks were filled",
        ),
        "two first levels": (
            {**good, "vq._codebook.embed": good[first] + 1},
            "has two different codebooks for the first level",
        ),
        "not finite": (
            {**good, "encoder.output_layer.bias": torch.full((20,), torch.nan)},
            "holds NaN or infinity in encoder.output_layer.bias",
        ),
        "no weights at all": ({"something": torch.ones(1)}, "is not GENIUS's quantizer: missing"),
    }


@pytest.mark.parametrize("name", bad_quantizers())
def test_a_bad_quantizer(tmp_path: Path, name: str) -> None:
    tensors, message = bad_quantizers()[name]
    with pytest.raises(InputError, match=rf"rq.pth: .*{message}"):
        checked(tensors, tmp_path)
    assert not (tmp_path / "model").exists(), "nothing is left behind"


def bad_decoders() -> dict[str, tuple[Tensors, str]]:
    good = decoder_tensors(quantizer_tensors())
    table = torch.cat([good[TABLES[0]], torch.ones(8, DECODER.width)])
    more_codes = QuantizerSizes(20, 9, 14, 11, (*QUANTIZER.codes, 8))
    another = quantizer_tensors(seed=7)
    return {
        "of another quantizer": (
            decoder_tensors(another),
            r"was trained on another quantizer than .*rq.pth: .*published together \(encoder.\S+ differs\)",
        ),
        "a level too many": (
            decoder_tensors(quantizer_tensors(more_codes), more_codes),
            r"was trained on another quantizer .*\(one has 5 levels of codes, the other 4\)",
        ),
        "more tokens": (
            {**good, **dict.fromkeys(TABLES, table)},
            r"knows 36 tokens, but levels of 3 \+ 8 \+ 6 \+ 8 codes need 28 with 3 special ones",
        ),
        "missing": (
            {k: v for k, v in good.items() if k != Q0.replace("block.0", "block.2")},
            "is not GENIUS's decoder: missing id_generator.decoder.block.2",
        ),
        "heads": ({**good, Q0: torch.ones(9, 24)}, "has 2 heads over 9 numbers"),
        "shape": ({**good, Q0: torch.ones(12, 24)}, "but .* is needed"),
        "tables": (
            {**good, "id_generator.lm_head.weight": good[TABLES[0]] + 1},
            "has different embeddings in id_generator.shared.weight and id_generator.lm_head.weight",
        ),
        "vectors": ({**good, "embed_projector.0.weight": torch.ones(96, 21)}, r"with the shape \(96, 21\)"),
    }


@pytest.mark.parametrize("name", bad_decoders())
def test_a_bad_decoder(tmp_path: Path, name: str) -> None:
    tensors, message = bad_decoders()[name]
    with pytest.raises(GeniusError, match=rf"t5.pth:? .*{message}"):
        checked(quantizer_tensors(), tmp_path, tensors)
    assert not (tmp_path / "model").exists()


def test_files_that_are_swapped(tmp_path: Path, files: tuple[Path, Path]) -> None:
    with pytest.raises(InputError, match=r"t5.pth: is a T5 decoder .*, but --quantizer takes .*: give it as"):
        import_model(ImportedFiles(None, files[1], files[0]), tmp_path / "model")
    with pytest.raises(InputError, match=r"rq.pth: is a quantizer .*, but --clip takes .* --quantizer"):
        import_model(ImportedFiles(files[0]), tmp_path / "model")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[: len(content) // 2], "is no checkpoint, or a damaged one .*broke off"),
        (lambda content: b"<html>not found</html>", "is no checkpoint"),
    ],
)
def test_a_truncated_file(tmp_path: Path, files: tuple[Path, Path], damage: Any, message: str) -> None:
    (tmp_path / "rq.pth").write_bytes(damage(files[0].read_bytes()))
    with pytest.raises(InputError, match=rf"rq.pth: {message}"):
        import_model(ImportedFiles(None, tmp_path / "rq.pth"), tmp_path / "model")


def test_a_state_of_training_alone(tmp_path: Path) -> None:
    torch.save({"optimizer": {"state": {}}, "scheduler": {}, "epoch": 3}, tmp_path / "rq.pth")
    with pytest.raises(InputError, match=r"has no part 'model'; .*state of a training without its weights"):
        import_model(ImportedFiles(None, tmp_path / "rq.pth"), tmp_path / "model")


def test_a_hostile_file(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> Any:
            return eval, ("open('executed', 'w')",)

    path = save(quantizer_tensors(), tmp_path / "rq.pth", config={"hidden": [Hostile()]})
    with pytest.raises(InputError, match=r"rq.pth: was refused: it asks for builtins.eval.* executed"):
        import_model(ImportedFiles(None, path), tmp_path / "model")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["rq.pth"]


def test_8_bits_that_are_too_far_off(
    tmp_path: Path, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from genius.decode import export

    monkeypatch.setattr(export, "TOLERANCE", {"fp32": 1e-3, "int8": 1e-9})
    lines: list[str] = []
    model = import_model(ImportedFiles(None, *files), tmp_path / "model", tell=lines.append)
    assert lines[-1].startswith("without 8-bit graphs: their log-probabilities would be off by ")
    model.learned_decoder("fp32")
    with pytest.raises(GeniusError, match="has its decoder in single precision only"):
        model.learned_decoder("int8")


def test_the_command(tmp_path: Path, files: tuple[Path, Path]) -> None:
    rq, t5 = map(str, files)
    runner, out = CliRunner(), str(tmp_path / "model")
    for arguments, message in (
        (["--quantizer", rq], "say --clip FILE, or --encoder precomputed"),
        (["--encoder", "lite", "--quantizer", rq], "there is no encoder 'lite' to import"),
        (["--encoder", "precomputed", "--decoder", t5], "there is nothing to import"),
        (["--clip", rq], "is a quantizer"),
    ):
        error = runner.invoke(app, ["import", *arguments, "-o", out]).exception
        assert isinstance(error, InputError) and message in str(error)


# --- CLIP


def tokenizer_of(folder: Path, vocabulary: int) -> Path:
    """A tokenizer with exactly so many tokens: letters, and words that nothing is merged to."""
    folder.mkdir()
    count = bpe_files(folder)
    tokens = json.loads((folder / "vocab.json").read_text())
    kept = sorted(tokens, key=lambda token: int(tokens[token]))[: count - 2]
    kept += [f"unused{number}" for number in range(vocabulary - count)]
    kept += ["<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(kept)}))
    return folder


def test_clip_features_equal_those_of_openai_s_class(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    golden = np.load(published_file("clip_golden.npz"))
    tokenizer = tokenizer_of(tmp_path / "tokenizer", int(golden["tokens"].max()) + 1)
    lines: list[str] = []
    files = ImportedFiles(published_file("clip_sf.pth"), tokenizer=str(tokenizer))
    model = import_model(files, tmp_path / "model", tell=lines.append)
    assert model.stages == ["encoder"] and model.fusion_kind == "score"
    assert lines[0].startswith("clip_sf.pth: CLIP with score fusion, features of 48 numbers; ")
    clip = model.encoder
    assert isinstance(clip, Clip)
    tokens = torch.from_numpy(golden["tokens"].astype(np.int64))
    with torch.inference_mode():
        images = clip.image_features(torch.from_numpy(golden["pixels"])).numpy()
        texts = clip.text_features(tokens, torch.ones_like(tokens)).numpy()
    np.testing.assert_allclose(images, golden["image_features"], atol=2e-6)
    np.testing.assert_allclose(texts, golden["text_features"], atol=2e-6)
    present = np.ones(len(images), bool)
    inputs = model.item_fusion_inputs((images, present), (texts, present), np.full(len(images), 2))
    length = np.linalg.norm(golden["sum"], axis=1, keepdims=True)
    np.testing.assert_allclose(inputs.embeddings, golden["sum"] / length, atol=1e-6)
    assert clip.preprocessing.crop_offset == "even"
    assert clip.tokenize(["&amp;lt; schÃ¶n"])[0].tolist() == clip.tokenize(["< schön"])[0].tolist()


def test_a_clip_of_another_width_than_the_quantizer_s(tmp_path: Path, files: tuple[Path, Path]) -> None:
    pytest.importorskip("transformers")
    tokenizer = tokenizer_of(tmp_path / "tokenizer", 300)
    clip = published_file("clip_sf.pth")
    with pytest.raises(MismatchError, match=r"gives features of 48 numbers, but .* takes 20: they don't"):
        import_model(ImportedFiles(clip, files[0], tokenizer=str(tokenizer)), tmp_path / "model")
    with pytest.raises(InputError, match="the file of a CLIP has no tokenizer: name the folder of any"):
        import_model(ImportedFiles(clip), tmp_path / "model")
    with pytest.raises(InputError, match="holds no tokenizer of CLIP"):
        import_model(ImportedFiles(clip, tokenizer=str(tmp_path)), tmp_path / "model")
