"""`Clip` equals transformers' own features on small random models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from genius.encode import clip as clip_file
from genius.encode.clip import Clip, ClipLoader
from genius.encode.clip_preprocess import Preprocessing
from genius.encode.encoder import Encoder, EncoderLoader
from genius.errors import DamagedError, InputError, MismatchError, MissingError
from tests.encode.small_clip import (
    CLIP_LENGTH,
    CLIP_PICTURES,
    CLIP_SIDE,
    PICTURES,
    SIGLIP_LENGTH,
    SIGLIP_PICTURES,
    WORDS,
    noise,
    write_clip,
    write_siglip,
)

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TEXTS = ["a dog on the beach", "", "old red house", "cat", "the Green DOG!", " ".join(WORDS * 5)]
WRITERS = {"clip": write_clip, "siglip": write_siglip}


@pytest.fixture(scope="module", params=["clip", "siglip"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A folder, and the model that was saved there; don't write into it."""
    folder = tmp_path_factory.mktemp(request.param)
    return folder, WRITERS[request.param](folder)


@pytest.fixture
def own_clip(tmp_path: Path) -> Path:
    """A CLIP that is free to be damaged."""
    write_clip(tmp_path / "clip")
    return tmp_path / "clip"


def direct_pixels(picture: Image.Image, folder: Path) -> np.ndarray:
    """The preprocessing, written down once more step by step."""
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    if isinstance(settings["size"], int):
        side, (width, height) = settings["size"], picture.size
        long = int(side * max(width, height) / min(width, height))
        picture = picture.resize((side, long) if width <= height else (long, side), Image.Resampling.BICUBIC)
        top, left = (picture.height - side) // 2, (picture.width - side) // 2
        values = np.asarray(picture)[top : top + side, left : left + side]
    else:
        size = settings["size"]
        values = np.asarray(picture.resize((size["width"], size["height"]), Image.Resampling.BILINEAR))
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
    found = Clip.open(folder).pixels(PICTURES).numpy()
    for place, picture in enumerate(PICTURES):
        np.testing.assert_allclose(found[place], direct_pixels(picture, folder), atol=1e-6)
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    expected = processor(PICTURES, return_tensors="np")["pixel_values"]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_images_equal_transformers(model: tuple[Path, Any]) -> None:
    folder, network = model
    pixels = np.stack([direct_pixels(picture, folder) for picture in PICTURES])
    with torch.no_grad():
        expected = network.get_image_features(pixel_values=torch.from_numpy(pixels)).pooler_output.numpy()
    found = Clip.open(folder).images(PICTURES)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(found[0] - found[1]).max() > 0.01, "different pictures have different features"


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
    found = Clip.open(folder).texts(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(found[0] - found[3]).max() > 0.01, "different texts have different features"


def test_batches_and_order_do_not_matter(model: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Clip.open(model[0])
    images, texts = encoder.images(PICTURES), encoder.texts(TEXTS)
    for name, size in (("IMAGE_BATCH", 2), ("TEXT_BATCH", 2), ("TEXT_CHUNK", 4)):
        monkeypatch.setattr(clip_file, name, size)
    np.testing.assert_allclose(encoder.images(PICTURES[::-1])[::-1], images, atol=1e-5)
    np.testing.assert_allclose(encoder.texts(TEXTS[::-1])[::-1], texts, atol=1e-5)
    assert encoder.images([]).shape == encoder.texts([]).shape == (0, 32)


def test_a_long_text_is_cut_and_keeps_its_end(model: tuple[Path, Any]) -> None:
    encoder = Clip.open(model[0])
    ids, mask = encoder.tokenize([" ".join(WORDS * 20), "cat"])
    assert ids.shape == mask.shape == (2, encoder.text_length)
    assert int(ids[0, -1]) == encoder.tokenizer.eos_token_id
    assert mask.sum(1).tolist() == [encoder.text_length, 3 if encoder.kind == "clip" else 2]
    words = (WORDS * 20)[: encoder.text_length]
    np.testing.assert_allclose(
        encoder.texts([" ".join(words)]), encoder.texts([" ".join(WORDS * 20)]), atol=1e-5
    )
    assert encoder.too_long([" ".join(WORDS * 20), "cat", ""]) == [True, False, False]
    assert encoder.too_long([]) == []


def test_half_precision_is_close(model: tuple[Path, Any]) -> None:
    exact, half = Clip.open(model[0]), Clip.open(model[0], dtype="float16")
    assert half.module.dtype == torch.float16
    for one, other in (
        (exact.images(PICTURES), half.images(PICTURES)),
        (exact.texts(TEXTS), half.texts(TEXTS)),
    ):
        assert other.dtype == np.float32
        cosines = (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
        assert cosines.min() > 0.999
    assert exact.fingerprint != half.fingerprint, "features are not the same"


def test_tokens_lead_to_the_features(model: tuple[Path, Any]) -> None:
    encoder = Clip.open(model[0])
    pixels = encoder.pixels(PICTURES)
    ids, mask = encoder.tokenize(TEXTS, full=True)
    with torch.no_grad():
        image, text = encoder.image_tokens(pixels), encoder.text_tokens(ids)
        assert image.shape == (len(PICTURES), 17 if encoder.kind == "clip" else 9, encoder.token_widths[1])
        assert text.shape == (len(TEXTS), encoder.text_length, encoder.token_widths[0])
        if encoder.kind == "clip":
            last = text[torch.arange(len(TEXTS)), mask.sum(1) - 1]
            found = image[:, 0], encoder.module.text_projection(last)
        else:
            head = encoder.module.vision_model.head(image)
            found = head, encoder.module.text_model.head(text[:, -1])
    np.testing.assert_allclose(found[0].numpy(), encoder.images(PICTURES), atol=1e-5)
    np.testing.assert_allclose(found[1].numpy(), encoder.texts(TEXTS), atol=1e-5)


def test_gradients_reach_both_towers(model: tuple[Path, Any]) -> None:
    encoder = Clip.open(model[0])
    loss: Any = encoder.image_features(encoder.pixels(PICTURES)).sum()
    loss = loss + encoder.text_features(*encoder.tokenize(TEXTS)).sum()
    loss.backward()
    unused = {name for name, weight in encoder.module.named_parameters() if weight.grad is None}
    assert unused <= {"logit_scale", "logit_bias"}


def test_fine_tuned_weights_are_saved(model: tuple[Path, Any], tmp_path: Path) -> None:
    encoder = Clip.open(model[0])
    unchanged = Clip.open(encoder.save(tmp_path / "unchanged"))
    np.testing.assert_array_equal(unchanged.images(PICTURES), encoder.images(PICTURES))
    optimizer = torch.optim.SGD(encoder.module.parameters(), lr=0.1)
    loss: Any = encoder.image_features(encoder.pixels(PICTURES)).sum()
    loss.backward()
    optimizer.step()
    tuned = Clip.open(encoder.save(tmp_path / "tuned"))
    assert np.abs(tuned.images(PICTURES) - unchanged.images(PICTURES)).max() > 0.01
    np.testing.assert_array_equal(tuned.images(PICTURES), encoder.images(PICTURES))
    np.testing.assert_array_equal(tuned.texts(TEXTS), encoder.texts(TEXTS))
    assert tuned.fingerprint != unchanged.fingerprint


def test_small_and_long_pictures() -> None:
    """A picture smaller than the crop is framed in black; of a very long one the middle is taken."""
    whole = Preprocessing.parse({**CLIP_PICTURES, "do_resize": False, "do_normalize": False}, "clip")
    found = whole.pixels(Image.new("RGB", (7, 5), "white"))
    assert found.shape == (3, CLIP_SIDE, CLIP_SIDE)
    assert found[0].sum() == pytest.approx(35)
    assert found[0, 8:13, 7:14].sum() == pytest.approx(35)
    strip = noise(3000, 10)
    found = Preprocessing.parse(CLIP_PICTURES, "clip").pixels(strip)
    middle = Preprocessing.parse(CLIP_PICTURES, "clip").pixels(strip.crop((1470, 0, 1530, 10)))
    np.testing.assert_allclose(found, middle, atol=1e-6)


def test_other_modes_become_rgb() -> None:
    preparing = Preprocessing.parse(SIGLIP_PICTURES, "siglip")
    grey = noise(30, 30).convert("L")
    np.testing.assert_array_equal(preparing.pixels(grey), preparing.pixels(grey.convert("RGB")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"do_pad": True}, "asks for do_pad"),
        ({"size": {"longest_edge": 20}}, "how pictures are prepared"),
        ({"image_mean": None}, "how pictures are prepared"),
        ({"resample": 77}, "how pictures are prepared"),
        ({"do_center_crop": False}, "pictures of different sizes"),
    ],
)
def test_preprocessing_that_is_not_understood(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Preprocessing.parse({**CLIP_PICTURES, **change}, "clip")


def test_the_fingerprint_follows_all_that_changes_a_feature(own_clip: Path, tmp_path: Path) -> None:
    first = Clip.open(own_clip).fingerprint
    moved = tmp_path / "elsewhere"
    shutil.copytree(own_clip, moved)
    (moved / "README.md").write_text("changes nothing")
    config = json.loads((moved / "config.json").read_text())
    (moved / "config.json").write_text(json.dumps({**config, "transformers_version": "9"}, indent=7))
    assert Clip.open(moved).fingerprint == first

    def changed(name: str, old: str, new: str) -> str:
        folder = tmp_path / f"changed {name}"
        shutil.copytree(own_clip, folder)
        content = (folder / name).read_text()
        assert old in content
        (folder / name).write_text(content.replace(old, new))
        return Clip.open(folder).fingerprint

    found = {
        changed("preprocessor_config.json", "0.48145466", "0.5"),
        changed("merges.txt", "d o\n", ""),
        changed("config.json", "quick_gelu", "gelu"),
    }
    write_clip(tmp_path / "other weights", seed=1)
    found.add(Clip.open(tmp_path / "other weights").fingerprint)
    assert len(found | {first}) == 5


def test_the_processors_own_file_will_do(own_clip: Path) -> None:
    expected = Clip.open(own_clip)
    inner = json.loads((own_clip / "preprocessor_config.json").read_text())
    (own_clip / "preprocessor_config.json").unlink()
    (own_clip / "processor_config.json").write_text(json.dumps({"image_processor": inner}))
    found = Clip.open(own_clip)
    assert (found.preprocessing, found.fingerprint) == (expected.preprocessing, expected.fingerprint)


def test_old_weights_are_read_without_executing_them(own_clip: Path) -> None:
    expected = Clip.open(own_clip)
    torch.save(expected.module.state_dict(), own_clip / "pytorch_model.bin")
    (own_clip / "model.safetensors").unlink()
    found = Clip.open(own_clip)
    np.testing.assert_array_equal(found.images(PICTURES), expected.images(PICTURES))
    np.testing.assert_array_equal(found.texts(TEXTS), expected.texts(TEXTS))


def test_weights_that_are_missing_are_named(own_clip: Path) -> None:
    from safetensors.numpy import load_file, save_file

    weights = load_file(own_clip / "model.safetensors")
    del weights["visual_projection.weight"]
    save_file(weights, own_clip / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"lacks 1 weights, such as visual_projection.weight"):
        Clip.open(own_clip)


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ("config.json", r"config.json: is not there"),
        ("preprocessor_config.json", r"preprocessor_config.json: is not there"),
        ("model.safetensors", r"clip: holds no weights"),
    ],
)
def test_a_folder_that_is_not_whole(own_clip: Path, gone: str, message: str) -> None:
    (own_clip / gone).unlink()
    with pytest.raises(InputError, match=message):
        Clip.open(own_clip)


def test_a_folder_without_a_tokenizer(own_clip: Path) -> None:
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        (own_clip / name).unlink()
    with pytest.raises(InputError, match="clip: holds no tokenizer"):
        Clip.open(own_clip)


def test_weights_that_are_cut_short(own_clip: Path) -> None:
    content = (own_clip / "model.safetensors").read_bytes()
    (own_clip / "model.safetensors").write_bytes(content[:-100])
    with pytest.raises(InputError, match="clip: can't be loaded"):
        Clip.open(own_clip)


def test_parts_of_different_models(own_clip: Path) -> None:
    other = json.dumps({**CLIP_PICTURES, "size": 30, "crop_size": 30})
    (own_clip / "preprocessor_config.json").write_text(other)
    with pytest.raises(MismatchError, match=r"prepared to \(30, 30\) pixels, but the model takes \(20, 20\)"):
        Clip.open(own_clip)


def test_a_tokenizer_of_another_model(own_clip: Path) -> None:
    words = json.loads((own_clip / "vocab.json").read_text())
    words |= {f"more{number}": len(words) + number for number in range(5)}
    (own_clip / "vocab.json").write_text(json.dumps(words))
    with pytest.raises(MismatchError, match="use the tokenizer of this very model"):
        Clip.open(own_clip)


def test_a_model_of_another_type(own_clip: Path) -> None:
    (own_clip / "config.json").write_text(json.dumps({"model_type": "siglip2"}))
    with pytest.raises(InputError, match=r"of type 'siglip2', not of clip or siglip; SigLIP 2 works in its"):
        Clip.open(own_clip)


def test_sources_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    asked = []

    def offline(name: str, **_: Any) -> str:
        asked.append(name)
        raise huggingface_hub.errors.LocalEntryNotFoundError("no network")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(InputError, match="is no folder of a model"):
        Clip.open(tmp_path / "nothing")
    assert asked == []
    with pytest.raises(MissingError, match=r"somebody/clip is neither a folder here nor .*no network"):
        Clip.open("somebody/clip")
    assert asked == ["somebody/clip"]


def test_the_hub_is_asked_by_the_name_that_was_given(own_clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **_: str(own_clip))
    assert Clip.open("somebody/clip").fingerprint == Clip.open(own_clip).fingerprint


def test_devices_that_are_not_there(own_clip: Path) -> None:
    with pytest.raises(InputError, match="there is no device 'quantum'"):
        Clip.open(own_clip, device="quantum")
    if not torch.cuda.is_available():
        with pytest.raises(MissingError, match="use device cpu"):
            Clip.open(own_clip, device="cuda")


def test_nothing_is_printed(own_clip: Path, capfd: pytest.CaptureFixture[str]) -> None:
    encoder = Clip.open(own_clip)
    encoder.texts(TEXTS)
    encoder.images(PICTURES)
    assert capfd.readouterr() == ("", "")


def test_a_folder_of_our_own_that_was_altered(own_clip: Path, tmp_path: Path) -> None:
    from genius import storage
    from genius.encode.clip_folder import ARTIFACT, FORMAT

    with storage.create(tmp_path / "ours", kind=ARTIFACT, format=FORMAT) as draft:
        shutil.copytree(own_clip, draft.folder, dirs_exist_ok=True)
    assert Clip.open(tmp_path / "ours").fingerprint == Clip.open(own_clip).fingerprint
    (tmp_path / "ours" / "merges.txt").write_text("#version: 0.2\n")
    with pytest.raises(DamagedError, match=r"merges.txt is damaged"):
        Clip.open(tmp_path / "ours")
