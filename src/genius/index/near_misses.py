"""Why a search found nothing, and what was perhaps meant: a similar key, a value in another case.

The catalogue is read for this only after a search has come back empty, so a good search pays nothing for it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from genius.data.records import MODALITIES, Item, Modality
from genius.errors import FilterTimeoutError
from genius.index.catalogue import Catalogue
from genius.index.query import HAVING, SearchOptions

EMPTY = "the index is empty: add items first"
NO_MATCH = "nothing in the index fulfils this filter"
ALL_EXCLUDED = "everything that could be found is excluded"

MAX_KEYS = 1_000
MAX_TEXTS = 10_000
"""How many different keys, and texts of a key, are compared with what was asked for."""
LISTED = 8
"""How many keys a sentence names."""

_CONTENT = {Modality.IMAGE: "an image", Modality.TEXT: "a text", Modality.PAIR: "image and text"}


def why_nothing(
    catalogue: Catalogue, options: SearchOptions, modalities: Sequence[Modality] = ()
) -> list[str]:
    """Why there is nothing that fulfils the filter and has one of these modalities (or any at all)."""
    counted = catalogue.modalities(options.condition)
    counts = {MODALITIES[number]: count for number, count in sorted(counted.items())}
    if not counts:
        return [NO_MATCH, *filter_notes(catalogue, options.filter)] if options.filter else [EMPTY]
    if not modalities or any(modality in counts for modality in modalities):
        return [ALL_EXCLUDED] if options.exclude else []
    holder = "this filter leaves" if options.filter else "the index holds"
    held = " and ".join(f"{count:,} with {_alone(modality)}" for modality, count in counts.items())
    wanted = map(_alone, options.only) if options.only else map(_CONTENT.get, options.want or modalities[:1])
    wider = any(modality in counts for only in options.only for modality in HAVING[only])
    way_out = "; want instead of only finds these too" if wider else ""
    return [f"{holder} {held}, none with {' or '.join(map(str, wanted))}{way_out}"]


def beyond_the_end(offset: int) -> str:
    """A note for a page behind the last one."""
    return f"there are no hits beyond the first {offset:,}: take a smaller offset"


def filter_notes(catalogue: Catalogue, filter: Mapping[str, Any] | None) -> list[str]:
    """Keys of a filter that no item has, and texts that no item has under them, with what comes near."""
    try:
        known = catalogue.metadata_keys(MAX_KEYS)
        notes = []
        for key, texts in _compared_texts(filter or {}):
            if not _has(known, key):
                notes.append(_unknown_key(key, known))
            elif texts and key in known:
                notes += _unknown_texts(key, texts, catalogue.metadata_texts(key, MAX_TEXTS))
        return list(dict.fromkeys(notes))
    except FilterTimeoutError:
        return []


def sort_notes(catalogue: Catalogue, keys: Iterable[str], items: Sequence[Item]) -> list[str]:
    """Keys that these items were sorted by and no item has, with what comes near."""
    bare = [key.removeprefix("-") for key in keys]
    missing = [key for key in bare if not any(_has(list(item.metadata), key) for item in items)]
    if not missing or not items:
        return []  # those that have a key come first: if one has it here, it is known
    try:
        known = catalogue.metadata_keys(MAX_KEYS)
    except FilterTimeoutError:
        return []
    return [_unknown_key(key, known) for key in missing if not _has(known, key)]


def _alone(modality: Modality) -> str:
    return _CONTENT[modality] + ("" if modality is Modality.PAIR else " alone")


def _compared_texts(filter: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """The keys of a filter, each with the texts that it must be equal to one of."""
    for key, wanted in filter.items():
        if key in ("$and", "$or"):
            for inner in wanted:
                yield from _compared_texts(inner)
        elif key == "$not":
            yield from ((inner, []) for inner, _ in _compared_texts(wanted))
        else:
            operators = wanted if isinstance(wanted, Mapping) else {"$eq": wanted}
            values = [operators.get("$eq"), *operators.get("$in", ())]
            yield key, [value for value in values if isinstance(value, str)]


def _has(known: Sequence[str], key: str) -> bool:
    """Whether a key is known, or leads into one that is."""
    return key in known or ("." in key and key.partition(".")[0] in known) or len(known) == MAX_KEYS


def _unknown_key(key: str, known: Sequence[str]) -> str:
    problem = f"no item has the metadata {key!r}"
    if near := _nearest(key, known) or _nearest(key.partition(".")[0], known):
        return f"{problem}: did you mean {near!r}?"
    if not known:
        return f"{problem}: the items have no metadata at all"
    more = ", …" if len(known) > LISTED else ""
    return f"{problem}: there are {', '.join(sorted(known)[:LISTED])}{more}"


def _unknown_texts(key: str, texts: Sequence[str], known: Sequence[str]) -> list[str]:
    if any(text in known for text in texts):
        return []
    near = [(text, _nearest(text, known)) for text in texts]
    return [f"no item has {key} = {text!r}: did you mean {other!r}?" for text, other in near if other]


def _nearest(word: str, known: Sequence[str]) -> str | None:
    """The one that differs by the fewest letters, if these are few; upper and lower case are alike."""
    folded = {other.casefold(): other for other in known}
    near = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=0.75)
    return folded[near[0]] if near else None
