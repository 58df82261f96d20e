"""From items to codes and embeddings, through the feature cache if there are many."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from genius.data.content_key import content_key
from genius.data.images import load
from genius.data.records import MODALITIES, Item, Vectors
from genius.encode.direct import MaskedFeatures, loaded_image_features, pixel_batches, text_features
from genius.encode.feature_cache import FeatureCache
from genius.encode.inputs import EncoderInputs
from genius.encode.pipeline import CachedEncoder, EncodingReport, open_cached_encoder
from genius.errors import InputError
from genius.identifiers.scheme import ItemContents
from genius.index.entries import image_hash_of
from genius.model import Model
from genius.quantize.fusion_inputs import FusionInputs, concatenate
from genius.quantize.joint_space import check_width

_EMPTY = InputError("its text says nothing")
VECTORS_ALONE = (
    "these are vectors, and this model embeds texts and images itself: make one that takes them with "
    "genius fit --encoder precomputed"
)
_NO_VECTOR = InputError(
    "has no vector, and the model was fitted on vectors that were given: name their file with --vectors, or "
    "give the item a vector"
)

IMAGES = 64
"""How many items are encoded together, where no features are kept."""
FEW = 64
"""Up to so many items are encoded directly, without the feature cache."""


@dataclass(frozen=True, eq=False)
class EncodedItems:
    """Items that could be encoded, and why the others could not.

    Attributes:
        places: which of the items these are, rising [n].
        codes: uint16 [n, levels].
        modality: the number of each one's modality [n].
        embeddings: float16 [n, width].
        half_sq_norms: half the squared norms of the quantized vectors, float32 [n].
        image_hashes: of images' bytes, by item id.
        failed: by item id.
    """

    places: np.ndarray
    codes: np.ndarray
    modality: np.ndarray
    embeddings: np.ndarray
    half_sq_norms: np.ndarray
    image_hashes: dict[str, bytes]
    failed: dict[str, InputError]


EncodeItems = Callable[[Sequence[Item]], EncodedItems]


@dataclass(frozen=True, eq=False)
class EmbeddedItems:
    """Items that could be embedded, in blocks, and why the others could not."""

    places: list[int]
    blocks: list[FusionInputs]
    image_hashes: dict[str, bytes]
    failed: dict[str, InputError]


@contextlib.contextmanager
def item_encoder(
    model: Model, cache: Path, workers: int, taken: np.ndarray | None = None
) -> Iterator[EncodeItems]:
    """A function that encodes items, a few hundred at a time; their ids must differ.

    `taken` are codes [n, levels] that other items have, for identifiers that no two items share.

    The cache and the workers are opened only for more than a few: opening a large cache takes longer than
    encoding a few items, and another process may be using it for hours.
    """
    code = _item_coder(model, taken)
    with embed_items(model, cache, workers) as embed:
        yield lambda items: _quantize(model, items, embed(items), code)


@contextlib.contextmanager
def embed_items(
    model: Model, cache: Path, workers: int
) -> Iterator[Callable[[Sequence[Item]], EmbeddedItems]]:
    """The same without codes, for models that have none yet."""
    with contextlib.ExitStack() as stack:
        opened: list[CachedEncoder] = []

        def embed(items: Sequence[Item]) -> EmbeddedItems:
            if model.takes_vectors:
                return _embed_vectors(model, items)
            if any(item.is_vector_alone for item in items):
                raise InputError(VECTORS_ALONE)
            if not model.uses_features or (not opened and len(items) <= FEW):
                return _embed_directly(model, items)
            if not opened:
                work = open_cached_encoder(model.encoder_loader, model.encoder, cache, workers)
                opened.append(stack.enter_context(work))
            return _embed_by_cache(model, opened[0], items)

        yield embed


ItemCoder = Callable[[Sequence[Item], FusionInputs], np.ndarray]
"""From items and their embeddings to their codes uint16 [n, levels]."""


def _item_coder(model: Model, taken: np.ndarray | None) -> ItemCoder:
    """By the quantizer, or by identifiers of another method, which it goes on numbering."""
    if model.has_code_vectors:
        return lambda items, inputs: model.quantizer.codes(model.vectors(inputs), _modality(items))
    numbering = model.identifiers.numbering(taken)
    return lambda items, inputs: numbering.codes(
        ItemContents([item.id for item in items], inputs, [model.read_text(item.text) for item in items])
    )


def _quantize(model: Model, items: Sequence[Item], embedded: EmbeddedItems, code: ItemCoder) -> EncodedItems:
    places, kept = embedded.places, [items[place] for place in embedded.places]
    if not places:
        codes = np.zeros((0, len(model.code_space.sizes)), np.uint16)
        embeddings = np.zeros((0, model.width), np.float16)
    else:
        inputs = concatenate(embedded.blocks)
        codes = code(kept, inputs)
        embeddings = inputs.embeddings.astype(np.float16)
    return EncodedItems(
        places=np.array(places, np.int64),
        codes=codes,
        modality=_modality(kept),
        embeddings=embeddings,
        half_sq_norms=model.code_space.half_sq_norms(codes),
        image_hashes=embedded.image_hashes,
        failed=embedded.failed,
    )


def _embed_by_cache(model: Model, work: CachedEncoder, items: Sequence[Item]) -> EmbeddedItems:
    """From cached features. Images go by the item's id: two of one name need not be the same."""
    contents, report = EncoderInputs(), EncodingReport()
    texts = [model.read_text(item.text) for item in items]
    for item, text in zip(items, texts, strict=True):
        if item.image is not None:
            contents.images[item.id] = item.image
        if text:
            contents.texts.setdefault(text)
    keys = work.fill(contents, report, bars=False)
    failed = {
        id: report.failed.get(id, InputError("its image can't be read, like another with the same bytes"))
        for id in contents.images
        if id not in keys.images
    }
    failed |= {item.id: _EMPTY for item, text in zip(items, texts, strict=True) if not (item.image or text)}
    places = [place for place, item in enumerate(items) if item.id not in failed]
    blocks = []
    if places:
        images = _cached_rows(work.images, [keys.images.get(items[place].id) for place in places])
        spoken = _cached_rows(work.texts, [keys.texts.get(texts[place]) for place in places])
        blocks = [model.item_fusion_inputs(images, spoken, _modality([items[place] for place in places]))]
    return EmbeddedItems(places, blocks, keys.images, failed)


def _cached_rows(cache: FeatureCache, keys: Sequence[bytes | None]) -> MaskedFeatures:
    """Features by key, and which of them are present."""
    present = np.array([key is not None for key in keys])
    rows = np.zeros((len(keys), cache.width), np.float32)
    if present.any():
        rows[present] = cache.rows([key for key in keys if key is not None])
    return rows, present


def _embed_vectors(model: Model, items: Sequence[Item]) -> EmbeddedItems:
    """From the vectors that items bring along."""
    embedded = EmbeddedItems([], [], {}, {})
    given: list[Vectors] = []
    for place, item in enumerate(items):
        try:
            if item.vectors is None:
                raise _NO_VECTOR
            check_width(item.vectors, model.width)
            embedded.image_hashes[item.id] = image_hash_of(item) or b""
        except InputError as error:
            embedded.failed[item.id] = error
            continue
        embedded.places.append(place)
        given.append(item.vectors)
    if given:
        modality = _modality([items[place] for place in embedded.places])
        embedded.blocks.append(model.vector_inputs(given, modality))
    return embedded


def _embed_directly(model: Model, items: Sequence[Item]) -> EmbeddedItems:
    """From images and texts themselves."""
    embedded = EmbeddedItems([], [], {}, {})
    for block in pixel_batches([item.image for item in items], IMAGES):
        images: list[Image.Image | None] = []
        texts: list[str] = []
        loaded: list[Item] = []
        for place, item in enumerate(items[block], block.start):
            text = model.read_text(item.text)
            try:
                if item.image is None and not text:
                    raise _EMPTY
                image = None
                if item.image is not None:
                    image = load(item.image)
                    embedded.image_hashes[item.id] = content_key(item.image.read())
            except InputError as error:
                embedded.failed[item.id] = error
                continue
            images.append(image)
            texts.append(text)
            loaded.append(item)
            embedded.places.append(place)
        if loaded:
            embedded.blocks.append(_fusion_inputs(model, images, texts, _modality(loaded)))
    return embedded


def _fusion_inputs(
    model: Model, images: Sequence[Image.Image | None], texts: Sequence[str], modality: np.ndarray
) -> FusionInputs:
    if not model.uses_features:
        return model.record_fusion_inputs(images, texts)
    features = loaded_image_features(model.encoder, images), text_features(model.encoder, texts)
    return model.item_fusion_inputs(*features, modality)


def _modality(items: Sequence[Item]) -> np.ndarray:
    return np.array([MODALITIES.index(item.modality) for item in items], np.int64)
