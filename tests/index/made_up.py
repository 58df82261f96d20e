"""Items, codes and segments made up from a seed, for tests that need no model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from genius.data.content_key import content_key
from genius.data.records import MODALITIES, ImageBytes, Item
from genius.errors import InputError
from genius.index.item_encoder import EncodedItems
from genius.index.segments import Block, Segment, SegmentFormat, open_segment, write_segment

WIDTH = 6
GIVEN = SegmentFormat((3, 4, 4), semantic=1, modality_given=True)
LEARNED = SegmentFormat((3, 4, 4), semantic=1, modality_given=False)
NO_MODALITY_CODE = SegmentFormat((4, 4, 4), semantic=0, modality_given=False)
FP16 = SegmentFormat((3, 4, 4), semantic=1, modality_given=True, embeddings="fp16")
NONE = SegmentFormat((3, 4, 4), semantic=1, modality_given=True, embeddings="none")


def made_up_block(
    random: np.random.Generator,
    count: int,
    format: SegmentFormat,
    first_key: int = 1,
    codebooks: Sequence[np.ndarray] | None = None,
) -> Block:
    """Items with few different codes and embeddings, so that some share them.

    Half their squared norms are made up too, unless there are codebooks.
    """
    codes = np.stack([random.integers(0, size, count) for size in format.sizes], axis=1)
    modality = codes[:, 0] if format.modality_given else random.integers(0, 3, count)
    embeddings = (random.integers(-2, 3, (count, WIDTH)) / 4).astype(np.float16)
    norms = random.random(count, np.float32)
    if codebooks is not None:
        norms = (0.5 * (quantized(codebooks, codes) ** 2).sum(axis=1)).astype(np.float32)
    return Block(codes, modality, embeddings, first_key + np.arange(count), norms)


def quantized(codebooks: Sequence[np.ndarray], codes: np.ndarray) -> np.ndarray:
    """The vectors [n, width] that codes [n, levels] stand for."""
    vectors = [codebook[codes[:, level]] for level, codebook in enumerate(codebooks)]
    return np.asarray(np.sum(vectors, axis=0))


def written(path: Path, block: Block, format: SegmentFormat) -> Segment:
    """The block as a segment, written and opened."""
    return open_segment(path, format, write_segment(path, block, format, "model"))


def made_up_items(count: int) -> list[Item]:
    """Texts, images and both; no image is a real one."""
    items = []
    for number in range(count):
        image = None if number % 3 == 1 else ImageBytes(f"picture {number}".encode(), f"{number}.png")
        text = None if number % 3 == 0 else f"The text of {number}"
        items.append(Item(f"item-{number}", text, image, {"number": number, "even": number % 2 == 0}))
    return items


@lru_cache(maxsize=1 << 14)
def _drawn(content: str) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Codes and an embedding, by chance but always the same."""
    random = np.random.default_rng(list(content.encode()))
    codes = tuple(random.integers(0, 4, 2).tolist())
    return codes, tuple((random.integers(-2, 3, WIDTH) / 4).tolist())


def made_up_rows(items: Sequence[Item]) -> tuple[np.ndarray, np.ndarray]:
    """Codes and embeddings from ids and texts, as a model's would be from the contents."""
    codes = np.zeros((len(items), len(GIVEN.sizes)), np.uint16)
    embeddings = np.zeros((len(items), WIDTH), np.float16)
    for row, item in enumerate(items):
        semantic, embeddings[row] = _drawn(f"{item.id} {item.text}")
        codes[row] = MODALITIES.index(item.modality), *semantic
    return codes, embeddings


def made_up_codes(items: Sequence[Item]) -> EncodedItems:
    """The same as a model gives it; a text that is "bad" fails."""
    places = [place for place, item in enumerate(items) if item.text != "bad"]
    codes, embeddings = made_up_rows([items[place] for place in places])
    return EncodedItems(
        places=np.array(places, np.int64),
        codes=codes,
        modality=codes[:, 0].astype(np.int64),
        embeddings=embeddings,
        half_sq_norms=np.ones(len(places), np.float32),
        image_hashes={item.id: content_key(item.image.read()) for item in items if item.image is not None},
        failed={item.id: InputError("is bad") for item in items if item.text == "bad"},
    )
