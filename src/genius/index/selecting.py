"""What a search may find: all live items, or those that a filter and a list of ids leave.

A filter is decided by the catalogue, and becomes a mask over the rows of each segment. Masks are remembered
for the version that they are of, as the same filter often comes again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genius.index.catalogue import Catalogue
from genius.index.filters import Condition
from genius.index.searcher import Searcher
from genius.index.segments import Segment

REMEMBERED = 8
"""How many filters of a version are remembered; each takes 5 bytes a row."""
FEW = 256
"""Up to so many rows are found with the others and dropped: to mask them all rows are looked at."""


@dataclass(frozen=True, eq=False)
class Selected:
    """What finds what is wanted, and the rows to drop from what it finds."""

    searcher: Searcher
    dropped: Sequence[int]


class Selections:
    """The selections of one version, which the catalogue's thread is reading when it asks for one."""

    def __init__(self, searcher: Searcher, segments: Sequence[Segment]) -> None:
        self._searcher, self._segments = searcher, segments
        self._known: OrderedDict[Condition, Searcher] = OrderedDict()
        self._one = threading.Lock()

    def selected(
        self, catalogue: Catalogue, condition: Condition | None, exclude: Sequence[int] = ()
    ) -> Selected:
        """What finds only the items that fulfil a condition, and none of these rows."""
        found = self._searcher if condition is None else self.fulfilling(catalogue, condition)
        if len(exclude) <= FEW and len(exclude) < max(1, len(found)):
            return Selected(found, exclude)
        allowed = [~np.isin(segment.rows, exclude) for segment in self._segments]
        return Selected(found.restricted(allowed), ())

    def fulfilling(self, catalogue: Catalogue, condition: Condition) -> Searcher:
        """What finds only the items that fulfil a condition. Raises TooLongError."""
        with self._one:
            found = self._known.get(condition)
            if found is not None:
                self._known.move_to_end(condition)
                return found
        rows = catalogue.where(condition)
        found = self._searcher.restricted([np.isin(segment.rows, rows) for segment in self._segments])
        with self._one:
            self._known[condition] = found
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return found
