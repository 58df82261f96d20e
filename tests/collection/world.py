"""A made-up collection: an index whose items have the embeddings that a test gives them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from PIL import Image

from genius.collection.members import Members
from genius.data.content_key import content_key
from genius.data.records import MODALITIES, ImageBytes, Item, Query
from genius.fit.kmeans import kmeans, nearest_centres
from genius.index.catalogue import Catalogue
from genius.index.index import Index
from genius.index.item_encoder import EncodedItems, EncodeItems
from genius.index.segments import KeptEmbeddings, SegmentFormat
from genius.index.snapshot import create_index_folder
from genius.model import Model
from genius.quantize.quantizer import Quantizer
from tests.index.made_up_index import MadeUpModel
from tests.pictures import encoded

WIDTH = 24
LEVELS = (3, 16, 16, 16)


class WorldModel(MadeUpModel):
    """Codes by the nearest code vectors; a word's embedding is what the test says."""

    width = vector_width = WIDTH

    def __init__(self, words: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        random = np.random.default_rng(3)
        books = [random.normal(size=(size, WIDTH)) / (2 + level) for level, size in enumerate(LEVELS)]
        self.quantizer = self.code_space = Quantizer(books, modality_code="given")
        self.words = words
        # What words mean is kept by the model's fingerprint: models of other words are others.
        meanings = [(word, vector.tolist()) for word, vector in sorted(words.items())]
        self.fingerprint = content_key(repr(meanings).encode()).hex()

    def fusion_inputs(self, queries: Sequence[Query]) -> Any:
        """The words' embeddings; unknown words are nowhere."""
        rows = [self.words.get(query.text or "", np.zeros(WIDTH)) for query in queries]
        return SimpleNamespace(embeddings=np.array(rows, np.float32), kinds=np.ones(len(rows), np.int64))


class WorldIndex(Index):
    """An index whose items are encoded as the test says, by id."""

    world: Mapping[str, np.ndarray]

    @contextmanager
    def _item_encoder(self, cache: Path | None, workers: int) -> Iterator[EncodeItems]:
        yield self._encode

    def _encode(self, items: Sequence[Item]) -> EncodedItems:
        embeddings = np.array([self.world[item.id] for item in items], np.float32).reshape(-1, WIDTH)
        modality = np.array([MODALITIES.index(item.modality) for item in items])
        codes = self.model.quantizer.codes(embeddings, modality)
        return EncodedItems(
            np.arange(len(items)),
            codes.astype(np.uint16),
            modality,
            embeddings.astype(np.float16),
            self.model.quantizer.half_sq_norms(codes),
            {item.id: content_key(item.image.read()) for item in items if item.image is not None},
            {},
        )


def open_world(
    path: Path,
    items: Iterable[Item] = (),
    world: Mapping[str, np.ndarray] | None = None,
    *,
    words: Mapping[str, np.ndarray] | None = None,
    embeddings: KeptEmbeddings = "int8",
) -> WorldIndex:
    """A new index of these items, with these embeddings by id."""
    format = SegmentFormat(LEVELS, semantic=1, modality_given=True, embeddings=embeddings)
    settings = {"model": {"path": "", "fingerprint": ""}, "codes": asdict(format)}
    create_index_folder(path, settings)
    index = WorldIndex(path, Catalogue(path), cast(Model, WorldModel(words or {})))
    index.world = world or {}
    index.add(items)
    return index


def unit(vectors: np.ndarray) -> np.ndarray:
    """At unit length."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def clusters(
    random: np.random.Generator, count: int, groups: int, within: int, noise: float = 0.8
) -> tuple[np.ndarray, np.ndarray]:
    """Vectors [count, WIDTH] in groups, each of several smaller ones; and their groups [count]."""
    centres = random.normal(size=(groups, 1, WIDTH)) + 0.6 * random.normal(size=(groups, within, WIDTH))
    group = random.choice(groups, count, p=random.dirichlet(np.full(groups, 3.0)))
    vectors = centres[group, random.integers(0, within, count)] + noise * random.normal(size=(count, WIDTH))
    return unit(vectors), group


def members_of(vectors: np.ndarray, modality: np.ndarray | None = None) -> Members:
    """Members in the order of codes that fit them; item keys are the places of the vectors."""
    left = vectors.astype(np.float32)
    kinds = np.zeros(len(vectors), np.int64) if modality is None else modality
    columns = [kinds]
    for level, size in enumerate(LEVELS[1:]):
        centres, _ = kmeans(left, min(size, len(left)), iterations=5, random=np.random.default_rng(level))
        columns.append(nearest_centres(left, centres)[0])
        left = left - centres[columns[-1]]
    codes = np.stack(columns, axis=1).astype(np.uint16)
    order = np.lexsort(codes.T[::-1])
    rows = np.rint(vectors[order] * 127 / np.abs(vectors).max()).astype(np.int8)
    return Members(order, kinds[order].astype(np.uint8), codes[order], 1, rows)


def scene(seed: int, width: int = 96, height: int = 64) -> Image.Image:
    """An image of some coloured shapes, different for each seed."""
    random = np.random.default_rng(seed)
    small = Image.fromarray(random.integers(0, 256, (5, 7, 3), np.uint8))
    return small.resize((width, height), Image.Resampling.BICUBIC)


def image_item(id: str, image: Image.Image, **options: Any) -> Item:
    """An item with an image in memory."""
    return Item(id, image=ImageBytes(encoded(image), id), **options)
