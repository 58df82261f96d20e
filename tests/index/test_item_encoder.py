"""Images in memory: never many large ones at a time, of items and of queries."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from genius.data.records import ImageBytes, Item, Query
from genius.encode import direct
from genius.encode.direct import MaskedFeatures
from genius.index import item_encoder as coding
from genius.index import query as asking
from genius.model import Model
from genius.quantize.fusion_inputs import FusionInputs, gather
from tests.loaded_images import ENCODER, coloured, colours, watch_loading


@pytest.fixture(autouse=True)
def held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return watch_loading(monkeypatch, direct, coding)


def test_items_are_coded_a_few_pictures_at_a_time(held: list[int]) -> None:
    def item_fusion_inputs(image: MaskedFeatures, text: MaskedFeatures, modality: np.ndarray) -> FusionInputs:
        return gather(image[0], image, (image[0], text[1]))

    model = cast(
        Model, SimpleNamespace(uses_features=True, encoder=ENCODER, item_fusion_inputs=item_fusion_inputs)
    )
    items = [Item(image.name, image=image) for image in coloured(6)]
    embedded = coding._at_once(model, [*items[:3], Item("bad", image=ImageBytes(b"bad")), *items[3:]])
    assert embedded.places == [0, 1, 2, 4, 5, 6]
    assert list(embedded.failed) == ["bad"]
    np.testing.assert_array_equal(
        np.concatenate([part.embeddings for part in embedded.blocks])[:, 0], range(6)
    )
    assert (len(held), max(held)) == (6, 2)


def test_queries_of_whole_records_too(held: list[int]) -> None:
    def fusion_inputs(queries: Sequence[Query]) -> FusionInputs:
        embeddings = colours(
            [one for one in direct.load_images([query.image for query in queries]) if one is not None]
        )
        there = np.ones(len(queries), bool)
        return FusionInputs.from_parts(embeddings, (embeddings, there), (embeddings, ~there))

    model = cast(Model, SimpleNamespace(uses_features=False, fusion_inputs=fusion_inputs))
    found = asking._embedded(model, [Query(image=image) for image in coloured(5)])
    np.testing.assert_array_equal(found.embeddings[:, 0], range(5))
    assert (len(held), max(held)) == (5, 2)
