"""Pictures in memory: never many large ones at a time, and the same features however they are portioned."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image

from genius.data.images import load
from genius.data.records import ImageBytes, ImageSource, Item, Query
from genius.encode import direct
from genius.encode.direct import MaskedFeatures, image_features, pixel_batches
from genius.index import item_encoder as coding
from genius.index import query as asking
from genius.model import Model
from genius.quantize.fusion_inputs import FusionInputs
from tests.pictures import encoded, png_header

SIDE = 20


@pytest.fixture(autouse=True)
def held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many of the loaded pictures are in memory after each one; there is room for two."""
    alive: list[weakref.ref[Image.Image]] = []
    counts: list[int] = []

    def watched(source: ImageSource) -> Image.Image:
        alive.append(weakref.ref(picture := load(source)))
        gc.collect()
        counts.append(sum(one() is not None for one in alive))
        return picture

    monkeypatch.setattr(direct, "MAX_PIXELS", 2 * SIDE * SIDE)
    monkeypatch.setattr(direct, "load", watched)
    monkeypatch.setattr(coding, "load", watched)
    return counts


def pictures(count: int) -> list[ImageBytes]:
    return [ImageBytes(encoded(Image.new("RGB", (SIDE, SIDE), (n, 2 * n, 9))), f"{n}") for n in range(count)]


def colours(shown: Sequence[Image.Image]) -> np.ndarray:
    return np.array([picture.getpixel((0, 0)) for picture in shown], np.float32).reshape(-1, 3)


ENCODER: Any = SimpleNamespace(
    image_width=3, text_width=1, encode_images=colours, encode_texts=lambda texts: np.ones((len(texts), 1))
)


def test_features_are_those_of_each_picture(held: list[int]) -> None:
    images = [None, *pictures(7), None]
    found, present = image_features(ENCODER, images)
    assert present.tolist() == [image is not None for image in images]
    np.testing.assert_array_equal(found[1:8], [[n, 2 * n, 9] for n in range(7)])
    assert (len(held), max(held)) == (7, 2)


def test_portions_are_all_there_is_and_small_enough() -> None:
    images = [None, *pictures(3), ImageBytes(b"no picture"), ImageBytes(png_header(900, 900)), *pictures(2)]
    parts = list(pixel_batches(images))
    assert [place for part in parts for place in range(part.start, part.stop)] == list(range(len(images)))
    assert [part.stop - part.start for part in parts] == [3, 2, 1, 2]  # the large one is alone
    assert [part.stop for part in pixel_batches([None] * 5, 2)] == [2, 4, 5]
    assert list(pixel_batches([])) == []


def test_items_are_coded_a_few_pictures_at_a_time(held: list[int]) -> None:
    def item_fusion_inputs(image: MaskedFeatures, text: MaskedFeatures, modality: np.ndarray) -> FusionInputs:
        return gather(image[0], image, (image[0], text[1]))

    model = cast(Model, SimpleNamespace(uses_features=True, encoder=ENCODER, item_fusion_inputs=item_fusion_inputs))
    items = [Item(image.name, image=image) for image in pictures(6)]
    embedded = coding._at_once(model, [*items[:3], Item("bad", image=ImageBytes(b"bad")), *items[3:]])
    assert embedded.places == [0, 1, 2, 4, 5, 6]
    assert list(embedded.failed) == ["bad"]
    np.testing.assert_array_equal(np.concatenate([part.embeddings for part in embedded.blocks])[:, 0], range(6))
    assert (len(held), max(held)) == (6, 2)


def test_queries_of_whole_records_too(held: list[int]) -> None:
    def fusion_inputs(queries: Sequence[Query]) -> FusionInputs:
        embeddings = colours([one for one in direct.load_images([query.image for query in queries]) if one is not None])
        there = np.ones(len(queries), bool)
        return FusionInputs.from_parts(embeddings, (embeddings, there), (embeddings, ~there))

    model = cast(Model, SimpleNamespace(uses_features=False, fusion_inputs=fusion_inputs))
    found = asking._embedded(model, [Query(image=image) for image in pictures(5)])
    np.testing.assert_array_equal(found.embeddings[:, 0], range(5))
    assert (len(held), max(held)) == (5, 2)
