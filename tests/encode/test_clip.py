"""`Clip` equals transformers' own features on small random models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from genius.encode import clip as clip_file
from genius.encode.clip import Clip, ClipLoader
from genius.encode.encoder import Encoder, EncoderLoader
from genius.errors import InputError, MissingError
from tests.encode.small_clip import (
    CLIP_LENGTH,
    IMAGES,
    SIGLIP_LENGTH,
    TEXTS,
    WORDS,
    write_clip,
    write_siglip,
)

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch
import transformers

WRITERS = {"clip": write_clip, "siglip": write_siglip}


@pytest.fixture(scope="module", params=["clip", "siglip"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A folder, and the model that was saved there; don't write into it."""
    folder = tmp_path_factory.mktemp(request.param)
    return folder, WRITERS[request.param](folder)


def direct_pixels(image: Image.Image, folder: Path) -> np.ndarray:
    """The preprocessing, written down once more step by step."""
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    if isinstance(settings["size"], int):
        side, (width, height) = settings["size"], image.size
        long = int(side * max(width, height) / min(width, height))
        image = image.resize((side, long) if width <= height else (long, side), Image.Resampling.BICUBIC)
        top, left = (image.height - side) // 2, (image.width - side) // 2
        values = np.asarray(image)[top : top + side, left : left + side]
    else:
        size = settings["size"]
        values = np.asarray(image.resize((size["width"], size["height"]), Image.Resampling.BILINEAR))
    scaled = (values.astype(np.float64) / 255).astype(np.float32)
    normal = (scaled - np.float32(settings["image_mean"])) / np.float32(settings["image_std"])
    return normal.transpose(2, 0, 1)


def test_is_an_encoder(model: tuple[Path, Any]) -> None:
    encoder: Encoder = Clip.open(model[0])
    loader: EncoderLoader = ClipLoader(str(model[0]))
    assert (encoder.image_width, encoder.text_width) == (32, 32)
    assert encoder.image_parts == encoder.text_parts == {"features": 32}
    assert encoder.fingerprint == loader(torch.get_num_threads()).fingerprint


def test_pixels_equal_a_direct_computation_and_transformers(model: tuple[Path, Any]) -> None:
    folder, _ = model
    pixels = Clip.open(folder).pixels(IMAGES).numpy()
    for place, image in enumerate(IMAGES):
        np.testing.assert_allclose(pixels[place], direct_pixels(image, folder), atol=1e-6)
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    expected = processor(IMAGES, return_tensors="np")["pixel_values"]
    np.testing.assert_allclose(pixels, expected, atol=1e-6)


def test_images_equal_transformers(model: tuple[Path, Any]) -> None:
    folder, network = model
    pixels = np.stack([direct_pixels(image, folder) for image in IMAGES])
    with torch.no_grad():
        expected = network.get_image_features(pixel_values=torch.from_numpy(pixels)).pooler_output.numpy()
    features = Clip.open(folder).encode_images(IMAGES)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, expected, atol=1e-5)
    assert np.abs(features[0] - features[1]).max() > 0.01, "different images have different features"


def test_texts_equal_transformers(model: tuple[Path, Any]) -> None:
    folder, network = model
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    siglip = network.config.model_type == "siglip"
    length = SIGLIP_LENGTH if siglip else CLIP_LENGTH
    padding = "max_length" if siglip else True
    tokens = tokenizer(TEXTS, padding=padding, truncation=True, max_length=length, return_tensors="pt")
    mask = {} if siglip else {"attention_mask": tokens["attention_mask"]}
    with torch.no_grad():
        expected = network.get_text_features(input_ids=tokens["input_ids"], **mask).pooler_output.numpy()
    features = Clip.open(folder).encode_texts(TEXTS)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, expected, atol=1e-5)
    assert np.abs(features[0] - features[3]).max() > 0.01, "different texts have different features"


def test_features_are_batch_invariant(model: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Clip.open(model[0])
    images, texts = encoder.encode_images(IMAGES), encoder.encode_texts(TEXTS)
    for name, size in (("IMAGE_BATCH", 2), ("TEXT_BATCH", 2), ("TEXT_CHUNK", 4)):
        monkeypatch.setattr(clip_file, name, size)
    np.testing.assert_allclose(encoder.encode_images(IMAGES[::-1])[::-1], images, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_texts(TEXTS[::-1])[::-1], texts, atol=1e-5)
    assert encoder.encode_images([]).shape == encoder.encode_texts([]).shape == (0, 32)


def test_a_long_text_is_truncated_and_keeps_its_end(model: tuple[Path, Any]) -> None:
    encoder = Clip.open(model[0])
    ids, mask = encoder.tokenize([" ".join(WORDS * 20), "cat"])
    assert ids.shape == mask.shape == (2, encoder.text_length)
    assert int(ids[0, -1]) == encoder.tokenizer.eos_token_id
    assert mask.sum(1).tolist() == [encoder.text_length, 3 if encoder.kind == "clip" else 2]
    words = (WORDS * 20)[: encoder.text_length]
    np.testing.assert_allclose(
        encoder.encode_texts([" ".join(words)]), encoder.encode_texts([" ".join(WORDS * 20)]), atol=1e-5
    )
    assert encoder.too_long([" ".join(WORDS * 20), "cat", ""]) == [True, False, False]
    assert encoder.too_long([]) == []


def test_half_precision_is_close(model: tuple[Path, Any]) -> None:
    exact, half = Clip.open(model[0]), Clip.open(model[0], dtype="float16")
    assert half.module.dtype == torch.float16
    for low, full in (
        (half.encode_images(IMAGES), exact.encode_images(IMAGES)),
        (half.encode_texts(TEXTS), exact.encode_texts(TEXTS)),
    ):
        assert low.dtype == np.float32
        cosines = (low * full).sum(1) / np.linalg.norm(low, axis=1) / np.linalg.norm(full, axis=1)
        assert cosines.min() > 0.999
    assert exact.fingerprint != half.fingerprint, "features are not the same"


def test_tokens_lead_to_the_features(model: tuple[Path, Any]) -> None:
    encoder = Clip.open(model[0])
    pixels = encoder.pixels(IMAGES)
    ids, mask = encoder.tokenize(TEXTS, full=True)
    with torch.no_grad():
        image, text = encoder.image_tokens(pixels), encoder.text_tokens(ids)
        assert image.shape == (len(IMAGES), 17 if encoder.kind == "clip" else 9, encoder.token_widths[1])
        assert text.shape == (len(TEXTS), encoder.text_length, encoder.token_widths[0])
        if encoder.kind == "clip":
            last = text[torch.arange(len(TEXTS)), mask.sum(1) - 1]
            pooled = image[:, 0], encoder.module.text_projection(last)
        else:
            head = encoder.module.vision_model.head(image)
            pooled = head, encoder.module.text_model.head(text[:, -1])
    np.testing.assert_allclose(pooled[0].numpy(), encoder.encode_images(IMAGES), atol=1e-5)
    np.testing.assert_allclose(pooled[1].numpy(), encoder.encode_texts(TEXTS), atol=1e-5)


def test_gradients_reach_both_towers(model: tuple[Path, Any]) -> None:
    encoder = Clip.open(model[0])
    loss: Any = encoder.image_features(encoder.pixels(IMAGES)).sum()
    loss = loss + encoder.text_features(*encoder.tokenize(TEXTS)).sum()
    loss.backward()
    unused = {name for name, weight in encoder.module.named_parameters() if weight.grad is None}
    assert unused <= {"logit_scale", "logit_bias"}


def test_fine_tuned_weights_are_saved(model: tuple[Path, Any], tmp_path: Path) -> None:
    encoder = Clip.open(model[0])
    unchanged = Clip.open(encoder.save(tmp_path / "unchanged"))
    np.testing.assert_array_equal(unchanged.encode_images(IMAGES), encoder.encode_images(IMAGES))
    optimizer = torch.optim.SGD(encoder.module.parameters(), lr=0.1)
    loss: Any = encoder.image_features(encoder.pixels(IMAGES)).sum()
    loss.backward()
    optimizer.step()
    tuned = Clip.open(encoder.save(tmp_path / "tuned"))
    assert np.abs(tuned.encode_images(IMAGES) - unchanged.encode_images(IMAGES)).max() > 0.01
    np.testing.assert_array_equal(tuned.encode_images(IMAGES), encoder.encode_images(IMAGES))
    np.testing.assert_array_equal(tuned.encode_texts(TEXTS), encoder.encode_texts(TEXTS))
    assert tuned.fingerprint != unchanged.fingerprint


def test_devices_that_do_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no device 'quantum'"):
        Clip.open(tmp_path, device="quantum")
    if not torch.cuda.is_available():
        with pytest.raises(MissingError, match="use device cpu"):
            Clip.open(tmp_path, device="cuda")


def test_nothing_is_printed(model: tuple[Path, Any], capfd: pytest.CaptureFixture[str]) -> None:
    encoder = Clip.open(model[0])
    encoder.encode_texts(TEXTS)
    encoder.encode_images(IMAGES)
    assert capfd.readouterr() == ("", "")
