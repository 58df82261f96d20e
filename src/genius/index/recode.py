"""`Index.recode`: a collection moves to another model, into an index of its own.

The new index knows which one it comes from, so a run that was stopped can go on: items that it has already
are passed over by their content hashes, without opening their images, and features are in the cache. The old
index is read a page at a time, so that it can be changed meanwhile; what is added to it then comes last.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genius.data.records import Item
from genius.errors import InputError, translate_disk_errors
from genius.index.catalogue import Catalogue
from genius.index.entries import item_of
from genius.index.ingest import Added
from genius.index.segments import KeptEmbeddings, SegmentFormat
from genius.index.snapshot import create_index_folder, index_settings, is_index, segment_format
from genius.model import Model

if TYPE_CHECKING:
    from genius.index.index import Index

ORIGIN = "recoded_from"
"""The setting that names the index from which items come."""
CHUNK = 512
"""How many items are compared with the new catalogue at a time."""


def recode_catalogue(
    kind: type[Index],
    old: Catalogue,
    model: Model,
    out: Path | str,
    embeddings: KeptEmbeddings | None = None,
    **options: Any,
) -> Added:
    """Move the items of a catalogue to an index of this kind at `out`, or go on with what was begun.

    The model of the old index is not needed, and may be gone. `options` are those of `Index.add`.
    """
    kept: KeptEmbeddings = embeddings or old.settings()["codes"]["embeddings"]
    begin_recoding(old, model, Path(out), segment_format(model, kept))
    with kind.open(out, model) as target:
        return recode_items(old, target._catalogue, partial(target.add, **options))


def begin_recoding(old: Catalogue, model: Model, out: Path, format: SegmentFormat) -> None:
    """Make an empty index at `out` for the items of a catalogue, unless it was begun already.

    Raises InputError if something else stands there.
    """
    if model.takes_vectors:
        raise InputError(
            f"{model.name} takes vectors of one's own, and an index does not keep those that it was given: "
            "make the new one of its source, with genius index SOURCE --vectors FILE"
        )
    origin = str(old.path.parent.resolve())
    if is_index(out):
        _check_begun(out, origin, format)
        return
    model.prepare()
    settings = index_settings(model, format)
    with translate_disk_errors(out, "made"):
        create_index_folder(out, {**settings, "sources": old.sources(), ORIGIN: origin})


def _check_begun(out: Path, origin: str, format: SegmentFormat) -> None:
    catalogue = Catalogue(out)
    try:
        settings = catalogue.settings()
    finally:
        catalogue.close()
    begun_from, kept = settings.get(ORIGIN), settings["codes"]["embeddings"]
    if begun_from != origin:
        what = "an index of its own" if begun_from is None else f"what {begun_from} was moved to"
        raise InputError(f"is {what}, and does not come from {origin}: choose another place", path=out)
    if kept != format.embeddings:
        raise InputError(f"was begun with the embeddings {kept}: choose another place", path=out)


def recode_items(old: Catalogue, new: Catalogue, add: Callable[..., Added]) -> Added:
    """Add all items of a catalogue that another one lacks, or has otherwise."""
    new.add_instructions(old.instructions())
    known = 0

    def missing() -> Iterator[Item]:
        nonlocal known
        walk = old.walk()
        while chunk := [entry for _, entry in itertools.islice(walk, CHUNK)]:
            stored = new.stored(entry.id for entry in chunk)
            for entry in chunk:
                if entry.id in stored and stored[entry.id][1].content_hash == entry.content_hash:
                    known += 1
                else:
                    yield item_of(entry, old.path)

    report = add(missing(), total=max(0, len(old) - len(new)))
    report.known += known
    return report
