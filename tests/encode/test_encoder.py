from __future__ import annotations

from pathlib import Path

import pytest

from genius.encode import lite
from genius.encode.encoder import encoder_loader
from genius.errors import InputError
from tests.encode.small_clip import write_clip
from tests.encode.small_towers import use_small_towers, write_small_towers


def test_the_embedded_encoder_comes_with_towers_to_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnx")
    folder = write_small_towers(tmp_path / "towers")
    use_small_towers(tmp_path, monkeypatch)
    loader, towers = encoder_loader("lite")
    assert towers == folder
    assert loader(1).fingerprint == lite.Lite.open(folder).fingerprint


def test_a_clip_is_opened_from_its_source(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    write_clip(tmp_path / "clip")
    loader, towers = encoder_loader("clip", str(tmp_path / "clip"))
    assert towers is None
    assert (
        loader(torch.get_num_threads()).image_width == 32
    )  # a CLIP's threads are those of the whole process


def test_a_clip_without_a_source() -> None:
    with pytest.raises(InputError, match="clip needs a source"):
        encoder_loader("clip")
