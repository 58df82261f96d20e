from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from genius.encode.clip_preprocess import CROP_OFFSET, Preprocessing
from genius.errors import InputError
from tests.encode.small_clip import CLIP_PREPROCESSING, CLIP_SIDE, SIGLIP_PREPROCESSING, noise


def test_small_and_long_images() -> None:
    """An image smaller than the crop is framed in black; of a very long one the middle is taken."""
    whole = Preprocessing.parse({**CLIP_PREPROCESSING, "do_resize": False, "do_normalize": False}, "clip")
    pixels = whole.pixels(Image.new("RGB", (7, 5), "white"))
    assert pixels.shape == (3, CLIP_SIDE, CLIP_SIDE)
    assert pixels[0].sum() == pytest.approx(35)
    assert pixels[0, 8:13, 7:14].sum() == pytest.approx(35)
    strip = noise(3000, 10)
    pixels = Preprocessing.parse(CLIP_PREPROCESSING, "clip").pixels(strip)
    middle = Preprocessing.parse(CLIP_PREPROCESSING, "clip").pixels(strip.crop((1470, 0, 1530, 10)))
    np.testing.assert_allclose(pixels, middle, atol=1e-6)


@pytest.mark.parametrize("margin", range(1, 9))
def test_a_crop_begins_where_torchvision_s_does(margin: int) -> None:
    """At the rounded half of the margin, halves to the even number; by Hugging Face's rule, at the lower."""
    columns = np.arange(CLIP_SIDE + margin, dtype=np.uint8)
    image = Image.fromarray(np.tile(columns[None, :, None], (CLIP_SIDE, 1, 3)))
    config = {**CLIP_PREPROCESSING, "do_resize": False, "do_normalize": False, "do_rescale": False}
    even = Preprocessing.parse({**config, CROP_OFFSET: "even"}, "clip")
    assert even.pixels(image)[0, 0, 0] == round(margin / 2.0)
    usual = Preprocessing.parse(config, "clip")
    assert usual.pixels(image)[0, 0, 0] == margin // 2
    assert "crop_offset" in even.described() and "crop_offset" not in usual.described()


def test_other_modes_become_rgb() -> None:
    preprocessing = Preprocessing.parse(SIGLIP_PREPROCESSING, "siglip")
    grey = noise(30, 30).convert("L")
    np.testing.assert_array_equal(preprocessing.pixels(grey), preprocessing.pixels(grey.convert("RGB")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"do_pad": True}, "asks for do_pad"),
        ({"size": {"longest_edge": 20}}, "how pictures are prepared"),
        ({"image_mean": None}, "how pictures are prepared"),
        ({"resample": 77}, "how pictures are prepared"),
        ({"do_center_crop": False}, "pictures of different sizes"),
        ({CROP_OFFSET: "odd"}, "a crop offset 'odd', which is not known"),
    ],
)
def test_preprocessing_that_is_not_understood(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Preprocessing.parse({**CLIP_PREPROCESSING, **change}, "clip")
