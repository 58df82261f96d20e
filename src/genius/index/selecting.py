"""What a search may find: all live items, or those that a filter and a list of ids leave.

A filter is decided by the catalogue, and becomes a mask over the rows of each segment. Masks are remembered
for the version that they are of, as the same filter often comes again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from genius.index.catalogue import Catalogue
from genius.index.filters import Condition
from genius.index.searcher import Searcher
from genius.index.segments import Segment

REMEMBERED = 8
"""How many selections of a version are remembered; each takes 5 bytes a row."""


class Selections:
    """The selections of one version, which the catalogue's thread is reading when it asks for one."""

    def __init__(self, searcher: Searcher, segments: Sequence[Segment]) -> None:
        self._searcher, self._segments = searcher, segments
        self._known: OrderedDict[tuple[Condition | None, tuple[int, ...]], Searcher] = OrderedDict()
        self._one = threading.Lock()

    def searcher(
        self, catalogue: Catalogue, condition: Condition | None, exclude: Sequence[int] = ()
    ) -> Searcher:
        """What finds only the items that fulfil a condition, and none of these rows."""
        if condition is None and not len(exclude):
            return self._searcher
        key = condition, tuple(sorted(exclude))
        with self._one:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
                return found
        found = self._searcher.restricted(self._masks(catalogue, condition, np.array(key[1], np.int64)))
        with self._one:
            self._known[key] = found
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return found

    def _masks(
        self, catalogue: Catalogue, condition: Condition | None, exclude: np.ndarray
    ) -> list[np.ndarray]:
        if condition is None:
            return [~np.isin(segment.rows, exclude) for segment in self._segments]
        rows = np.setdiff1d(catalogue.where(condition), exclude, assume_unique=True)
        return [np.isin(segment.rows, rows) for segment in self._segments]
