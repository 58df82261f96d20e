"""Items, codes and segments made up from a seed, for tests that need no model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from genius.search.asked import halves as lengths

from genius.data.records import MODALITIES, ImageBytes, Item
from genius.encode.feature_cache import content_key
from genius.errors import InputError
from genius.index.item_encoder import CodedItems
from genius.index.segments import Block, Coding, Segment, open_segment, write_segment
from genius.search.codes import PackedCodes

WIDTH = 6
CODING = Coding((3, 4, 4), semantic=1, told=True)
LEARNED = Coding((3, 4, 4), semantic=1, told=False)
NO_FIRST = Coding((4, 4, 4), semantic=0, told=False)
EXACT = Coding((3, 4, 4), semantic=1, told=True, embeddings="fp16")
NONE = Coding((3, 4, 4), semantic=1, told=True, embeddings="none")


def block(random: np.random.Generator, count: int, coding: Coding, first_row: int = 1) -> Block:
    """Items with few different codes and embeddings, so that some share them."""
    codes = np.stack([random.integers(0, size, count) for size in coding.sizes], axis=1)
    modality = codes[:, 0] if coding.told else random.integers(0, 3, count)
    embeddings = random.integers(-2, 3, (count, WIDTH)) / 4
    rows = first_row + np.arange(count)
    return Block(codes, modality, embeddings.astype(np.float16), rows, random.random(count, np.float32))


def segment(path: Path, made: Block, coding: Coding) -> Segment:
    """The block, written and opened."""
    return open_segment(path, coding, write_segment(path, made, coding, "model"))


def in_memory(made: Block, coding: Coding, books: Sequence[np.ndarray]) -> Segment:
    """The block as a segment that was never written, with halves by these codebooks."""
    packed, order = PackedCodes.build(made.codes, coding.sizes, coding.semantic)
    embeddings = made.embeddings[order]
    coarse = np.rint(embeddings.astype(np.float32) * 127).astype(np.int8) if coding.embeddings == "int8" else None
    if coding.embeddings == "none":
        embeddings = embeddings[:, :0]
    modality = None if coding.told else made.modality[order]
    halves = lengths(packed, books)
    return Segment("", packed, made.rows[order], embeddings, coarse, halves, 1 / 127, modality)


def made_up_items(count: int) -> list[Item]:
    """Texts, pictures and both; no picture is a real one."""
    items = []
    for number in range(count):
        image = None if number % 3 == 1 else ImageBytes(f"picture {number}".encode(), f"{number}.png")
        text = None if number % 3 == 0 else f"The text of {number}"
        items.append(Item(f"item-{number}", text, image, {"number": number, "even": number % 2 == 0}))
    return items


def made_up_codes(items: Sequence[Item]) -> CodedItems:
    """Codes from the ids alone, as a model's would be from the contents; a text that is "bad" fails."""
    places = [place for place, item in enumerate(items) if item.text != "bad"]
    codes = np.zeros((len(places), len(CODING.sizes)), np.uint16)
    embeddings = np.zeros((len(places), WIDTH), np.float16)
    for row, place in enumerate(places):
        item = items[place]
        random = np.random.default_rng(list(f"{item.id} {item.text}".encode()))
        codes[row] = MODALITIES.index(item.modality), *random.integers(0, 4, 2)
        embeddings[row] = random.integers(-2, 3, WIDTH) / 4
    pictures = {item.id: content_key(item.image.read()) for item in items if item.image is not None}
    failed = {item.id: InputError("is bad") for item in items if item.text == "bad"}
    modality, halves = codes[:, 0].astype(np.int64), np.ones(len(places), np.float32)
    return CodedItems(np.array(places, np.int64), codes, modality, embeddings, halves, pictures, failed)
