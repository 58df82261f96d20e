"""One version of an index, open to be searched, with its filters; and how the folder of an index is made."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from genius import __version__, atomic
from genius.decode.geometry import Geometry
from genius.decode.onnx_decoder import Precision
from genius.decode.pool_temperature import pool_rows
from genius.errors import DamagedError, InputError
from genius.index.catalogue import FILE, LINEAGE, Catalogue, now
from genius.index.decoders import DecoderName, Decoders, NamedDecoder, describe_model
from genius.index.facets import FacetCache
from genius.index.filters import Condition
from genius.index.query_batch import StoredItem
from genius.index.searcher import Searcher
from genius.index.segments import (
    FOLDER,
    KeptEmbeddings,
    Segment,
    SegmentFormat,
    gather_codes,
    gather_column,
    gather_embeddings,
    open_segment,
)
from genius.index.shards import ShardManifest, is_sharded
from genius.model import Model
from genius.search.engine import Mode

CACHED_FILTERS = 8
"""How many filters of a version are kept; each takes 5 bytes an item."""
FEW_EXCLUDED = 256
"""Up to so many excluded items are found with the others and dropped: a mask would cost a pass over all rows.
"""


def is_index(path: Path | str) -> bool:
    """Whether `path` is a folder with a catalogue, or with shards."""
    return Path(path, FILE).is_file() or is_sharded(path)


def segment_format(model: Model, kept: KeptEmbeddings) -> SegmentFormat:
    """What the segments of a model's index are made of."""
    space = model.code_space
    return SegmentFormat(space.sizes, space.semantic, space.modality_code == "given", kept)


def index_settings(model: Model, format: SegmentFormat) -> dict[str, Any]:
    """What a new index is made with."""
    return {
        "model": describe_model(model),
        "codes": asdict(format),
        "width": model.width,
        "sources": [],
        "made_by": f"genius {__version__}",
        "made_at": now().isoformat(timespec="seconds"),
    }


def create_index_folder(path: Path, settings: Mapping[str, Any], shards: int | None = None) -> None:
    """Make an empty index at `path`, atomically, whole or of so many shards.

    Raises InputError if something stands there.
    """
    if is_index(path):
        raise InputError("is an index already: open it, or choose another place", path=path)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError("holds something else: choose another place for the index", path=path)
    manifest = None if shards is None else ShardManifest.new(shards)
    with atomic.write_folder(path) as folder:
        if manifest is None:
            _create_empty(folder, settings)
            return
        for number, name in enumerate(manifest.folders):
            (folder / name).mkdir()
            # Parts of one index keep their items' keys when they are merged.
            place = {"shard": manifest.settings_of(number), LINEAGE: manifest.identity}
            _create_empty(folder / name, {**settings, **place})
        manifest.write(folder)


def _create_empty(folder: Path, settings: Mapping[str, Any]) -> None:
    Catalogue.create(folder, settings)
    (folder / FOLDER).mkdir()
    atomic.sync(folder)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One version: its segments by number, and the keys of items that are removed or replaced.

    `next_key` is the key that the next item gets, which tells how many were added meanwhile.
    """

    version: int
    next_key: int
    segments: Mapping[int, Segment]
    tombstones: np.ndarray
    model: Model
    decoders: Decoders

    @classmethod
    def open(
        cls,
        path: Path,
        catalogue: Catalogue,
        model: Model,
        format: SegmentFormat,
        decoders: Decoders,
        previous: Snapshot | None,
    ) -> Snapshot:
        """The version that this thread reads; segments that are open already stay so. Raises DamagedError."""
        state = catalogue.state()
        version = state.version
        if previous is not None and previous.version == version:
            return previous
        opened = {} if previous is None else {part.fingerprint: part for part in previous.segments.values()}
        segments = {
            entry.number: opened.get(entry.fingerprint)
            or open_segment(catalogue.segment_path(entry.number), format, entry.fingerprint)
            for entry in catalogue.segments()
        }
        return cls(version, state.next_key, segments, catalogue.tombstones(), model, decoders)

    def __len__(self) -> int:
        return sum(map(len, self.segments.values())) - len(self.tombstones)

    @cached_property
    def searcher(self) -> Searcher:
        """What searches this version; made when it is first needed."""
        model, segments = self.model, list(self.segments.values())
        decoder = self.decoder("auto").decoder
        return Searcher(decoder, model.code_space, segments, self.tombstones, settings=model.search_settings)

    def decoder(
        self, mode: Mode, name: DecoderName | None = None, precision: Precision = "fp32"
    ) -> NamedDecoder:
        """The decoder of this name that fits the items; see `Decoders.choose`."""
        return self.decoders.choose(mode, name, precision, lambda: self._geometry)

    @cached_property
    def _geometry(self) -> Geometry:
        """The geometry of a model whose temperature depends on the items."""
        segments = list(self.segments.values())
        rows = pool_rows(sum(map(len, segments)))
        if not len(rows):
            return self.model.geometry_for(np.zeros((0, 0)), np.zeros((0, 0), np.int64))
        return self.model.geometry_for(gather_embeddings(segments, rows), gather_codes(segments, rows))

    @cached_property
    def filters(self) -> FilterCache:
        """Searchers for parts of this version."""
        return FilterCache(self.searcher, list(self.segments.values()))

    @cached_property
    def facets(self) -> FacetCache:
        """The facets of this version."""
        return FacetCache()

    def stored(self, item_key: int) -> StoredItem:
        """What segments keep of an item. Raises DamagedError if it is gone."""
        for segment in self.segments.values():
            rows = np.flatnonzero(segment.item_keys == item_key)[:1]
            if len(rows):
                row = int(rows[0])
                modality = int(segment.modality[row])
                return StoredItem(segment.packed.codes(rows)[0], segment.embeddings[row], modality)
        raise DamagedError(f"no segment holds item {item_key} of the catalogue: make the index again")

    def stored_rows(self, rows: np.ndarray) -> list[StoredItem]:
        """The same of items by their rows [n], those of all segments numbered one after another."""
        segments = list(self.segments.values())
        codes, embeddings = gather_codes(segments, rows), gather_embeddings(segments, rows)
        modality = gather_column(segments, rows, lambda segment, own: segment.modality[own])
        return [
            StoredItem(code, embedding, int(number))
            for code, embedding, number in zip(codes, embeddings, modality, strict=True)
        ]

    def item_keys(self, rows: np.ndarray) -> np.ndarray:
        """The item keys [n] of such rows."""
        return gather_column(list(self.segments.values()), rows, lambda segment, own: segment.item_keys[own])

    def all_codes(self) -> np.ndarray:
        """The codes of all rows of all segments, removed items' too: uint16 [rows, levels]."""
        blocks = [np.zeros((0, len(self.model.code_space.sizes)), np.uint16)]
        blocks += [segment.packed.codes(np.arange(len(segment))) for segment in self.segments.values()]
        return np.concatenate(blocks)

    def codes(self, item_keys: Sequence[int]) -> np.ndarray:
        """The codes [n, levels] of items by their keys. Raises DamagedError if one is gone."""
        wanted = np.asarray(item_keys, np.int64)
        codes = np.full((len(wanted), len(self.model.code_space.sizes)), -1, np.int64)
        order = np.argsort(wanted)
        for segment in self.segments.values() if len(wanted) else ():
            rows = np.flatnonzero(np.isin(segment.item_keys, wanted))
            places = order[np.searchsorted(wanted[order], segment.item_keys[rows])]
            codes[places] = segment.packed.codes(rows)
        if (codes < 0).any():
            raise DamagedError("no segment holds some items of the catalogue: make the index again")
        return codes


@dataclass(frozen=True, eq=False)
class Selection:
    """A searcher that finds what is wanted, and the item keys to drop from what it finds."""

    searcher: Searcher
    dropped: Sequence[int]


class FilterCache:
    """Searchers restricted by filters, for one version, while the catalogue's thread reads that version.

    The catalogue decides a filter, which becomes a mask over the rows of each segment. The last few are kept,
    as the same filter often comes again.
    """

    def __init__(self, searcher: Searcher, segments: Sequence[Segment]) -> None:
        self._searcher, self._segments = searcher, segments
        self._cached: OrderedDict[Condition, Searcher] = OrderedDict()
        self._lock = threading.Lock()

    def select(
        self, catalogue: Catalogue, condition: Condition | None, exclude: Sequence[int] = ()
    ) -> Selection:
        """What finds only the items that fulfil a condition, and none of these item keys."""
        searcher = self._searcher if condition is None else self.fulfilling(catalogue, condition)
        if len(exclude) <= FEW_EXCLUDED and len(exclude) < max(1, len(searcher)):
            return Selection(searcher, exclude)
        allowed = [~np.isin(segment.item_keys, exclude) for segment in self._segments]
        return Selection(searcher.restricted(allowed), ())

    def fulfilling(self, catalogue: Catalogue, condition: Condition) -> Searcher:
        """What finds only the items that fulfil a condition. Raises FilterTimeoutError."""
        with self._lock:
            searcher = self._cached.get(condition)
            if searcher is not None:
                self._cached.move_to_end(condition)
                return searcher
        keys = catalogue.where(condition)
        searcher = self._searcher.restricted([np.isin(segment.item_keys, keys) for segment in self._segments])
        with self._lock:
            self._cached[condition] = searcher
            if len(self._cached) > CACHED_FILTERS:
                self._cached.popitem(last=False)
        return searcher
