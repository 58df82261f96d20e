from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from genius.encode.features import Features, is_up_to_date, write_features
from genius.errors import DamagedError, MismatchError
from tests.encode.toy_encoder import ToyEncoder

IMAGES = np.arange(6, dtype=np.float16).reshape(2, 3)
TEXTS = np.array([[5, 1], [9, 2], [5, 1]], np.float16)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Features of two images and three texts."""
    texts = ["hello", "two words", "HELLO"]
    toy = ToyEncoder(tmp_path / "diary")
    write_features(tmp_path / "features", toy, "digest", (["a.jpg", "b.jpg"], IMAGES), (texts, TEXTS))
    return tmp_path / "features"


def test_rows_are_found_by_name_and_by_text(written: Path) -> None:
    features = Features.open(written)
    assert features.image_rows(["b.jpg", None, "c.jpg", "a.jpg"]).tolist() == [1, -1, -1, 0]
    assert features.text_rows(["two words", "never seen"]).tolist() == [1, -1]
    np.testing.assert_array_equal(features.images, IMAGES)
    np.testing.assert_array_equal(features.texts, TEXTS)
    assert features.text_key(0) == features.text_key(2) != features.text_key(1)
    assert features.image_key(0) != features.image_key(1)


def test_features_of_another_encoder_are_refused(written: Path) -> None:
    other = ToyEncoder(written, "other")
    with pytest.raises(MismatchError, match="holds features of the encoder toy, but here other is used"):
        Features.open(written, other)


def test_features_are_up_to_date_for_the_same_inputs_and_encoder(written: Path, tmp_path: Path) -> None:
    toy = ToyEncoder(tmp_path / "diary")
    assert is_up_to_date(written, toy, "digest")
    assert not is_up_to_date(written, toy, "another digest")
    assert not is_up_to_date(written, ToyEncoder(tmp_path, "other"), "digest")
    assert not is_up_to_date(tmp_path / "nothing", toy, "digest")


def test_a_flipped_byte_in_features(written: Path) -> None:
    content = bytearray((written / "images.npy").read_bytes())
    content[-1] ^= 4
    (written / "images.npy").write_bytes(content)
    with pytest.raises(DamagedError, match=r"images.npy is damaged"):
        Features.open(written)
