"""Odd ones out: items far from all others, texts that don't fit their image, images that look broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from PIL import ImageStat

from genius.collection.albums import check_number
from genius.collection.members import BLOCK, Members
from genius.collection.near_links import project
from genius.data.images import load
from genius.data.records import MODALITIES, Item, Modality
from genius.display import numbered
from genius.errors import InputError
from genius.index.catalogue import Catalogue
from genius.index.entries import item_of
from genius.index.hits import item_to_dict
from genius.index.item_encoder import FEW, EmbeddedItems
from genius.index.near_misses import EMPTY
from genius.index.snapshot import Snapshot
from genius.progress import bar
from genius.quantize.fusion_inputs import concatenate
from genius.quantize.quantizer import unit_length

Oddity = Literal["broken", "mismatched", "far"]
"""Why an item is odd: its image can't be read or shows nothing; its text fits other images as well as its
own; or it is far from everything else."""
MAX_OUTLIERS = 10_000
"""How many can be asked for."""
REFERENCES = 4096
"""Items are compared with so many others, at most."""
NEIGHBOURS, MIN_NEIGHBOURS, MAX_NEIGHBOURS = 0.02, 3, 64
"""An item is far if the item at this share of the others, nearest first, is far: so a few odd ones that are
like each other are still odd."""
FAR = 2.0
"""So many deviations from what is usual count as far."""
MISFIT = 0.05
"""A text is suspicious if this share of other texts fits its image better."""
OTHER_TEXTS = 2000
"""A text is compared with so many others."""
IMAGES = 5000
"""So many images are opened, those of the farthest items first."""
PAIRS = 20_000
"""So many pairs of image and text are compared, evenly spread."""
TINY = 24
"""An image with fewer pixels to a side shows nothing."""
FLAT = 4.0
"""Nor does one whose brightness and colours vary less."""
ENCODED = 256
"""How many items are encoded at a time, with features from the cache;"""
DIRECT = 512
"""up to so many pairs are encoded directly, without opening it."""

Embed = Callable[[Sequence[Item]], EmbeddedItems]


@dataclass(frozen=True)
class Outlier:
    """An odd item.

    Attributes:
        reason: of what kind it is.
        says: the reason as a sentence.
        score: how odd it is among those of its kind, from 0 to 1.
    """

    item: Item
    reason: Oddity
    says: str
    score: float


@dataclass(frozen=True)
class Outliers:
    """Odd items, the oddest first, of all kinds in turn; `notes` say what was not looked at."""

    outliers: tuple[Outlier, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.outliers)

    def __iter__(self) -> Iterator[Outlier]:
        return iter(self.outliers)


@dataclass(frozen=True)
class _Suspect:
    """A row with its reason; the higher `score` the odder."""

    row: int
    reason: Oddity
    says: str
    score: float


def find_outliers(
    snapshot: Snapshot,
    catalogue: Catalogue,
    encoder: Callable[[], AbstractContextManager[Embed]],
    n: int = 50,
    pairs: int = PAIRS,
) -> Outliers:
    """The `n` oddest items of a version of an index, or fewer.

    Args:
        snapshot: the version.
        catalogue: its items; it must be reading that version.
        encoder: what embeds images and texts apart, opened only if there are pairs.
        n: how many.
        pairs: how many pairs of image and text are compared, at most.
    """
    check_number(n, MAX_OUTLIERS)
    if len(snapshot) < MIN_NEIGHBOURS:
        few = f"the index has only {numbered(len(snapshot), 'item')}: none is odd among so few"
        return Outliers((), (few if len(snapshot) else EMPTY,))
    members = Members.of(snapshot)
    distances = deviations(members)
    far, broken, notes = _far(distances), *_broken(catalogue, members, distances)
    mismatched: list[_Suspect] = []
    if not snapshot.model.takes_vectors:
        rows = np.flatnonzero(members.modality == MODALITIES.index(Modality.PAIR))
        some_rows = rows[:: max(1, -(-len(rows) // pairs))]
        if len(some_rows) > MIN_NEIGHBOURS:
            with encoder() as embed:
                mismatched = _mismatched(catalogue, members, some_rows, embed)
        if len(some_rows) < len(rows):
            notes.append(f"of {len(rows):,} pairs of image and text, {len(some_rows):,} were compared")
    chosen = _in_turn([broken, mismatched, far])[:n]
    items = _items(catalogue, members, np.array([suspect.row for suspect in chosen], np.int64))
    odd = [
        Outlier(item, suspect.reason, suspect.says, suspect.score)
        for item, suspect in zip(items, chosen, strict=True)
    ]
    return Outliers(tuple(odd), tuple(notes))


def _items(catalogue: Catalogue, members: Members, rows: np.ndarray) -> list[Item]:
    keys = members.item_keys[rows].tolist()
    entries = catalogue.entries(keys)
    return [item_of(entries[key], catalogue.path) for key in keys]


def _in_turn(kinds: Sequence[Sequence[_Suspect]]) -> list[_Suspect]:
    """Suspects of several kinds, each best first, by turns; one that is odd twice is there once.

    How odd two kinds are can't be compared: so neither pushes the other one down the list.
    """
    longest = max(map(len, kinds), default=0)
    merged = [kind[place] for place in range(longest) for kind in kinds if place < len(kind)]
    first: dict[int, _Suspect] = {}
    for suspect in merged:
        first.setdefault(suspect.row, suspect)
    return list(first.values())


# --- far from everything


def deviations(members: Members) -> np.ndarray:
    """How far each item is from others of its modality, in deviations from what is usual: float64 [n]."""
    projected = project(members)
    unusual = np.zeros(len(members))
    for kind in np.unique(members.modality):
        rows = np.flatnonzero(members.modality == kind)
        if len(rows) > MIN_NEIGHBOURS:
            unusual[rows] = _standardised(_similarity_to_others(projected[rows]))
    return unusual


def _similarity_to_others(vectors: np.ndarray) -> np.ndarray:
    """How near the item at a small share of the others is to each [n]."""
    references = np.arange(0, len(vectors), max(1, -(-len(vectors) // REFERENCES)))
    place = int(np.clip(NEIGHBOURS * len(references), MIN_NEIGHBOURS, MAX_NEIGHBOURS))
    place = min(place, len(references) - 1)
    nearest = np.empty(len(vectors))
    for start in range(0, len(vectors), BLOCK // 4):
        block = slice(start, start + BLOCK // 4)
        cosines = vectors[block] @ vectors[references].T
        itself = np.isin(np.arange(start, start + len(cosines)), references)
        ranked = -np.partition(-cosines, (place - 1, place), axis=1)
        nearest[block] = np.where(itself, ranked[:, place], ranked[:, place - 1])
    return nearest


def _standardised(similarities: np.ndarray) -> np.ndarray:
    """How many deviations below the median each is; robust against the odd ones themselves."""
    median = np.median(similarities)
    spread = 1.4826 * np.median(np.abs(similarities - median))
    return np.asarray((median - similarities) / max(float(spread), 1e-6))


def _far(unusual: np.ndarray) -> list[_Suspect]:
    rows = np.argsort(-unusual, kind="stable")
    rows = rows[unusual[rows] >= FAR][:MAX_OUTLIERS]
    return [
        _Suspect(row, "far", "it is far from everything else", 1 - FAR / (FAR + excess))
        for row, excess in zip(rows.tolist(), unusual[rows].tolist(), strict=True)
    ]


# --- images that look broken


def _broken(catalogue: Catalogue, members: Members, unusual: np.ndarray) -> tuple[list[_Suspect], list[str]]:
    """Images that can't be read or show nothing, and notes on what was not opened."""
    with_image = np.flatnonzero(members.modality != MODALITIES.index(Modality.TEXT))
    rows = with_image[np.argsort(-unusual[with_image], kind="stable")][:IMAGES]
    suspects = []
    with bar("opening images", total=len(rows), unit="images") as progress:
        for start in range(0, len(rows), ENCODED):
            block = rows[start : start + ENCODED]
            for row, item in zip(block.tolist(), _items(catalogue, members, block), strict=True):
                flaw = flaw_of(item)
                if flaw is not None:
                    suspects.append(_Suspect(row, "broken", flaw, 1.0))
                progress.advance()
    left_out = len(with_image) - len(rows)
    notes = [f"of {len(with_image):,} images the farthest {len(rows):,} were opened"] if left_out else []
    return suspects, notes


def flaw_of(item: Item) -> str | None:
    """What is wrong with an item's image, as a sentence; None if nothing is, or if it has none."""
    if item.image is None:
        return None
    try:
        image = load(item.image)
    except InputError as error:
        return f"its image can't be read: {error.reason}"
    if min(image.size) < TINY:
        return f"its image is tiny: {image.width} × {image.height} pixels"
    image.thumbnail((64, 64))
    if max(ImageStat.Stat(image).stddev) < FLAT:
        return "its image is all of one colour"
    return None


# --- texts that don't fit their image


def _mismatched(catalogue: Catalogue, members: Members, rows: np.ndarray, embed: Embed) -> list[_Suspect]:
    """Pairs whose text fits their image no better than other texts do."""
    together = ENCODED if len(rows) > DIRECT else FEW
    kept, images, texts = [], [], []
    with bar("comparing texts with images", total=len(rows), unit="pairs") as progress:
        for start in range(0, len(rows), together):
            block = rows[start : start + together]
            items = _items(catalogue, members, block)
            image, seen = _embedded(embed, [replace(item, text=None) for item in items])
            text, read = _embedded(embed, [replace(item, image=None) for item in items])
            both = np.intersect1d(seen, read)
            kept.append(block[both])
            images.append(image[np.searchsorted(seen, both)])
            texts.append(text[np.searchsorted(read, both)])
            progress.advance(len(block))
    places = np.concatenate(kept)
    if len(places) <= MIN_NEIGHBOURS:
        return []
    misfits = misfit_shares(np.concatenate(images), np.concatenate(texts))
    order = np.argsort(-misfits, kind="stable")
    return [
        _Suspect(row, "mismatched", f"{share:.0%} of other texts fit its image better than its own", share)
        for row, share in zip(places[order].tolist(), misfits[order].tolist(), strict=True)
        if share >= MISFIT
    ]


def _embedded(embed: Embed, items: Sequence[Item]) -> tuple[np.ndarray, np.ndarray]:
    """The embeddings of those items that can be embedded, and their places."""
    embedded = embed(items)
    if not embedded.places:
        return np.zeros((0, 0), np.float32), np.zeros(0, np.int64)
    return concatenate(embedded.blocks).embeddings, np.array(embedded.places, np.int64)


def misfit_shares(images: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """The share of other texts that are nearer to each image than its own is, float64 [n].

    Images and texts [n, width] are compared around their own centres, as each keeps to its own region.
    """
    images, texts = (unit_length(unit_length(part) - unit_length(part).mean(0)) for part in (images, texts))
    others = texts[:: max(1, -(-len(texts) // OTHER_TEXTS))]
    own = np.einsum("ij,ij->i", images, texts)
    shares = np.empty(len(images))
    for start in range(0, len(images), BLOCK // 4):
        block = slice(start, start + BLOCK // 4)
        shares[block] = (images[block] @ others.T > own[block][:, None] + 1e-6).mean(1)
    return shares


def outliers_to_dict(outliers: Outliers, *, local: bool = False) -> dict[str, Any]:
    """Outliers as JSON."""
    return {
        "outliers": [
            {
                "item": item_to_dict(outlier.item, local=local),
                "reason": outlier.reason,
                "says": outlier.says,
                "score": round(outlier.score, 4),
            }
            for outlier in outliers
        ],
        "notes": outliers.notes,
    }
