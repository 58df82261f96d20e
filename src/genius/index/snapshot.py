"""What a search may find: all live items, or those that a filter and a list of ids leave.

A filter is decided by the catalogue, and becomes a mask over the rows of each segment. Masks are remembered
for the version that they are of, as the same filter often comes again.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from genius import atomic
from genius.errors import DamagedError, InputError
from genius.index.catalogue import FILE, Catalogue
from genius.index.decoders import Decoders
from genius.index.filters import Condition
from genius.index.searcher import Searcher
from genius.index.segments import FOLDER, Coding, Segment, open_segment, segment_path
from genius.model import Model

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
        """What finds only the items that fulfil a condition. Raises FilterTimeoutError."""
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


def is_index(path: Path | str) -> bool:
    """Whether `path` is a folder with a catalogue."""
    return Path(path, FILE).is_file()


def make_folder(path: Path, settings: Mapping[str, Any]) -> None:
    """Make an empty index at `path`, at one stroke. Raises InputError if something stands there."""
    if is_index(path):
        raise InputError("is an index already: open it, or choose another place", path=path)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError("holds something else: choose another place for the index", path=path)
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{path.name}.part-"
    atomic.remove_abandoned(path.parent, prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=path.parent))
    with atomic.held(folder):
        try:
            Catalogue.create(folder, settings)
            (folder / FOLDER).mkdir()
            atomic.sync(folder)
            atomic.replace_folder(folder, path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, eq=False)
class View:
    """The segments of one version by number, and the rows that no longer stand for an item."""

    version: int
    segments: Mapping[int, Segment]
    removed: np.ndarray
    model: Model
    decoders: Decoders

    def __len__(self) -> int:
        return sum(map(len, self.segments.values())) - len(self.removed)

    @cached_property
    def searcher(self) -> Searcher:
        """What searches this version; made when it is first needed."""
        model, segments = self.model, list(self.segments.values())
        decoder = self.decoders.choose("auto").decoder
        return Searcher(decoder, model.quantizer, model.rerank_weight, segments, self.removed)

    @cached_property
    def selections(self) -> Selections:
        """What searches parts of this version."""
        return Selections(self.searcher, list(self.segments.values()))

    def stored(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """The code [levels] and the embedding [width] of a row. Raises DamagedError if no segment has it."""
        for segment in self.segments.values():
            places = np.flatnonzero(segment.rows == row)[:1]
            if len(places):
                return segment.packed.codes(places)[0], segment.exact[places[0]]
        raise DamagedError(f"no segment holds row {row} of the catalogue: make the index again")


def open_view(
    path: Path, catalogue: Catalogue, model: Model, coding: Coding, decoders: Decoders, old: View | None
) -> View:
    """The version that this thread reads; segments that were open before stay so. Raises DamagedError."""
    version = catalogue.state().version
    if old is not None and old.version == version:
        return old
    known = {} if old is None else old.segments
    segments = {
        entry.number: known.get(entry.number)
        or open_segment(segment_path(path, entry.number), coding, entry.fingerprint)
        for entry in catalogue.segments()
    }
    return View(version, segments, catalogue.removed(), model, decoders)
