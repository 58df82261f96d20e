"""A segment: the codes of some items, sorted and packed, with their embeddings in the same order.

It is an artifact, checksummed and never changed. Its files, all in the order of codes, one row an item:

`item_keys.npy`        the catalogue's keys
`hi.npy` …             the packed codes (`genius.search.codes`)
`embeddings.npy`       embeddings in float16 (of width 0 if the index keeps none)
`embeddings_int8.npy`  the same in int8 times one `scale`, if the index keeps them
`half_sq_norms.npy`    half the squared norm of each quantized vector, for code scores
`modality.npy`         each item's modality, where the modality code is learned and does not tell it
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, get_args

import numpy as np

from genius import storage
from genius.errors import DamagedError, InputError, MismatchError
from genius.search.codes import ARRAYS, CodeLayout, PackedCodes
from genius.search.segment_view import SegmentView, int8_scale, to_int8

KIND = "segment"
FORMAT = 3
FOLDER = "segments"
BLOCK = 8192
"""How many embeddings are sorted at a time."""

KeptEmbeddings = Literal["int8", "fp16", "none"]
"""Which embeddings an index keeps; see `SegmentFormat`."""


@dataclass(frozen=True)
class SegmentFormat:
    """What codes are made of and which embeddings are kept, the same in all segments of an index.

    Attributes:
        sizes: how many codes each level has.
        semantic: the first level that codes meaning.
        modality_given: whether the first code is the item's modality.
        embeddings: what items are re-ranked by: int8, and the best of them by float16; float16 alone; or
            none, and then by their codes.
    """

    sizes: tuple[int, ...]
    semantic: int
    modality_given: bool
    embeddings: KeptEmbeddings = "int8"

    def __post_init__(self) -> None:
        known = get_args(KeptEmbeddings)
        if self.embeddings not in known:
            raise InputError(f"unknown embeddings {self.embeddings!r}: expected one of {', '.join(known)}")
        CodeLayout(tuple(self.sizes), self.semantic)  # refuses codes that can't be packed, before any is made

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> SegmentFormat:
        """From the catalogue's settings."""
        return cls(tuple(fields["sizes"]), fields["semantic"], fields["modality_given"], fields["embeddings"])


class Embeddings(Protocol):
    """Rows of numbers [n, width] of which some can be read at a time; an array is such a thing."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number and width."""

    def __getitem__(self, places: np.ndarray, /) -> np.ndarray: ...


@dataclass(frozen=True, eq=False)
class Block:
    """Items that become a segment.

    Attributes:
        codes: [n, levels].
        modality: the number of each one's modality [n].
        embeddings: [n, width]; they may be in files.
        item_keys: of the catalogue [n].
        half_sq_norms: half the squared norms of the quantized vectors [n].
    """

    codes: np.ndarray
    modality: np.ndarray
    embeddings: Embeddings
    item_keys: np.ndarray
    half_sq_norms: np.ndarray


@dataclass(frozen=True, eq=False)
class Segment:
    """An open segment; its arrays, all in the order of codes, are mapped from its files or made in memory."""

    fingerprint: str
    packed: PackedCodes
    item_keys: np.ndarray
    embeddings: np.ndarray
    embeddings_int8: np.ndarray | None
    half_sq_norms: np.ndarray
    scale: float
    _modality: np.ndarray | None
    _last_view: list[tuple[np.ndarray, SegmentView]] = field(default_factory=list)

    @classmethod
    def in_memory(cls, block: Block, format: SegmentFormat) -> Segment:
        """A segment of these items that is not written: what opening the written one would give."""
        packed, order = PackedCodes.build(block.codes, format.sizes, format.semantic)
        scale = _scale(block.embeddings)
        embeddings = np.asarray(block.embeddings[order], np.float16)
        embeddings_int8 = to_int8(embeddings, scale) if format.embeddings == "int8" else None
        return cls(
            "",
            packed,
            block.item_keys[order],
            embeddings[:, :0] if format.embeddings == "none" else embeddings,
            embeddings_int8,
            block.half_sq_norms[order].astype(np.float32),
            scale,
            None if format.modality_given else block.modality[order].astype(np.uint8),
        )

    def __len__(self) -> int:
        return len(self.item_keys)

    @cached_property
    def codes(self) -> np.ndarray:
        """Codes uint16 [n, levels]."""
        return self.packed.codes(np.arange(len(self)))

    @property
    def modality(self) -> np.ndarray:
        """The number of each item's modality."""
        return self.codes[:, 0] if self._modality is None else self._modality

    def view(self, tombstones: np.ndarray) -> SegmentView:
        """What a search needs of the segment, without removed items (sorted item keys).

        While no item of the segment is removed, it is the same view as before, with all that it has computed.
        """
        # Keys are given out one after another, so most segments have none of those removed.
        first, last = self._key_range
        removed = tombstones[
            np.searchsorted(tombstones, first) : np.searchsorted(tombstones, last, side="right")
        ]
        if not self._last_view or not np.array_equal(self._last_view[0][0], removed):
            view = SegmentView(
                self.packed,
                allowed=~np.isin(self.item_keys, removed) if len(removed) else None,
                embeddings_int8=self.embeddings_int8,
                embeddings=self.embeddings if self.embeddings.shape[1] else None,
                scale=self.scale,
                item_keys=self.item_keys,
                half_sq_norms=self.half_sq_norms,
            )
            self._last_view[:] = [(removed, view)]
        return self._last_view[0][1]

    @cached_property
    def _key_range(self) -> tuple[int, int]:
        return int(self.item_keys.min()), int(self.item_keys.max())


def segment_path(index: Path, number: int) -> Path:
    """Where the segment of an index with this number is."""
    return index / FOLDER / f"{number:08d}"


def write_segment(path: Path, block: Block, format: SegmentFormat, model: str) -> str:
    """Write items as a segment; it is on disk when this returns its fingerprint."""
    packed, order = PackedCodes.build(block.codes, format.sizes, format.semantic)
    scale = _scale(block.embeddings)
    item_keys = block.item_keys[order].astype(key_dtype(block.item_keys))
    arrays = {**packed.arrays(), "item_keys": item_keys}
    arrays["half_sq_norms"] = block.half_sq_norms[order].astype(np.float32)
    if not format.modality_given:
        arrays["modality"] = block.modality[order].astype(np.uint8)
    settings = {**asdict(format), "scale": scale}
    with storage.create(
        path, kind=KIND, format=FORMAT, settings=settings, made_from={"model": model}
    ) as draft:
        for name, array in arrays.items():
            draft.write_array(f"{name}.npy", array)
        _write_embeddings(draft.folder, block.embeddings, order, scale, format.embeddings)
        draft.counts["items"] = len(order)
    return storage.read_manifest(path).fingerprint


def key_dtype(item_keys: np.ndarray) -> type[np.unsignedinteger[Any]]:
    """The type of numbers in which item keys are written."""
    return np.uint32 if int(item_keys.max()) <= np.iinfo(np.uint32).max else np.uint64


def _scale(embeddings: Embeddings) -> float:
    """The unit of int8 embeddings: their largest absolute value is 127 of it."""
    places = np.arange(embeddings.shape[0])
    blocks = (embeddings[places[start : start + BLOCK]] for start in range(0, len(places), BLOCK))
    return int8_scale(max(float(np.abs(block).max(initial=0)) for block in blocks))


def _write_embeddings(
    folder: Path, embeddings: Embeddings, order: np.ndarray, scale: float, kept: KeptEmbeddings
) -> None:
    """Write what is kept in sorted order, a block at a time: all of them may not fit into memory twice.

    Not through a memory map: on a full disk, that ends the process instead of raising an error.
    """
    count, width = embeddings.shape[0], 0 if kept == "none" else embeddings.shape[1]
    with contextlib.ExitStack() as stack:

        def begin(name: str, dtype: type[np.generic]) -> BinaryIO:
            file = stack.enter_context((folder / name).open("wb"))
            header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (count, width)}
            np.lib.format.write_array_header_1_0(file, header)
            return file

        half_file = begin("embeddings.npy", np.float16)
        int8_file = begin("embeddings_int8.npy", np.int8) if kept == "int8" else None
        for start in range(0, len(order) if width else 0, BLOCK):
            rows = embeddings[order[start : start + BLOCK]]
            half_file.write(np.ascontiguousarray(rows, np.float16).data)
            if int8_file is not None:
                int8_file.write(to_int8(rows, scale).data)


def open_segment(path: Path, format: SegmentFormat, fingerprint: str, *, verify: bool = False) -> Segment:
    """The segment at `path`, if it is the one with this fingerprint, and whole. Raises DamagedError."""
    if not path.exists():
        raise DamagedError(f"{path} is gone: bring it back, or make the index again")
    made = storage.read_manifest(path)
    if made.kind == KIND and made.format < FORMAT:
        raise MismatchError(
            f"{path} is of format {made.format} ({made.made_by}), and this genius searches format {FORMAT}: "
            "make the index again, with: genius index SOURCE -m MODEL -o INDEX"
        )
    artifact = storage.open(path, kind=KIND, format=FORMAT, verify=verify)
    settings, count = artifact.manifest.settings, int(artifact.manifest.counts["items"])
    if artifact.fingerprint != fingerprint:
        raise DamagedError(f"{path} is not the segment that the catalogue names: make the index again")

    def mapped(name: str) -> np.ndarray:
        array: np.ndarray = np.load(artifact.file(f"{name}.npy"), mmap_mode="r")
        return array

    kept = [name for name in ARRAYS if f"{name}.npy" in artifact.manifest.files]
    packed = PackedCodes.from_arrays(
        {name: mapped(name) for name in kept}, format.sizes, format.semantic, count
    )
    return Segment(
        fingerprint,
        packed,
        mapped("item_keys"),
        mapped("embeddings"),
        mapped("embeddings_int8") if format.embeddings == "int8" else None,
        mapped("half_sq_norms"),
        float(settings["scale"]),
        None if format.modality_given else mapped("modality"),
    )


def gather_embeddings(segments: Sequence[Segment], rows: np.ndarray) -> np.ndarray:
    """Embeddings float32 [n, width] of sorted rows, those of all segments numbered one after another."""
    embeddings = np.empty((len(rows), segments[0].embeddings.shape[1]), np.float32)
    for segment, places, own in _by_segment(segments, rows):
        embeddings[places] = segment.embeddings[own]
    return embeddings


def gather_codes(segments: Sequence[Segment], rows: np.ndarray) -> np.ndarray:
    """The codes uint16 [n, levels] of such rows."""
    codes = np.empty((len(rows), len(segments[0].packed.sizes)), np.uint16)
    for segment, places, own in _by_segment(segments, rows):
        codes[places] = segment.packed.codes(own)
    return codes


def gather_column(
    segments: Sequence[Segment], rows: np.ndarray, column: Callable[[Segment, np.ndarray], np.ndarray]
) -> np.ndarray:
    """What `column` gives for such rows, segment by segment: int64 [n]."""
    values = np.empty(len(rows), np.int64)
    for segment, places, own in _by_segment(segments, rows):
        values[places] = column(segment, own)
    return values


def _by_segment(
    segments: Sequence[Segment], rows: np.ndarray
) -> Iterator[tuple[Segment, np.ndarray, np.ndarray]]:
    """Each segment that has some of the rows: it, their places, and their numbers within it."""
    starts = np.cumsum([0, *map(len, segments)])
    owner = np.searchsorted(starts, rows, side="right") - 1
    for number in np.unique(owner):
        places = np.flatnonzero(owner == number)
        yield segments[number], places, rows[places] - starts[number]
