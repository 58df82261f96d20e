from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from genius.data.instructions import clean
from genius.data.records import ImageBytes, Item
from genius.encode.direct import MaskedFeatures
from genius.index import item_encoder
from genius.model import Model
from genius.quantize.fusion_inputs import FusionInputs
from tests.loaded_images import ENCODER, coloured, watch_loading


def test_few_images_are_in_memory_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    in_memory = watch_loading(monkeypatch, item_encoder)

    def item_fusion_inputs(image: MaskedFeatures, text: MaskedFeatures, modality: np.ndarray) -> FusionInputs:
        return FusionInputs.from_parts(image[0], image, (image[0], text[1]))

    fake = SimpleNamespace(
        uses_features=True, encoder=ENCODER, item_fusion_inputs=item_fusion_inputs, read_text=clean
    )
    model = cast(Model, fake)
    items = [Item(image.name, image=image) for image in coloured(6)]
    bad = [Item("bad", image=ImageBytes(b"bad")), Item("empty", "  ")]
    embedded = item_encoder._embed_directly(model, [*items[:3], *bad, *items[3:]])
    assert embedded.places == [0, 1, 2, 5, 6, 7]
    assert list(embedded.failed) == ["bad", "empty"]
    embeddings = np.concatenate([block.embeddings for block in embedded.blocks])
    np.testing.assert_array_equal(embeddings[:, 0], range(6))
    assert (len(in_memory), max(in_memory)) == (6, 2)
