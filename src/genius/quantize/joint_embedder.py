"""Images and texts to embeddings by an encoder whose images and texts are in one space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from genius.data.instructions import GENERIC
from genius.encode.direct import MaskedFeatures, as_stored, loaded_image_features, text_features
from genius.encode.encoder import Encoder, PairEncoder, QueryEncoder
from genius.quantize.fusion_inputs import FusionInputs
from genius.quantize.joint_space import JointSpace, modality_of

if TYPE_CHECKING:
    from PIL import Image

Images = Sequence["Image.Image | None"]


class JointEmbedder:
    """Embeds items and queries; what is absent is None or an empty text."""

    def __init__(self, encoder: Encoder, space: JointSpace) -> None:
        self._encoder, self._space = encoder, space

    def items(self, images: Images, texts: Sequence[str]) -> FusionInputs:
        """Items by their images and texts."""
        encoder = self._encoder
        if not isinstance(encoder, PairEncoder):
            return self._space.from_parts(
                loaded_image_features(encoder, images), text_features(encoder, texts)
            )
        modality, rows = _modality(images, texts), np.zeros((len(images), encoder.text_width), np.float32)
        pairs = [place for place, image in enumerate(images) if image is not None and texts[place]]
        alone = np.setdiff1d(np.arange(len(images)), pairs)
        if pairs:
            both = [image for place in pairs if (image := images[place]) is not None]
            rows[pairs] = as_stored(encoder.encode_pairs(both, [texts[place] for place in pairs]))
        if len(alone):
            image_rows = loaded_image_features(encoder, [images[place] for place in alone])[0]
            rows[alone] = image_rows + text_features(encoder, [texts[place] for place in alone])[0]
        return self._space.from_wholes(rows, modality)

    def queries(self, images: Images, texts: Sequence[str], instructions: Sequence[str]) -> FusionInputs:
        """Queries by their images and texts; instructions count if the encoder takes any.

        Generic ones never do: they were made for trained heads, and say nothing that the encoder knows of.
        """
        encoder = self._encoder
        if not isinstance(encoder, QueryEncoder):
            return self.items(images, texts)
        own = ["" if instruction in GENERIC else instruction for instruction in instructions]

        def encode(images: Images, texts: Sequence[str]) -> MaskedFeatures:
            present = np.array(
                [image is not None or bool(text) for image, text in zip(images, texts, strict=True)]
            )
            rows = np.zeros((len(texts), encoder.text_width), np.float32)
            places = np.flatnonzero(present).tolist()
            if places:
                chosen = [images[p] for p in places], [texts[p] for p in places], [own[p] for p in places]
                rows[places] = as_stored(encoder.encode_queries(*chosen))
            return rows, present

        if isinstance(encoder, PairEncoder):
            return self._space.from_wholes(encode(images, texts)[0], _modality(images, texts))
        return self._space.from_parts(encode(images, [""] * len(texts)), encode([None] * len(images), texts))


def _modality(images: Images, texts: Sequence[str]) -> np.ndarray:
    has_image = np.array([image is not None for image in images], bool)
    return modality_of(has_image, np.array([bool(text) for text in texts], bool))
