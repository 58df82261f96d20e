"""`genius.merge`: several indexes of one model as one, without encoding anything again."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from genius.errors import DamagedError, InputError, MismatchError
from genius.index.assembly import ChosenItems, new_index_folder, refuse_existing, write_index
from genius.index.shards import is_sharded
from genius.index.stored_items import StoredItems, open_stored_items
from genius.model import model_folder

if TYPE_CHECKING:
    from genius.index.index import Index

Preference = Literal["newer", "first", "error"]
"""Which item counts of those with one id: the one that was added last (or got its text or image last), that
of the index that is named first, or none: then ids that collide are an error."""
PREFERENCES: tuple[Preference, ...] = get_args(Preference)
NAMED = 5
"""How many ids that collide are named."""


@dataclass(frozen=True)
class MergeReport:
    """What `merge` made: how many items, how many of each index, and the ids that several indexes had."""

    items: int
    from_each: tuple[int, ...]
    collisions: tuple[str, ...]


def merge(
    indexes: Sequence[Index | Path | str], out: Path | str, *, prefer: Preference = "error"
) -> MergeReport:
    """Make one index at `out` of two or more of the same model, which stay as they are.

    It finds what an index would to which all items had been added, one index after another. It is there
    completely or not at all. Raises InputError if something stands there, or if ids collide and `prefer` is
    "error"; MismatchError for indexes of different models or kept embeddings.
    """
    if prefer not in PREFERENCES:
        raise InputError(f"unknown preference {prefer!r}: expected one of {', '.join(PREFERENCES)}")
    if isinstance(indexes, str | Path):
        raise InputError("merging takes a list of indexes: name them")
    paths = [Path(index if isinstance(index, str | Path) else index.path) for index in indexes]
    if len(paths) < 2 and not any(map(is_sharded, paths)):
        raise InputError("merging takes two indexes or more, or one that has shards: name them")
    refuse_existing(Path(out))
    for path in paths:
        if [other.resolve() for other in paths].count(path.resolve()) > 1:
            raise InputError("is named twice: name each index once", path=path)
    with contextlib.ExitStack() as stack:
        sources = [stack.enter_context(open_stored_items(path)) for path in paths]
        for path, other in zip(paths[1:], sources[1:], strict=True):
            _check_alike(paths[0], sources[0], path, other)
        collisions = _collisions(sources)
        if collisions and prefer == "error":
            raise _collision_error(paths, collisions)
        chosen = _winners(sources, collisions, prefer)
        _check_identifiers(chosen)
        with new_index_folder(Path(out)) as folder:
            write_index(folder, chosen, _merged_settings(sources))
    counts = tuple(len(part.keys) for part in chosen)
    return MergeReport(sum(counts), counts, tuple(sorted(collisions)))


def _check_alike(path: Path, first: StoredItems, other_path: Path, other: StoredItems) -> None:
    """Raise MismatchError if two indexes can't be one."""
    models = [source.settings["model"] for source in (first, other)]
    if models[0]["fingerprint"] != models[1]["fingerprint"]:
        names = [f"{model['path']} ({model['fingerprint'][:12]})" for model in models]
        raise MismatchError(
            f"{path} was made by the model {names[0]}, but {other_path} by {names[1]}: an index has "
            "one model, so move one of them first, with genius recode"
        )
    if first.format != other.format:
        wanted = first.format.embeddings
        kept = [
            "no embeddings" if kept == "none" else f"embeddings in {kept}"
            for kept in (wanted, other.format.embeddings)
        ]
        raise MismatchError(
            f"{path} keeps {kept[0]}, and {other_path} keeps {kept[1]}: make the second one again first, "
            f"with genius recode {other_path} --embeddings {wanted}"
        )


Places = list[tuple[int, int]]
"""Items by the number of their index, and their key in it."""


def _collisions(sources: Sequence[StoredItems]) -> dict[str, Places]:
    """The ids that several indexes have, with where they are.

    Ids are compared by hashes of eight bytes, and those with equal hashes in full: in memory all ids would
    take a hundred bytes each.
    """
    hashes = [
        np.fromiter((hash(id) for _, id in source.catalogue.walk_ids()), np.int64) for source in sources
    ]
    for source, own in zip(sources, hashes, strict=True):
        if len(own) != len(source):
            raise DamagedError(f"{source.path}: no segment holds some of its items: make the index again")
    values, counts = np.unique(np.concatenate(hashes), return_counts=True)
    repeated = values[counts > 1]
    places: dict[str, Places] = {}
    for number, (source, own) in enumerate(zip(sources, hashes, strict=True)):
        for keys, entries in source.entries(source.keys[np.isin(own, repeated)]):
            for key, entry in zip(keys.tolist(), entries, strict=True):
                places.setdefault(entry.id, []).append((number, key))
    return {id: where for id, where in places.items() if len(where) > 1}


def _collision_error(paths: Sequence[Path], collisions: dict[str, Places]) -> InputError:
    holders = [
        " and ".join(str(paths[number]) for number, _ in collisions[id]) for id in sorted(collisions)[:NAMED]
    ]
    together = len(set(holders)) == 1 and len(paths) == 2
    named = [
        repr(id) if together else f"{id!r} (in {where})"
        for id, where in zip(sorted(collisions), holders, strict=False)
    ]
    more = " …" if len(collisions) > NAMED else ""
    ids = "1 id is" if len(collisions) == 1 else f"{len(collisions):,} ids are"
    where = f"both {holders[0]}" if together else "more than one index"
    return InputError(
        f"{ids} in {where}: {', '.join(named)}{more}; take the newer item of each with --prefer "
        "newer, or that of the first index with --prefer first"
    )


def _winners(
    sources: Sequence[StoredItems], collisions: dict[str, Places], prefer: Preference
) -> list[ChosenItems]:
    """The items of each index that are taken."""
    dropped: list[list[int]] = [[] for _ in sources]
    for places in collisions.values():
        kept = places[0]
        if prefer == "newer":
            kept = max(places, key=lambda place: (sources[place[0]].time_of(place[1]), place[0]))
        for number, key in places:
            if (number, key) != kept:
                dropped[number].append(key)
    return [
        ChosenItems(source, source.keys[~np.isin(source.keys, keys)])
        for source, keys in zip(sources, dropped, strict=True)
    ]


def _check_identifiers(chosen: Sequence[ChosenItems]) -> None:
    """Raise MismatchError if items would share an identifier that is meant for one."""
    identifiers = chosen[0].source.settings["model"].get("identifiers")
    parts = [part for part in chosen if len(part.keys)]
    if identifiers is None or not parts:
        return
    codes = np.concatenate([part.source.codes(part.keys) for part in parts])
    if len(np.unique(codes, axis=0)) < len(codes):
        names = " and ".join(str(part.source.path) for part in chosen)
        raise MismatchError(
            f"items of {names} share {identifiers} identifiers, as each index numbers its own items: make "
            "one index of their sources, with genius index and genius add"
        )


def _merged_settings(sources: Sequence[StoredItems]) -> dict[str, Any]:
    """What the first index was made with, and the sources of all."""
    models = [source.settings["model"] for source in sources]
    known = next((model for model in models if model_folder(model["path"]).exists()), models[0])
    collections: dict[str, Any] = {}
    for source in sources:
        for collection in source.catalogue.sources():
            collections.setdefault(collection["path"], collection)
    return {**sources[0].settings, "model": known, "sources": list(collections.values())}
