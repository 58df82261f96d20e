"""The items that a model is fitted to: all of a collection, or so many of them drawn evenly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from genius.data.collection import Failures
from genius.data.records import MODALITIES, Item
from genius.errors import InputError, ItemError
from genius.index.item_encoder import embed_items
from genius.model import Model
from genius.progress import bar
from genius.quantize.fusion_inputs import FusionInputs, concatenate

LARGEST = 65_536
"""Items that codebooks are fitted to, at most: more change little."""
CHUNK = 512


@dataclass(frozen=True)
class EmbeddedSample:
    """Items by their parts and embeddings, with the number of each one's modality [n].

    Attributes:
        total: how many items the collection has.
        failures: items that could not be read.
    """

    inputs: FusionInputs
    modality: np.ndarray
    total: int
    failures: Failures


def draw(items: Iterable[Item], random: np.random.Generator, most: int = LARGEST) -> tuple[list[Item], int]:
    """At most so many of the items, each as likely as any other, and how many there are in all.

    In one pass over the items, of which no more are kept (reservoir sampling).
    """
    kept: list[Item] = []
    total = 0
    for item in items:
        if not isinstance(item, Item):
            raise InputError(f"a model is fitted to items, and this is a {type(item).__name__}")
        total += 1
        if len(kept) < most:
            kept.append(item)
        elif (place := int(random.integers(total))) < most:
            kept[place] = item
    if not kept:
        raise InputError("there is no item to fit a model to")
    return kept, total


def embed_sample(
    model: Model, items: list[Item], total: int, *, cache: Path, workers: int, strict: bool
) -> EmbeddedSample:
    """Embed items by a model; those that can't be read are left out, or raised if `strict`.

    Raises InputError if none can be read.
    """
    failures = Failures()
    blocks: list[FusionInputs] = []
    modality: list[int] = []
    with embed_items(model, cache, workers) as embed, bar("embedding", total=len(items)) as shown:
        for start in range(0, len(items), CHUNK):
            chunk = _with_own_ids(items[start : start + CHUNK], start)
            embedded = embed(chunk)
            for place, error in embedded.failed.items():
                named = ItemError(items[int(place)].id, error)
                if strict:
                    raise named
                failures.add(named)
            blocks += embedded.blocks
            modality += [MODALITIES.index(chunk[place].modality) for place in embedded.places]
            shown.advance(len(chunk))
    if not blocks:
        raise InputError(f"none of the items could be read; the first: {failures.first[0]}")
    return EmbeddedSample(concatenate(blocks), np.array(modality, np.int64), total, failures)


def _with_own_ids(items: list[Item], start: int) -> list[Item]:
    """The items under their numbers: ids may repeat among items from anywhere."""
    return [
        Item(str(number), item.text, item.image, vector=item.vector)
        for number, item in enumerate(items, start)
    ]
