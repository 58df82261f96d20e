"""Folders of CLIP models: complete, incomplete, altered, from the hub."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genius import storage
from genius.encode.clip import Clip
from genius.encode.clip_folder import ARTIFACT, FORMAT
from genius.errors import DamagedError, InputError, MismatchError, MissingError
from tests.encode.small_clip import CLIP_PREPROCESSING, IMAGES, TEXTS, write_clip

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch


@pytest.fixture
def own_clip(tmp_path: Path) -> Path:
    """A CLIP that is free to be damaged."""
    write_clip(tmp_path / "clip")
    return tmp_path / "clip"


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

    fingerprints = {
        changed("preprocessor_config.json", "0.48145466", "0.5"),
        changed("merges.txt", "d o\n", ""),
        changed("config.json", "quick_gelu", "gelu"),
    }
    write_clip(tmp_path / "other weights", seed=1)
    fingerprints.add(Clip.open(tmp_path / "other weights").fingerprint)
    assert len(fingerprints | {first}) == 5


def test_preprocessing_in_the_processors_file(own_clip: Path) -> None:
    expected = Clip.open(own_clip)
    inner = json.loads((own_clip / "preprocessor_config.json").read_text())
    (own_clip / "preprocessor_config.json").unlink()
    (own_clip / "processor_config.json").write_text(json.dumps({"image_processor": inner}))
    opened = Clip.open(own_clip)
    assert (opened.preprocessing, opened.fingerprint) == (expected.preprocessing, expected.fingerprint)


def test_old_weights_are_read_without_executing_them(own_clip: Path) -> None:
    expected = Clip.open(own_clip)
    torch.save(expected.module.state_dict(), own_clip / "pytorch_model.bin")
    (own_clip / "model.safetensors").unlink()
    opened = Clip.open(own_clip)
    np.testing.assert_array_equal(opened.encode_images(IMAGES), expected.encode_images(IMAGES))
    np.testing.assert_array_equal(opened.encode_texts(TEXTS), expected.encode_texts(TEXTS))


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
        ("config.json", r"config.json: is missing"),
        ("preprocessor_config.json", r"preprocessor_config.json: is missing"),
        ("model.safetensors", r"clip: holds no weights"),
    ],
)
def test_an_incomplete_folder(own_clip: Path, gone: str, message: str) -> None:
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
    other = json.dumps({**CLIP_PREPROCESSING, "size": 30, "crop_size": 30})
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


def test_sources_that_do_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    downloaded = []

    def offline(name: str, **_: Any) -> str:
        downloaded.append(name)
        raise huggingface_hub.errors.LocalEntryNotFoundError("no network")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(InputError, match="is no folder of a model"):
        Clip.open(tmp_path / "nothing")
    assert downloaded == []
    with pytest.raises(MissingError, match=r"somebody/clip is neither a folder here nor .*no network"):
        Clip.open("somebody/clip")
    assert downloaded == ["somebody/clip"]


def test_a_hub_name_is_downloaded(own_clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **_: str(own_clip))
    assert Clip.open("somebody/clip").fingerprint == Clip.open(own_clip).fingerprint


def test_a_folder_written_by_genius_that_was_altered(own_clip: Path, tmp_path: Path) -> None:
    with storage.create(tmp_path / "ours", kind=ARTIFACT, format=FORMAT) as draft:
        shutil.copytree(own_clip, draft.folder, dirs_exist_ok=True)
    assert Clip.open(tmp_path / "ours").fingerprint == Clip.open(own_clip).fingerprint
    (tmp_path / "ours" / "merges.txt").write_text("#version: 0.2\n")
    with pytest.raises(DamagedError, match=r"merges.txt is damaged"):
        Clip.open(tmp_path / "ours")
