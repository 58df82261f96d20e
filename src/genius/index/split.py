"""`Index.split`: the items that fulfil a filter as an index of their own, and if wanted the rest as another.

Parts keep the keys that items had, so that they are in their old order when they are merged again.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genius.errors import InputError
from genius.index import filters
from genius.index.assembly import (
    ChosenItems,
    lineage_of,
    new_index_folder,
    refuse_existing,
    write_index,
)
from genius.index.catalogue import LINEAGE
from genius.index.stored_items import open_stored_items


@dataclass(frozen=True)
class SplitReport:
    """How many items fulfilled the filter, and how many did not."""

    items: int
    rest: int


def split_index(
    path: Path, filter: Mapping[str, Any], out: Path | str, rest: Path | str | None = None
) -> SplitReport:
    """Make an index at `out` of the items that fulfil a filter, and one at `rest` of the others.

    The index at `path` stays as it is. Raises InputError if something stands where they are to be, or if no
    item fulfils the filter; then nothing is written.
    """
    condition = filters.condition(filter)
    places = [Path(place) for place in (out, rest) if place is not None]
    refuse_existing(*places)
    if len({place.absolute() for place in places}) < len(places):
        raise InputError("the rest needs a place of its own: name another one", path=places[0])
    with open_stored_items(path) as source, contextlib.ExitStack() as stack:
        source.catalogue.filter_seconds = math.inf  # nobody waits for it
        fulfil = np.isin(source.keys, source.catalogue.where(condition))
        if not fulfil.any():
            why = "no item fulfils this filter" if len(source) else "the index is empty"
            raise InputError(f"{why}: nothing was written", path=path)
        settings = {**source.settings, LINEAGE: lineage_of(source)}
        # All are complete before the first of them is moved into place.
        for place, own in zip(places, (fulfil, ~fulfil), strict=False):
            folder = stack.enter_context(new_index_folder(place))
            write_index(folder, [ChosenItems(source, source.keys[own])], settings)
    return SplitReport(int(fulfil.sum()), int((~fulfil).sum()))
