"""One version of an index, open to be searched, and what makes its folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from genius import atomic
from genius.errors import DamagedError, InputError
from genius.index.catalogue import FILE, Catalogue
from genius.index.decoders import Decoders
from genius.index.searcher import Searcher
from genius.index.segments import FOLDER, Coding, Segment, open_segment, segment_path
from genius.index.selecting import Selections
from genius.model import Model


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
