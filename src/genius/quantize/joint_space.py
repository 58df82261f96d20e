"""Vectors of images and texts from one encoder as embeddings in one space, without training.

An encoder that was trained to match images with texts still keeps them in two separate clouds (the modality
gap): a text is nearer to any other text than to the image that it describes. Each cloud is moved to the
origin, so that what is compared is where in its cloud a vector lies. Where all items are of one kind there is
no gap, nothing is moved, and rankings are exactly the encoder's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from genius.data.records import MODALITIES, Modality, Vectors
from genius.encode.direct import MaskedFeatures
from genius.errors import InputError
from genius.quantize.fusion_inputs import FusionInputs
from genius.quantize.quantizer import unit_length

IMAGE, TEXT, PAIR = (MODALITIES.index(kind) for kind in (Modality.IMAGE, Modality.TEXT, Modality.PAIR))


class JointSpace:
    """Embeddings from vectors, by the centre of each kind of vector: float32 [modalities, width]."""

    def __init__(self, centres: np.ndarray) -> None:
        self.centres = np.ascontiguousarray(centres, np.float32)

    @classmethod
    def uncentred(cls, width: int) -> JointSpace:
        """The space in which vectors only get unit length."""
        return cls(np.zeros((len(MODALITIES), width), np.float32))

    @classmethod
    def fit(cls, inputs: FusionInputs, *, whole: bool) -> JointSpace:
        """The space with the centres of these items, whose parts and embeddings are of the uncentred space.

        `whole` says that an image with its text is one vector of a kind of its own, and not two parts.
        """
        if whole:
            kinds = modality_of(inputs.has_image, inputs.has_text)
            by_kind = [(inputs.embeddings, kinds == kind) for kind in range(len(MODALITIES))]
        else:
            parts = inputs[slice(None)]
            nothing = np.zeros(len(inputs), bool)
            by_kind = [(parts["image"], parts["has_image"]), (parts["text"], parts["has_text"])]
            by_kind.append((parts["embeddings"], nothing))
        space = cls.uncentred(inputs.width)
        if sum(rows.any() for _, rows in by_kind) > 1:
            for kind, (vectors, rows) in enumerate(by_kind):
                if rows.any():
                    space.centres[kind] = vectors[rows].mean(0, dtype=np.float64)
        return space

    @classmethod
    def open(cls, path: Path) -> JointSpace:
        """The space that `write` wrote to a file."""
        from safetensors.numpy import load_file

        return cls(load_file(path)["centres"])

    def write(self, path: Path) -> None:
        """Write the centres to a file."""
        from safetensors.numpy import save_file

        save_file({"centres": self.centres}, path)

    def from_parts(self, image: MaskedFeatures, text: MaskedFeatures) -> FusionInputs:
        """Records from vectors of their images and texts; one with both is the middle of the two."""
        image_part = np.where(image[1][:, None], self._centred(image[0], IMAGE), np.float32(0))
        text_part = np.where(text[1][:, None], self._centred(text[0], TEXT), np.float32(0))
        embeddings = unit_length(image_part + text_part)
        return FusionInputs.from_parts(embeddings, (image_part, image[1]), (text_part, text[1]))

    def from_wholes(self, vectors: np.ndarray, modality: np.ndarray) -> FusionInputs:
        """Records from one vector each [n, width], and their modality [n]."""
        embeddings = self._centred(vectors, modality)
        has_image, has_text = modality != TEXT, modality != IMAGE
        return FusionInputs.from_parts(embeddings, (embeddings, has_image), (embeddings, has_text))

    def from_vectors(self, vectors: Sequence[Vectors], modality: np.ndarray) -> FusionInputs:
        """Records from vectors that the user gave: all of the whole, or all of their images and texts.

        Raises InputError for vectors of another width, or where some are of the whole and others of parts.
        """
        width = self.centres.shape[1]
        for given in vectors:
            check_width(given, width)
        wholes = [given.whole for given in vectors if given.whole is not None]
        if len(wholes) == len(vectors):
            return self.from_wholes(np.stack(wholes), modality)
        if wholes:
            raise InputError(
                "some vectors are of the whole and others of image and text apart: give all alike"
            )
        image, text = (
            _masked([getattr(given, part) for given in vectors], width) for part in ("image", "text")
        )
        return self.from_parts(image, text)

    def moved(self, inputs: FusionInputs, *, whole: bool) -> FusionInputs:
        """Records of the uncentred space in this one."""
        if whole:
            return self.from_wholes(inputs.embeddings, modality_of(inputs.has_image, inputs.has_text))
        parts = inputs[slice(None)]
        return self.from_parts((parts["image"], parts["has_image"]), (parts["text"], parts["has_text"]))

    def _centred(self, vectors: np.ndarray, kind: int | np.ndarray) -> np.ndarray:
        """Vectors at unit length, less the centre of their kind, at unit length again."""
        return unit_length(unit_length(np.asarray(vectors, np.float32)) - self.centres[kind])


def check_width(vectors: Vectors, width: int) -> None:
    """Raise InputError for vectors of another width."""
    if vectors.width != width:
        raise InputError(
            f"a vector has {vectors.width} numbers, and this model takes {width}: "
            "it comes from another encoder"
        )


def masked_parts(
    vectors: Sequence[Vectors], modality: np.ndarray, width: int
) -> tuple[MaskedFeatures, MaskedFeatures]:
    """The vectors of images and of texts that the user gave, with records of this modality [n].

    A vector of the whole is that of the one part that a record has. Raises InputError for vectors of another
    width, and for a vector of the whole where a record has both parts.
    """
    images: list[np.ndarray | None] = []
    texts: list[np.ndarray | None] = []
    for given, kind in zip(vectors, modality.tolist(), strict=True):
        check_width(given, width)
        if given.whole is not None and kind == PAIR:
            raise InputError(
                "one vector of an image with its text can't be taken apart, and this model fuses the two: "
                "give one of each"
            )
        images.append(given.whole if given.whole is not None and kind == IMAGE else given.image)
        texts.append(given.whole if given.whole is not None and kind == TEXT else given.text)
    return _masked(images, width), _masked(texts, width)


def _masked(vectors: Sequence[np.ndarray | None], width: int) -> MaskedFeatures:
    present = np.array([vector is not None for vector in vectors], bool)
    rows = np.zeros((len(vectors), width), np.float32)
    for place, vector in enumerate(vectors):
        if vector is not None:
            rows[place] = vector
    return rows, present


def modality_of(has_image: np.ndarray, has_text: np.ndarray) -> np.ndarray:
    """The number of each record's modality [n], by what it has."""
    return np.where(has_image & has_text, PAIR, np.where(has_image, IMAGE, TEXT))
