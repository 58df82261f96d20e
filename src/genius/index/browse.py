"""Items without a query: those that fulfil a filter, in an order."""

from __future__ import annotations

from genius.data.records import MODALITIES
from genius.index import near_misses
from genius.index.catalogue import Catalogue
from genius.index.entries import item_of
from genius.index.hits import Hits, browsed_hits
from genius.index.query import SearchOptions
from genius.index.snapshot import Snapshot


def browse_items(snapshot: Snapshot, catalogue: Catalogue, options: SearchOptions) -> Hits:
    """A page of the items that fulfil the options, and how many there are in all.

    The catalogue must be reading the snapshot's version.
    """
    total, entries = catalogue.browse(
        options.condition,
        modalities=[MODALITIES.index(modality) for modality in options.modalities],
        exclude=options.exclude,
        ordering=options.ordering,
        most=options.k,
        offset=options.offset,
    )
    codes = snapshot.codes([key for key, _ in entries])
    items = [item_of(entry, catalogue.path) for _, entry in entries]
    notes = near_misses.sort_notes(catalogue, options.sort, items)
    if not total:
        notes = near_misses.why_nothing(catalogue, options, options.modalities)
    elif not items:
        notes = [near_misses.beyond_the_end(options.offset)]
    hits = browsed_hits(items, codes, options.offset + 1)
    return Hits(hits, hits, rerank=True, notes=notes, total=total)
