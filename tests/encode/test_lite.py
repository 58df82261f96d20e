from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")
pytest.importorskip("onnx")

from genius.encode import lite
from genius.errors import MissingError
from tests.encode.small_towers import write_small_towers


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> lite.Lite:
    return lite.Lite.open(write_small_towers(tmp_path_factory.mktemp("towers") / "lite"), threads=1)


def images(count: int) -> list[Image.Image]:
    random = np.random.default_rng(0)
    return [Image.fromarray(random.integers(0, 256, (20 + n, 30, 3), dtype=np.uint8)) for n in range(count)]


def test_parts_add_up(encoder: lite.Lite) -> None:
    assert encoder.encode_images(images(2)).shape == (2, encoder.image_width)
    assert encoder.encode_texts(["A red square.", "blue"]).shape == (2, encoder.text_width)
    assert list(encoder.image_parts) == ["mean", "max", "logits", "stages", "grid", "colours", "thumbnail"]
    assert list(encoder.text_parts) == ["mean", "max", "words"]


def test_features_are_batch_invariant(encoder: lite.Lite) -> None:
    together = encoder.encode_images(images(3))
    alone = np.concatenate([encoder.encode_images([image]) for image in images(3)])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    texts = ["red", "a red square .", "the blue one", "", "red red red red red red"]
    together = encoder.encode_texts(texts)
    alone = np.concatenate([encoder.encode_texts([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert np.isfinite(together).all()


def test_however_many_images_are_given_few_pass_the_tower_at_a_time(
    encoder: lite.Lite, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, sizes = encoder._image.run, []

    def counted(names: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        sizes.append(len(inputs["pixels"]))
        return list(run(names, inputs))

    monkeypatch.setattr(encoder, "_image", SimpleNamespace(run=counted))
    count = 2 * lite.IMAGE_BATCH + 1
    assert np.isfinite(encoder.encode_images(images(count))).all()
    assert sizes == [lite.IMAGE_BATCH, lite.IMAGE_BATCH, 1]


def test_nothing_to_encode(encoder: lite.Lite) -> None:
    assert encoder.encode_images([]).shape == (0, encoder.image_width)
    assert encoder.encode_texts([]).shape == (0, encoder.text_width)


def test_long_texts_are_truncated(encoder: lite.Lite) -> None:
    long = " ".join(["red"] * lite.MAX_TOKENS)
    np.testing.assert_array_equal(encoder.encode_texts([long + " blue blue"]), encoder.encode_texts([long]))
    assert encoder.too_long([long, long + " blue", "", "red"]) == [False, True, False, False]


def test_without_weights_the_command_that_gets_them_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="get it with genius fetch"):
        lite.build(tmp_path / "towers", weight_folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        ("a red square", []),
        ("unknown English words, 30 % off", []),
        ("собака на пляже", ["собака", "на", "пляже"]),
        ("a red 🐱 square", ["🐱"]),
        ("red 日本 and متجر", ["日本", "متجر"]),
        ("Ein Hund mit einem Ball", ["Ein", "Hund", "mit", "einem"]),
        ("un chien sur la plage", ["chien", "sur", "plage"]),
        ("Perro!", ["Perro"]),
        ("gato, (negro)", ["gato"]),
        ("a van met a dog at the op art show in LA", []),
    ],
)
def test_words_in_other_scripts_and_languages_and_emoji_are_not_read(
    encoder: lite.Lite, text: str, unread: list[str]
) -> None:
    assert encoder.unread_words([text, ""]) == [unread, []]
