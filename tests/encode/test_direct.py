"""Features without the cache equal those in it, and never many large images are in memory at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from genius.data.content_key import content_key
from genius.data.images import load
from genius.data.records import ImageBytes
from genius.encode import direct, lite
from genius.encode.direct import image_features, loaded_image_features, pixel_batches, text_features
from genius.encode.feature_cache import FeatureCache
from genius.encode.inputs import EncoderInputs
from genius.encode.pipeline import EncodingReport, open_cached_encoder
from genius.errors import InputError
from tests.encode.small_clip import noise
from tests.encode.small_towers import write_small_towers
from tests.loaded_images import ENCODER, coloured, watch_loading
from tests.pictures import encoded, png_header


def stored(cache: FeatureCache, keys: Sequence[bytes | None]) -> np.ndarray:
    """Rows of the cache in float32, zeros for what is absent."""
    rows = np.zeros((len(keys), cache.width), np.float32)
    for place, key in enumerate(keys):
        if key is not None:
            rows[place] = cache.rows([key])[0]
    return rows


def test_direct_features_equal_cached_ones_bit_for_bit(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnx")
    loader = lite.loader(write_small_towers(tmp_path / "towers"))
    encoder, inputs = loader(1), EncoderInputs()
    images = [ImageBytes(encoded(noise(30 + n, 25, seed=n)), f"{n}") for n in range(5)]
    texts = ["a red square", "the blue one", "text that matches", "red", "find a picture of the grey one"]
    inputs.images |= {image.name: image for image in images}
    inputs.texts |= dict.fromkeys(texts)
    with open_cached_encoder(loader, encoder, tmp_path / "cache", workers=1) as cached:
        keys = cached.fill(inputs, EncodingReport())
        image_rows = stored(cached.images, [None, *(keys.images[image.name] for image in images)])
        text_rows = stored(cached.texts, [None, *(keys.texts[text] for text in texts)])
    directly = image_features(encoder, [None, *images])
    loaded = loaded_image_features(encoder, [None, *map(load, images)])
    said = text_features(encoder, ["", *texts])
    for (features, present), rows in ((directly, image_rows), (loaded, image_rows), (said, text_rows)):
        assert features.dtype == np.float32
        assert features.tobytes() == rows.tobytes()
        assert present.tolist() == [False] + [True] * 5
    unrounded = encoder.encode_texts(texts)
    assert not np.array_equal(said[0][1:], unrounded), "features of this encoder do not fit into 16 bits"
    np.testing.assert_allclose(said[0][1:], unrounded, rtol=1e-3, atol=1e-6)


def test_features_that_the_cache_refuses_are_refused(tmp_path: Path) -> None:
    huge: Any = SimpleNamespace(text_width=2, encode_texts=lambda texts: np.full((len(texts), 2), 1e6))
    with pytest.raises(InputError, match="NaN or too large for 16 bits"):
        text_features(huge, ["a"])
    with FeatureCache(tmp_path / "texts.cache", 2) as cache:
        with pytest.raises(InputError, match="NaN or too large for 16 bits"):
            cache.add([content_key(b"a")], huge.encode_texts(["a"]))
        assert cache.missing([content_key(b"a")]) == [0]


def test_nothing_to_encode() -> None:
    for features, present in (
        image_features(ENCODER, []),
        text_features(ENCODER, []),
        text_features(ENCODER, [""]),
    ):
        assert not features.any()
        assert not present.any()


# --- memory, which has space for two images -----------------------------------------------------


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return watch_loading(monkeypatch, direct)


def test_features_are_those_of_each_image(held: list[int]) -> None:
    images = [None, *coloured(7), None]
    features, present = image_features(ENCODER, images)
    assert present.tolist() == [image is not None for image in images]
    np.testing.assert_array_equal(features[1:8], [[n, 2 * n, 9] for n in range(7)])
    assert (len(held), max(held)) == (7, 2)


def test_batches_cover_all_images_and_are_small_enough(held: list[int]) -> None:
    images = [None, *coloured(3), ImageBytes(b"no image"), ImageBytes(png_header(900, 900)), *coloured(2)]
    batches = list(pixel_batches(images))
    assert [place for batch in batches for place in range(batch.start, batch.stop)] == list(
        range(len(images))
    )
    assert [batch.stop - batch.start for batch in batches] == [3, 2, 1, 2]  # the large one is alone
    assert [batch.stop for batch in pixel_batches([None] * 5, 2)] == [2, 4, 5]
    assert list(pixel_batches([])) == []
