"""Albums: the collection in groups of what belongs together, each with a name and some images as a cover."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np

from genius.collection.album_labels import (
    counted,
    distinct,
    names_by_texts,
    names_by_words,
    naming_text,
    word_spreads,
)
from genius.collection.members import Members
from genius.collection.near_links import project
from genius.collection.partition import partition
from genius.collection.vocabulary import VOCABULARY
from genius.collection.words import word_vectors
from genius.data.records import MODALITIES, Item, Modality
from genius.display import numbered
from genius.errors import InputError
from genius.index.catalogue import Catalogue
from genius.index.entries import item_of
from genius.index.hits import item_to_dict
from genius.index.near_misses import EMPTY
from genius.index.snapshot import Snapshot

MAX_ALBUMS = 1000
"""How many albums there can be."""
CELLS = 1000
"""Cells are so small that there are about so many, at least."""
COVERS = 6
"""How many items are on a cover."""
COVER_CANDIDATES = 48
"""They are chosen among so many in the middle of an album."""
TEXTS = 200
"""How many items of an album its name is made from."""
WHOLE = 1 << 26
"""Up to so many numbers embeddings are used as they are, beyond that as projections."""
NESTED, MAX_NESTED = 24, 8
"""An album of so many items has albums within, up to so many."""


@dataclass(frozen=True)
class Album:
    """Items that belong together.

    Attributes:
        id: of the item in its middle, by which the album is known as long as that is in it.
        label: a name of a few words; empty if nothing names it.
        coherence: the mean cosine of its items with their mean, each kind of item around its own centre.
        covers: a few items from its middle that differ from each other, images first.
        ids: of all its items, those in its middle first.
        albums: smaller ones that it falls into, if it is large.
    """

    id: str
    label: str
    coherence: float
    covers: tuple[Item, ...]
    ids: tuple[str, ...]
    albums: tuple[Album, ...] = ()

    def __len__(self) -> int:
        """How many items it has."""
        return len(self.ids)


@dataclass(frozen=True)
class Albums(Sequence[Album]):
    """Albums, the largest first; every item is in one of them. `notes` say what the reader should know."""

    albums: tuple[Album, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.albums)

    def __iter__(self) -> Iterator[Album]:
        return iter(self.albums)

    @overload
    def __getitem__(self, place: int) -> Album: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Album, ...]: ...

    def __getitem__(self, place: int | slice) -> Album | tuple[Album, ...]:
        return self.albums[place]


def check_number(n: int, most: int) -> int:
    """The number of things that are asked for. Raises InputError if it is none from 1 to `most`."""
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= most:
        raise InputError(f"n must be a number from 1 to {most:,}, not {n!r}")
    return n


def find_albums(
    snapshot: Snapshot, catalogue: Catalogue, n: int = 30, like: Iterable[Iterable[str] | Album] | None = None
) -> Albums:
    """About `n` albums of a version of an index.

    Args:
        snapshot: the version.
        catalogue: its items; it must be reading that version.
        n: how many albums; fewer if there are not so many different items.
        like: earlier albums, or their ids: albums start from these, and change as little as items did.
    """
    check_number(n, MAX_ALBUMS)
    if not len(snapshot):
        return Albums((), (EMPTY,))
    members = Members.of(snapshot).in_order_of_meaning()
    ids = catalogue.ids()
    maker = _AlbumMaker(
        catalogue,
        members,
        _around_centres(members),
        [ids[key] for key in members.item_keys.tolist()],
        word_vectors(snapshot.model, members.embeddings.shape[1]),
    )
    made = maker.make(np.arange(len(members)), n, nested=True, like=_earlier_groups(maker.ids, like))
    few = len(made) < n
    notes = (f"{numbered(len(members), 'item')} gave only {numbered(len(made), 'album')}",) if few else ()
    return Albums(made, notes)


def _earlier_groups(ids: Sequence[str], like: Iterable[Iterable[str] | Album] | None) -> np.ndarray | None:
    """The number of the earlier album that each item was in [n], or -1; None without earlier albums."""
    if like is None:
        return None
    numbers = {
        id: number
        for number, album in enumerate(like)
        for id in (album.ids if isinstance(album, Album) else album)
    }
    groups = np.array([numbers.get(id, -1) for id in ids])
    return groups if (groups >= 0).any() else None


def _around_centres(members: Members) -> np.ndarray:
    """What is compared: embeddings of unit length around the centre of their kind, float32 [n, width].

    Texts are nearer to texts than to the images that they describe: around their own centres, both can be in
    one album.
    """
    vectors = members.vectors() if members.embeddings.size <= WHOLE else project(members)
    kinds = np.unique(members.modality)
    if len(kinds) > 1:
        for kind in kinds:
            rows = members.modality == kind
            vectors[rows] -= vectors[rows].mean(0)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return vectors


@dataclass(frozen=True, eq=False)
class _AlbumMaker:
    """What albums are made from: items in the order of their semantic codes, and their vectors [n, width]."""

    catalogue: Catalogue
    members: Members
    vectors: np.ndarray
    ids: Sequence[str]
    words: np.ndarray | None

    def make(
        self,
        rows: np.ndarray,
        n: int,
        *,
        nested: bool,
        like: np.ndarray | None = None,
        within: tuple[str, bool] = ("", False),
    ) -> tuple[Album, ...]:
        """Albums of some rows, which rise; they are all rows, or those of the album `within`: its name, and
        whether that is from texts."""
        members = self.members.selected(rows)
        cells = members.cells(max(1, len(rows) // CELLS), first_level=members.semantic)
        made = partition(self.vectors[rows], cells, n, like)
        groups = [rows[made.groups == number] for number in range(len(made.centres))]
        ordered = [
            self._from_the_middle(group, centre) for group, centre in zip(groups, made.centres, strict=True)
        ]
        labels = self._labels([group for group, _ in ordered], within)
        albums = []
        for (group, similarities), (label, from_texts) in zip(ordered, labels, strict=True):
            inner: tuple[Album, ...] = ()
            if nested and len(group) >= NESTED and len(groups) > 1:
                parts = int(np.clip(len(group) // (NESTED // 2), 2, MAX_NESTED))
                inner = self.make(np.sort(group), parts, nested=False, within=(label, from_texts))
            known = tuple(self.ids[row] for row in group.tolist())
            covers = self._covers(group, similarities)
            albums.append(Album(known[0], label, float(similarities.mean()), covers, known, inner))
        return tuple(albums)

    def _from_the_middle(self, group: np.ndarray, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of a group, nearest to its centre first, and their cosines with it."""
        similarities = self.vectors[group] @ (centre / max(float(np.linalg.norm(centre)), 1e-12))
        order = np.argsort(-similarities, kind="stable")
        return group[order], similarities[order]

    def _covers(self, group: np.ndarray, similarities: np.ndarray) -> tuple[Item, ...]:
        """Items from the middle of an album that differ from each other; images, if it has any."""
        text = MODALITIES.index(Modality.TEXT)
        seen = np.flatnonzero(self.members.modality[group] != text)
        places = (seen if len(seen) else np.arange(len(group)))[:COVER_CANDIDATES]
        vectors, central = self.vectors[group[places]], similarities[places]
        chosen = [0]
        while len(chosen) < min(COVERS, len(places)):
            like_chosen = (vectors @ vectors[chosen].T).max(1)
            worth = central - like_chosen / 2
            worth[chosen] = -np.inf
            chosen.append(int(worth.argmax()))
        return tuple(self._items(group[places[chosen]]))

    def _items(self, rows: np.ndarray) -> list[Item]:
        keys = self.members.item_keys[rows].tolist()
        entries = self.catalogue.entries(keys)
        return [item_of(entries[key], self.catalogue.path) for key in keys]

    def _labels(self, groups: Sequence[np.ndarray], within: tuple[str, bool]) -> list[tuple[str, bool]]:
        """A name for each group of rows, and whether it is from texts.

        Where texts name the album that the groups are in but not a group, words would say less than they do:
        to them, all flags are alike.
        """
        sampled = [group[:: max(1, len(group) // TEXTS)] for group in groups]
        texts = [[text for item in self._items(rows) if (text := naming_text(item))] for rows in sampled]
        background = counted(text for several in texts for text in several)
        names = [
            names_by_texts(several, len(rows), background)
            for several, rows in zip(texts, sampled, strict=True)
        ]
        unnamed = [number for number, options in enumerate(names) if not options]
        if unnamed and self.words is not None and not within[1]:
            # Albums within an album differ from each other, but should not forget what they have in common.
            everything = (self._mean(np.concatenate(groups)) + self._mean(np.arange(len(self.members)))) / 2
            means = np.stack([self._mean(groups[number]) for number in unnamed])
            by_words = names_by_words(means, everything, self._spreads, self.words, VOCABULARY)
            for number, options in zip(unnamed, by_words, strict=True):
                names[number] = options
        from_texts = [number not in unnamed for number in range(len(groups))]
        return list(zip(distinct(names, within[0]), from_texts, strict=True))

    @cached_property
    def _spreads(self) -> np.ndarray:
        """By how much items differ in what they score for each word [words]."""
        assert self.words is not None
        return word_spreads(self._some_vectors(np.arange(len(self.members))), self.words)

    def _mean(self, rows: np.ndarray) -> np.ndarray:
        """The mean embedding of some rows."""
        return np.asarray(self._some_vectors(rows).mean(0))

    def _some_vectors(self, rows: np.ndarray) -> np.ndarray:
        """Embeddings of some of these rows, of those with an image if there are any [n, width]."""
        seen = rows[self.members.modality[rows] != MODALITIES.index(Modality.TEXT)]
        rows = seen if len(seen) else rows
        return self.members.vectors(np.sort(rows[:: max(1, len(rows) // 2000)]))


def album_to_dict(album: Album, *, local: bool = False, ids: bool = True) -> dict[str, Any]:
    """An album as JSON, with the ids of all its items if they are wanted."""
    fields: dict[str, Any] = {
        "id": album.id,
        "label": album.label,
        "size": len(album),
        "coherence": round(album.coherence, 4),
        "covers": [item_to_dict(item, local=local) for item in album.covers],
    }
    if ids:
        fields["ids"] = album.ids
    fields["albums"] = [album_to_dict(inner, local=local, ids=ids) for inner in album.albums]
    return fields


def albums_to_dict(albums: Albums, *, local: bool = False, ids: bool = True) -> dict[str, Any]:
    """Albums as JSON."""
    return {
        "albums": [album_to_dict(album, local=local, ids=ids) for album in albums],
        "notes": albums.notes,
    }


def ids_of_albums(fields: Mapping[str, Any]) -> list[list[str]]:
    """The ids of each album in what `albums_to_dict` gave. Raises InputError if it is something else."""
    try:
        return [[str(id) for id in album["ids"]] for album in fields["albums"]]
    except (KeyError, TypeError):
        raise InputError("these are no albums: give what genius albums --json printed") from None
