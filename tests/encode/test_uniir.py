"""UniIR's checkpoints: a small one of the same layout, against OpenAI's network written out by hand."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genius.encode.clip import Clip
from genius.encode.uniir import PREFIX, convert_uniir, map_weights
from genius.errors import InputError, MismatchError
from tests.encode.small_clip import IMAGES, bpe_files

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch

functional = torch.nn.functional

TEXT, VISION, JOINT, LENGTH, SIDE, PATCH = 64, 128, 64, 12, 20, 5
LAYERS = {"transformer": (2, TEXT), "visual.transformer": (3, VISION)}
TEXTS = ["a dog on the beach", "", "old red house", "the cat " * 30]


def openai_weights(words: int) -> dict[str, Any]:
    """Random weights of a small CLIP under OpenAI's names."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int, mean: float = 0.0) -> Any:
        return mean + 0.1 * torch.randn(*shape, generator=generator)

    weights = {
        "token_embedding.weight": random(words, TEXT),
        "positional_embedding": random(LENGTH, TEXT),
        "text_projection": random(TEXT, JOINT),
        "logit_scale": torch.tensor(4.6),
        "visual.class_embedding": random(VISION),
        "visual.positional_embedding": random((SIDE // PATCH) ** 2 + 1, VISION),
        "visual.conv1.weight": random(VISION, 3, PATCH, PATCH),
        "visual.proj": random(VISION, JOINT),
    }

    def norm(name: str, width: int) -> None:
        weights[f"{name}.weight"], weights[f"{name}.bias"] = random(width, mean=1), random(width)

    def linear(name: str, outputs: int, inputs: int) -> None:
        weights[f"{name}.weight"], weights[f"{name}.bias"] = random(outputs, inputs), random(outputs)

    for name, width in (("ln_final", TEXT), ("visual.ln_pre", VISION), ("visual.ln_post", VISION)):
        norm(name, width)
    for tower, (layers, width) in LAYERS.items():
        for layer in range(layers):
            start = f"{tower}.resblocks.{layer}"
            weights[f"{start}.attn.in_proj_weight"] = random(3 * width, width)
            weights[f"{start}.attn.in_proj_bias"] = random(3 * width)
            linear(f"{start}.attn.out_proj", width, width)
            linear(f"{start}.mlp.c_fc", 4 * width, width)
            linear(f"{start}.mlp.c_proj", width, 4 * width)
            norm(f"{start}.ln_1", width)
            norm(f"{start}.ln_2", width)
    return {f"{PREFIX}{name}": value for name, value in weights.items()}


class OpenAi:
    """The network that such weights belong to."""

    def __init__(self, weights: dict[str, Any]) -> None:
        self.weights = {name.removeprefix(PREFIX): value for name, value in weights.items()}

    def norm(self, value: Any, name: str) -> Any:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return functional.layer_norm(value, weight.shape, weight, bias, 1e-5)

    def linear(self, value: Any, name: str) -> Any:
        return functional.linear(value, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def attention(self, value: Any, name: str, causal: bool) -> Any:
        length, width = value.shape[1:]
        both = functional.linear(
            value, self.weights[f"{name}.in_proj_weight"], self.weights[f"{name}.in_proj_bias"]
        )
        query, key, content = (
            part.unflatten(2, (width // 64, 64)).transpose(1, 2) for part in both.split(width, 2)
        )
        scores = query @ key.transpose(2, 3) / math.sqrt(64)
        if causal:
            scores = scores + torch.full((length, length), -math.inf).triu(1)
        mixed = (scores.softmax(-1) @ content).transpose(1, 2).flatten(2)
        return self.linear(mixed, f"{name}.out_proj")

    def transformer(self, value: Any, tower: str, causal: bool) -> Any:
        for layer in range(LAYERS[tower][0]):
            name = f"{tower}.resblocks.{layer}"
            value = value + self.attention(self.norm(value, f"{name}.ln_1"), f"{name}.attn", causal)
            inner = self.linear(self.norm(value, f"{name}.ln_2"), f"{name}.mlp.c_fc")
            value = value + self.linear(inner * torch.sigmoid(1.702 * inner), f"{name}.mlp.c_proj")
        return value

    def image(self, pixels: Any) -> Any:
        patches = functional.conv2d(pixels, self.weights["visual.conv1.weight"], stride=PATCH)
        patches = patches.flatten(2).transpose(1, 2)
        first = self.weights["visual.class_embedding"].expand(len(pixels), 1, VISION)
        value = torch.cat([first, patches], 1) + self.weights["visual.positional_embedding"]
        value = self.transformer(self.norm(value, "visual.ln_pre"), "visual.transformer", causal=False)
        return self.norm(value[:, 0], "visual.ln_post") @ self.weights["visual.proj"]

    def text(self, ids: Any) -> Any:
        value = self.weights["token_embedding.weight"][ids] + self.weights["positional_embedding"]
        value = self.norm(self.transformer(value, "transformer", causal=True), "ln_final")
        return value[torch.arange(len(ids)), ids.argmax(1)] @ self.weights["text_projection"]


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    folder = tmp_path / "any CLIP"
    folder.mkdir()
    bpe_files(folder)
    return folder


@pytest.fixture
def weights(tokenizer: Path) -> dict[str, Any]:
    return openai_weights(bpe_files(tokenizer))


def save(weights: dict[str, Any], path: Path) -> Path:
    """As UniIR saves: the weights beside what its training needs."""
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([parameter])
    parameter.sum().backward()
    optimizer.step()
    outer = {
        "model": weights,
        "optimizer": optimizer.state_dict(),
        "scheduler": {"last_epoch": 19},
        "config": {"model": {"name": "CLIPScoreFusion"}},
        "epoch": 19,
        "scaler": {"scale": 65536.0},
    }
    torch.save(outer, path)
    return path


def test_features_equal_the_original_network(
    tmp_path: Path, tokenizer: Path, weights: dict[str, Any]
) -> None:
    out = convert_uniir(save(weights, tmp_path / "clip_sf_small.pth"), tokenizer, tmp_path / "clip")
    encoder, original = Clip.open(out), OpenAi(weights)
    assert (encoder.image_width, encoder.text_length) == (JOINT, LENGTH)
    ids, mask = encoder.tokenize(TEXTS, full=True)
    ids = torch.where(mask.bool(), ids, 0)  # OpenAI pads with zeros and takes the highest token as the end
    expected_images, expected_texts = original.image(encoder.pixels(IMAGES)), original.text(ids)
    np.testing.assert_allclose(encoder.encode_images(IMAGES), expected_images.numpy(), atol=2e-5)
    np.testing.assert_allclose(encoder.encode_texts(TEXTS), expected_texts.numpy(), atol=2e-5)
    assert encoder.module.logit_scale.item() == pytest.approx(4.6)


def test_half_precision_weights_become_whole(tokenizer: Path, weights: dict[str, Any]) -> None:
    mapped, config = map_weights({name: value.half().numpy() for name, value in weights.items()})
    assert {value.dtype for value in mapped.values()} == {np.dtype(np.float32)}
    assert config["vision_config"]["image_size"] == SIDE
    assert config["vision_config"]["num_attention_heads"] == VISION // 64
    assert config["text_config"]["num_hidden_layers"] == LAYERS["transformer"][0]


def test_missing_and_extra_weights_are_named(
    tmp_path: Path, tokenizer: Path, weights: dict[str, Any]
) -> None:
    del weights["clip_model.visual.proj"]
    del weights["clip_model.transformer.resblocks.1.attn.in_proj_bias"]
    weights["clip_model.surprise"] = torch.ones(2)
    with pytest.raises(InputError) as caught:
        convert_uniir(save(weights, tmp_path / "a.pth"), tokenizer, tmp_path / "clip")
    assert str(caught.value) == (
        f"{tmp_path / 'a.pth'}: is not UniIR's CLIP-SF: missing "
        "clip_model.transformer.resblocks.1.attn.in_proj_bias, clip_model.visual.proj; "
        "extra clip_model.surprise"
    )
    assert not (tmp_path / "clip").exists()


def test_a_whole_layer_is_missing(tmp_path: Path, tokenizer: Path, weights: dict[str, Any]) -> None:
    kept = {name: value for name, value in weights.items() if ".visual.transformer.resblocks.1." not in name}
    with pytest.raises(
        InputError, match=r"missing clip_model.visual.transformer.resblocks.1.attn.in_proj_bias"
    ):
        map_weights({name: value.numpy() for name, value in kept.items()})


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("clip_model.visual.proj", (VISION, JOINT + 1)),
        ("clip_model.visual.positional_embedding", (16, VISION)),
        ("clip_model.transformer.resblocks.0.mlp.c_fc.weight", (3 * TEXT, TEXT)),
        ("clip_model.visual.conv1.weight", (VISION, 3, PATCH)),
    ],
)
def test_a_wrong_shape_is_named(weights: dict[str, Any], name: str, shape: tuple[int, ...]) -> None:
    arrays = {key: value.numpy() for key, value in weights.items()}
    arrays[name] = np.zeros(shape, np.float32)
    with pytest.raises(InputError, match=rf"holds {name} with shape \({shape[0]}, "):
        map_weights(arrays)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ["clip_model.ln_final.weight", "t5_layers.block.0.layer.0.SelfAttention.q.weight"],
            "is UniIR's CLIP-FF",
        ),
        (
            ["visual_encoder.cls_token", "text_encoder.embeddings.x", "temp"],
            "is UniIR's BLIP, which is no CLIP: import it with genius import --blip",
        ),
        (["encoder.weight"], r"is not UniIR's CLIP-SF: missing .* and \d+ more; extra encoder.weight"),
    ],
)
def test_other_models(tmp_path: Path, tokenizer: Path, names: list[str], message: str) -> None:
    path = save({name: torch.ones(2) for name in names}, tmp_path / "a.pth")
    with pytest.raises(InputError, match=message):
        convert_uniir(path, tokenizer, tmp_path / "clip")


class Hostile:
    def __reduce__(self) -> Any:
        return os.system, ("touch executed",)


def test_a_hostile_file_is_refused(
    tmp_path: Path, tokenizer: Path, weights: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"model": weights, "config": Hostile()}, tmp_path / "a.pth")
    with pytest.raises(
        InputError, match=r"a.pth: was refused: it asks for .*system.*nothing of it was executed"
    ):
        convert_uniir(tmp_path / "a.pth", tokenizer, tmp_path / "clip")
    assert not (tmp_path / "executed").exists()
    assert not (tmp_path / "clip").exists()


def test_a_folder_without_a_tokenizer(tmp_path: Path, weights: dict[str, Any]) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: holds no tokenizer of CLIP .*any Hugging Face CLIP"):
        convert_uniir(save(weights, tmp_path / "a.pth"), tmp_path / "empty", tmp_path / "clip")


def test_a_tokenizer_of_another_model(tmp_path: Path, tokenizer: Path, weights: dict[str, Any]) -> None:
    words = weights["clip_model.token_embedding.weight"]
    weights["clip_model.token_embedding.weight"] = torch.cat([words, words[:1]])
    with pytest.raises(MismatchError, match=r"but the checkpoint needs .* use that of openai/clip"):
        convert_uniir(save(weights, tmp_path / "a.pth"), tokenizer, tmp_path / "clip")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pth", "any CLIP"], "nothing is left behind"


def test_a_folder_of_something_else_is_not_overwritten(
    tmp_path: Path, tokenizer: Path, weights: dict[str, Any]
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear diary")
    with pytest.raises(InputError, match="no artifact of genius, so it is not overwritten"):
        convert_uniir(save(weights, tmp_path / "a.pth"), tokenizer, tmp_path / "mine")
    assert (tmp_path / "mine" / "diary.txt").read_text() == "dear diary"
