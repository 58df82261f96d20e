"""From items to codes and joined embeddings, through the feature cache if they are many."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from genius.data.images import load
from genius.data.records import MODALITIES, Item
from genius.data.text import clean
from genius.encode.direct import MaskedFeatures, pixel_batches, text_features
from genius.encode.feature_cache import FeatureCache, content_key
from genius.encode.inputs import EncoderInputs
from genius.encode.pipeline import CachedEncoder, EncodingReport, open_cached_encoder
from genius.errors import InputError
from genius.model import Model
from genius.quantize.fusion_inputs import FusionInputs, concatenate

_EMPTY = InputError("its text says nothing")

PICTURES = 64
"""How many items are encoded together, where no features are kept."""
FEW = 64
"""So many items are encoded at once, without the cache of features."""


@dataclass(frozen=True, eq=False)
class CodedItems:
    """Items that could be coded, and why the others could not.

    Attributes:
        places: which of the items these are, rising.
        codes: uint16 [n, levels].
        modality: the number of each one's modality.
        joined: float16 [n, width].
        halves: half the squared length of the codes' vectors, float32 [n].
        pictures: the hashes of pictures' bytes, by id.
        failed: by id.
    """

    places: np.ndarray
    codes: np.ndarray
    modality: np.ndarray
    embeddings: np.ndarray
    halves: np.ndarray
    pictures: dict[str, bytes]
    failed: dict[str, InputError]


Coder = Callable[[Sequence[Item]], CodedItems]


@dataclass(frozen=True, eq=False)
class _Embedded:
    places: list[int]
    blocks: list[FusionInputs]
    pictures: dict[str, bytes]
    failed: dict[str, InputError]


@contextlib.contextmanager
def coder(model: Model, cache: Path, workers: int) -> Iterator[Coder]:
    """What codes items, a few hundred at a time; their ids must differ.

    The cache (and workers) are only opened for more than a few: a large one takes longer to open than a few
    items to encode, and another process may be using it for hours.
    """
    with contextlib.ExitStack() as stack:
        opened: list[CachedEncoder] = []

        def code(items: Sequence[Item]) -> CodedItems:
            if not model.uses_features or (not opened and len(items) <= FEW):
                return _coded(model, items, _at_once(model, items))
            if not opened:
                work = open_cached_encoder(model.encoder_loader, model.encoder, cache, workers)
                opened.append(stack.enter_context(work))
            return _coded(model, items, _from_features(model, opened[0], items))

        yield code


def _coded(model: Model, items: Sequence[Item], embedded: _Embedded) -> CodedItems:
    places, modality = embedded.places, _modality([items[place] for place in embedded.places])
    if not places:
        codes = np.zeros((0, len(model.quantizer.sizes)), np.uint16)
        embeddings = np.zeros((0, model.width), np.float16)
    else:
        parts = concatenate(embedded.blocks)
        codes = model.quantizer.codes(model.vectors(parts), modality)
        embeddings = parts.embeddings.astype(np.float16)
    quantized = model.quantizer.reconstruct(codes)
    halves = (0.5 * np.einsum("ij,ij->i", quantized, quantized)).astype(np.float32)
    found = np.array(places, np.int64), codes, modality, embeddings, halves
    return CodedItems(*found, embedded.pictures, embedded.failed)


def _from_features(model: Model, work: CachedEncoder, items: Sequence[Item]) -> _Embedded:
    """Pictures go by the item's id: two of one name need not be the same."""
    contents, report = EncoderInputs(), EncodingReport()
    texts = [clean(item.text) for item in items]
    for item, text in zip(items, texts, strict=True):
        if item.image is not None:
            contents.images[item.id] = item.image
        if text:
            contents.texts.setdefault(text)
    keys = work.fill(contents, report, bars=False)
    failed = {
        id: report.failed.get(id, InputError("its picture can't be read, like another with the same bytes"))
        for id in contents.images
        if id not in keys.images
    }
    failed |= {item.id: _EMPTY for item, text in zip(items, texts, strict=True) if not (item.image or text)}
    places = [n for n, item in enumerate(items) if item.id not in failed]
    blocks = []
    if places:
        images = _rows(work.images, [keys.images.get(items[n].id) for n in places])
        spoken = _rows(work.texts, [keys.texts.get(texts[n]) for n in places])
        blocks = [model.item_fusion_inputs(images, spoken, _modality([items[n] for n in places]))]
    return _Embedded(places, blocks, keys.images, failed)


def _rows(cache: FeatureCache, keys: Sequence[bytes | None]) -> MaskedFeatures:
    """Features by key, and which of them are there."""
    present = np.array([key is not None for key in keys])
    rows = np.zeros((len(keys), cache.width), np.float32)
    if present.any():
        rows[present] = cache.rows([key for key in keys if key is not None])
    return rows, present


def _at_once(model: Model, items: Sequence[Item]) -> _Embedded:
    """From pictures and texts themselves."""
    embedded = _Embedded([], [], {}, {})
    for part in pixel_batches([item.image for item in items], PICTURES):
        pictures: list[Image.Image | None] = []
        texts: list[str] = []
        read: list[Item] = []
        for place, item in enumerate(items[part], part.start):
            text = clean(item.text)
            try:
                if item.image is None and not text:
                    raise _EMPTY
                picture = None
                if item.image is not None:
                    picture, key = load(item.image), content_key(item.image.read())
                    embedded.pictures[item.id] = key
            except InputError as error:
                embedded.failed[item.id] = error
                continue
            pictures.append(picture)
            texts.append(text)
            read.append(item)
            embedded.places.append(place)
        if read:
            embedded.blocks.append(_parts(model, pictures, texts, _modality(read)))
    return embedded


def _parts(
    model: Model, pictures: Sequence[Image.Image | None], texts: Sequence[str], modality: np.ndarray
) -> FusionInputs:
    if not model.uses_features:
        return model.record_fusion_inputs(pictures, texts)
    present = np.array([picture is not None for picture in pictures])
    rows = np.zeros((len(pictures), model.encoder.image_width), np.float32)
    if present.any():
        rows[present] = model.encoder.encode_images([picture for picture in pictures if picture is not None])
    spoken, said = text_features(model.encoder, texts)
    return model.item_fusion_inputs((_rounded(rows), present), (_rounded(spoken), said), modality)


def _rounded(rows: np.ndarray) -> np.ndarray:
    """To 16 bits, as the cache keeps them: so it makes no difference which way an item came."""
    return rows.astype(np.float16).astype(np.float32)


def _modality(items: Sequence[Item]) -> np.ndarray:
    return np.array([MODALITIES.index(item.modality) for item in items], np.int64)
