"""What a collection holds twice: the same bytes, the same image in another size or format, near shots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, Literal, get_args

import numpy as np

from genius.collection.fingerprint import copies, fingerprint
from genius.collection.members import BLOCK, Members
from genius.collection.near_links import groups_of, near_links
from genius.data.images import pixel_count
from genius.data.records import Item
from genius.errors import InputError
from genius.index.catalogue import Catalogue
from genius.index.entries import item_of
from genius.index.hits import item_to_dict
from genius.index.snapshot import Snapshot
from genius.progress import bar

Level = Literal["exact", "same", "near"]
"""How alike duplicates are: equal contents; the same image in another size, format or brightness, or with a
small crop (of texts: equal but for case and spaces); or near by their embeddings."""
LEVELS: tuple[Level, ...] = get_args(Level)
SIMILARITY = 0.95
"""The least cosine of near duplicates, unless another is given."""
FLOOR = 0.9
"""Pairs from this cosine on are looked for, so that the similarity can be changed later."""
PIECE, PIECE_STEP = 2000, 0.01
"""Groups of more items fall apart, at similarities that rise by this step, before images are compared."""


@dataclass(frozen=True)
class DuplicateGroup:
    """Items that are duplicates of each other, in the order in which they were added.

    Attributes:
        items: two or more.
        level: how alike they are at least.
        similarity: the least cosine of the links that hold the group together.
    """

    items: tuple[Item, ...]
    level: Level
    similarity: float


@dataclass(frozen=True)
class KeepProposal:
    """Which item of each group to keep, and which others could go: ids, in the order of groups."""

    keep: tuple[str, ...]
    remove: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class DuplicateLinks:
    """All that was found, from which groups are made at any level and similarity.

    Attributes:
        items: those that are linked to another, in the order in which they were added.
        pairs: places in `items`, int64 [links, 2].
        similarities: the cosine of each link, float32 [links].
        levels: the place of each link's level in LEVELS, uint8 [links].
        floor: links of less similarity were not looked for.
        known: the levels that were looked for.
        pixels: of images that were counted before, by id.
    """

    items: tuple[Item, ...]
    pairs: np.ndarray
    similarities: np.ndarray
    levels: np.ndarray
    floor: float
    known: frozenset[Level]
    pixels: dict[str, int] = field(default_factory=dict)


class Duplicates:
    """Groups of duplicates at one level; `at` gives those at another, without computing anything again.

    duplicates = index.duplicates()
    for group in duplicates.groups: ...
    duplicates.at(0.9).groups, duplicates.at("exact").groups
    index.remove(duplicates.keep().remove)
    """

    def __init__(self, links: DuplicateLinks, level: Level, similarity: float = SIMILARITY) -> None:
        self.links, self.level, self.similarity = links, level, similarity

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self.groups)

    def at(self, threshold: float | Level) -> Duplicates:
        """The duplicates from another cosine on (a number: near ones), or of another level.

        Raises InputError for what was not looked for: then ask the index again.
        """
        level: Level = check_level(threshold) if isinstance(threshold, str) else "near"
        similarity = self.similarity if isinstance(threshold, str) else check_similarity(threshold)
        if level not in self.links.known:
            raise InputError(f"the level {level!r} was not looked for: call duplicates({level!r})")
        if level == "near" and similarity < self.links.floor:
            raise InputError(
                f"pairs of a similarity below {self.links.floor:g} were not looked for: call "
                f"duplicates(similarity={similarity:g})"
            )
        return Duplicates(self.links, level, similarity)

    @cached_property
    def groups(self) -> tuple[DuplicateGroup, ...]:
        """The groups, the largest first."""
        links = self.links
        counted = links.levels <= LEVELS.index(self.level)
        if self.level == "near":
            counted &= (links.similarities >= self.similarity) | (links.levels < LEVELS.index("near"))
        pairs, similarities, levels = links.pairs[counted], links.similarities[counted], links.levels[counted]
        named = np.full(len(links.items), -1)
        rows = groups_of(pairs, len(links.items))
        for number, places in enumerate(rows):
            named[places] = number
        weakest, loosest = np.ones(len(rows), np.float32), np.zeros(len(rows), np.int64)
        if len(pairs):
            np.minimum.at(weakest, named[pairs[:, 0]], similarities)
            np.maximum.at(loosest, named[pairs[:, 0]], levels)
        groups = [
            DuplicateGroup(tuple(links.items[place] for place in places), LEVELS[level], float(similarity))
            for places, level, similarity in zip(rows, loosest.tolist(), weakest.tolist(), strict=True)
        ]
        return tuple(sorted(groups, key=lambda group: -len(group.items)))

    def keep(self) -> KeepProposal:
        """Which item of each group to keep: the one with the largest image, and of those the oldest.

        The oldest is the one that was taken first, as far as metadata `taken` say, then the one that was
        added first. Of texts the longest is kept. Image files are opened to count their pixels.
        """
        ranked = [self.by_worth(group) for group in self.groups]
        removed = chain.from_iterable(order[1:] for order in ranked)
        return KeepProposal(tuple(order[0].id for order in ranked), tuple(item.id for item in removed))

    def by_worth(self, group: DuplicateGroup) -> list[Item]:
        """The items of a group, the one to keep first."""

        def worth(item: Item) -> tuple[int, int, str]:
            return -self._pixels(item), -len(item.text or ""), str(item.metadata.get("taken") or "~")

        return sorted(group.items, key=worth)

    def _pixels(self, item: Item) -> int:
        known = self.links.pixels
        if item.id not in known:
            known[item.id] = 0 if item.image is None else pixel_count(item.image)
        return known[item.id]


def check_level(level: str) -> Level:
    """The level. Raises InputError for another word."""
    for known in LEVELS:
        if level == known:
            return known
    raise InputError(f"unknown level {level!r}: expected one of {', '.join(LEVELS)}, or a similarity")


def check_similarity(similarity: float) -> float:
    """The similarity. Raises InputError if it is no number from 0 to 1."""
    if isinstance(similarity, bool) or not isinstance(similarity, int | float) or not 0 <= similarity <= 1:
        raise InputError(f"a similarity is a number from 0 to 1, not {similarity!r}")
    return float(similarity)


def find_duplicates(
    snapshot: Snapshot, catalogue: Catalogue, level: Level | None = None, similarity: float | None = None
) -> Duplicates:
    """The duplicates of a version of an index.

    Args:
        snapshot: the version.
        catalogue: its items; it must be reading that version.
        level: how alike they are; by default `same`, and `near` if there is a similarity.
        similarity: the least cosine of near ones.
    """
    wanted = check_level(level or ("same" if similarity is None else "near"))
    least = SIMILARITY if similarity is None else check_similarity(similarity)
    if similarity is not None and wanted != "near":
        raise InputError(f"a similarity is for near duplicates: leave it out, or the level {wanted!r}")
    linked, floor = _equal_contents(catalogue), min(FLOOR, least)
    known = {"exact": LEVELS[:1], "near": (LEVELS[0], LEVELS[2]), "same": LEVELS}[wanted]
    if wanted != "exact" and len(snapshot) > 1:
        members = Members.of(snapshot)
        near = near_links(members, floor)
        linked += _Found.of(members.item_keys[near.pairs], near.similarities, "near")
        if wanted == "same":
            linked += _copies(catalogue, members, linked, floor)
    links = _with_items(catalogue, linked)
    return Duplicates(DuplicateLinks(*links, floor, frozenset(known)), wanted, least)


@dataclass(frozen=True, eq=False)
class _Found:
    """Links between item keys: int64 [links, 2], their cosines, and the numbers of their levels."""

    keys: np.ndarray
    similarities: np.ndarray
    levels: np.ndarray

    @classmethod
    def of(cls, keys: Any, similarities: Any, level: Level) -> _Found:
        pairs = np.array(keys, np.int64).reshape(-1, 2)
        cosines = np.broadcast_to(np.asarray(similarities, np.float32), len(pairs))
        return cls(pairs, cosines, np.full(len(pairs), LEVELS.index(level), np.uint8))

    def __add__(self, other: _Found) -> _Found:
        return _Found(
            np.concatenate([self.keys, other.keys]),
            np.concatenate([self.similarities, other.similarities]),
            np.concatenate([self.levels, other.levels]),
        )


def _equal_contents(catalogue: Catalogue) -> _Found:
    """Items with equal bytes and texts, and beside them those of equal images alone."""
    exact, same = (
        [(keys[0], key) for keys in groups for key in keys[1:]]
        for groups in (catalogue.equal_contents(), catalogue.equal_images())
    )
    return _Found.of(exact, 1.0, "exact") + _Found.of(same, 1.0, "same")


def _with_items(
    catalogue: Catalogue, linked: _Found
) -> tuple[tuple[Item, ...], np.ndarray, np.ndarray, np.ndarray]:
    """The items that are linked, and the links by their places: pairs, similarities, levels."""
    keys = np.unique(linked.keys)
    entries = catalogue.entries(keys.tolist())
    items = tuple(item_of(entries[key], catalogue.path) for key in keys.tolist())
    return items, np.searchsorted(keys, linked.keys), linked.similarities, linked.levels


def _copies(catalogue: Catalogue, members: Members, linked: _Found, floor: float) -> _Found:
    """Links of the level `same` among items that hang together by near ones."""
    keys = np.unique(linked.keys)
    pieces = [
        keys[places] for places in _pieces(np.searchsorted(keys, linked.keys), linked.similarities, len(keys))
    ]
    same = [np.zeros((0, 2), np.int64)]
    with bar("comparing images", total=sum(map(len, pieces)), unit="items") as progress:
        for piece in pieces:
            entries = catalogue.entries(piece.tolist())
            same.append(piece[_same([item_of(entries[key], catalogue.path) for key in piece.tolist()])])
            progress.advance(len(piece))
    pairs = np.concatenate(same)
    cosines = _cosines(members, pairs)
    # Items may hang together by others and still not be near: then like pixels are no copies, but chance.
    return _Found.of(pairs[cosines >= floor], cosines[cosines >= floor], "same")


def _pieces(pairs: np.ndarray, similarities: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """Groups of places that hang together; too large ones fall apart where their links are weakest."""
    limits = np.append(np.arange(0.0, 1.0, PIECE_STEP), 1.0)
    todo = [(groups_of(pairs, count), 0)]
    while todo:
        groups, limit = todo.pop()
        for places in groups:
            if len(places) <= PIECE or limit + 1 == len(limits):
                yield places
                continue
            inside = np.isin(pairs[:, 0], places) & (similarities >= limits[limit + 1])
            todo.append((groups_of(pairs[inside], count), limit + 1))


def _cosines(members: Members, keys: np.ndarray) -> np.ndarray:
    """The cosine of each pair of item keys [pairs, 2]."""
    order = np.argsort(members.item_keys)
    rows = order[np.searchsorted(members.item_keys[order], keys)]
    cosines = np.empty(len(keys), np.float32)
    for start in range(0, len(keys), BLOCK):
        sides = [members.vectors(rows[start : start + BLOCK, side]) for side in (0, 1)]
        cosines[start : start + BLOCK] = np.einsum("ij,ij->i", *sides)
    return cosines


def _same(items: Sequence[Item]) -> np.ndarray:
    """The places of items of which one is a copy of the other, int64 [pairs, 2]."""
    prints = [None if item.image is None else fingerprint(item.image) for item in items]
    first_places: dict[str, int] = {}
    texts = []
    for place, item in enumerate(items):
        if item.image is None and item.text is not None:
            first = first_places.setdefault(" ".join(item.text.casefold().split()), place)
            texts += [(first, place)] if first != place else []
    return np.concatenate([copies(prints), np.array(texts, np.int64).reshape(-1, 2)])


def duplicates_to_dict(
    duplicates: Duplicates, *, local: bool = False, most: int | None = None
) -> dict[str, Any]:
    """Duplicates as JSON: at most so many groups, each with the id of the item to keep.

    Where images are on this machine is told only if the reader is `local`.
    """
    return {
        "level": duplicates.level,
        "similarity": duplicates.similarity if duplicates.level == "near" else None,
        "total": len(duplicates.groups),
        "groups": [
            {
                "level": group.level,
                "similarity": round(group.similarity, 4),
                "keep": duplicates.by_worth(group)[0].id,
                "items": [item_to_dict(item, local=local) for item in group.items],
            }
            for group in duplicates.groups[:most]
        ],
    }


def links_to_dict(links: DuplicateLinks) -> dict[str, Any]:
    """Everything that was found as JSON, from which `links_of` makes it again."""
    columns = links.pairs.tolist(), links.similarities.tolist(), links.levels.tolist()
    return {
        "items": [item_to_dict(item) for item in links.items],
        "links": [(*pair, similarity, level) for pair, similarity, level in zip(*columns, strict=True)],
        "floor": links.floor,
        "known": sorted(links.known),
        "pixels": links.pixels,
    }


def links_of(fields: Mapping[str, Any], items: Sequence[Item]) -> DuplicateLinks:
    """What `links_to_dict` made JSON of, with the items again."""
    table = np.array(fields["links"], np.float64).reshape(-1, 4)
    return DuplicateLinks(
        tuple(items),
        table[:, :2].astype(np.int64),
        table[:, 2].astype(np.float32),
        table[:, 3].astype(np.uint8),
        float(fields["floor"]),
        frozenset(map(check_level, fields["known"])),
        dict(fields["pixels"]),
    )
