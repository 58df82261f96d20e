"""A segment: the codes of some items, sorted and packed, with their embeddings in the same order.

It is an artifact, checksummed and never changed. `rows.npy` are the catalogue's row numbers; `exact.npy` the
joined embeddings in 16-bit floats (of width 0 if an index keeps none), `coarse.npy` the same in 8-bit
integers times one `scale` if such are kept, and `halves.npy` half the squared length of each code's vector,
which nearness to a code takes. What modality an item has is told by its first code; where that is learned,
`modality.npy` says it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, get_args

import numpy as np

from genius import storage
from genius.errors import DamagedError, InputError, MismatchError
from genius.search.codes import PackedCodes
from genius.search.segment_view import Part

KIND = "segment"
FORMAT = 2
FOLDER = "segments"
AT_ONCE = 8192
"""How many embeddings are sorted at a time."""

Kept = Literal["int8", "fp16", "none"]
"""Which embeddings an index keeps; see `Coding`."""


@dataclass(frozen=True)
class Coding:
    """What codes are made of and what stands beside them, the same in all segments of an index.

    Attributes:
        sizes: how many codes each level has.
        semantic: the first level that codes meaning.
        told: whether the first code is the item's modality.
        embeddings: what items are re-ranked by: bytes, and the best of them by 16-bit floats; only those; or
            none, and then by their codes.
    """

    sizes: tuple[int, ...]
    semantic: int
    told: bool
    embeddings: Kept = "int8"

    def __post_init__(self) -> None:
        known = get_args(Kept)
        if self.embeddings not in known:
            raise InputError(f"unknown embeddings {self.embeddings!r}: expected one of {', '.join(known)}")

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Coding:
        """From what the catalogue's settings say."""
        kept = fields.get("embeddings", "int8")
        return cls(tuple(fields["sizes"]), fields["semantic"], fields["told"], kept)


class Embeddings(Protocol):
    """Rows of numbers [n, width], of which some can be had at a time; an array is such a thing."""

    @property
    def shape(self) -> tuple[int, ...]:
        """How many, and how wide."""

    def __getitem__(self, places: np.ndarray, /) -> np.ndarray: ...


@dataclass(frozen=True, eq=False)
class Block:
    """Items that become a segment.

    Attributes:
        codes: [n, levels].
        modality: the number of each one's modality [n].
        joined: embeddings [n, width]; they may be in files.
        rows: of the catalogue [n].
        halves: half the squared length of the codes' vectors [n].
    """

    codes: np.ndarray
    modality: np.ndarray
    embeddings: Embeddings
    rows: np.ndarray
    halves: np.ndarray


@dataclass(frozen=True, eq=False)
class Segment:
    """A segment that is open; its arrays, all in the order of codes, are mapped from its files."""

    fingerprint: str
    packed: PackedCodes
    rows: np.ndarray
    exact: np.ndarray
    coarse: np.ndarray | None
    halves: np.ndarray
    scale: float
    _modality: np.ndarray | None
    _before: dict[str, tuple[np.ndarray, Part]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def codes(self) -> np.ndarray:
        """Codes uint16 [n, levels]."""
        return self.packed.codes(np.arange(len(self)))

    @property
    def modality(self) -> np.ndarray:
        """The number of each item's modality."""
        return self.codes[:, 0] if self._modality is None else self._modality

    def part(self, removed: np.ndarray) -> Part:
        """What a search needs of the segment, but for removed rows of the catalogue (sorted).

        Where nothing was removed since, it is the same part as before, with all that it has worked out.
        """
        # A segment's rows were given out one after another, so most segments have none of those removed.
        first, last = self._span
        gone = removed[np.searchsorted(removed, first) : np.searchsorted(removed, last, side="right")]
        before = self._before.get("part")
        if before is None or not np.array_equal(before[0], gone):
            allowed = ~np.isin(self.rows, gone) if len(gone) else None
            exact = self.exact if self.exact.shape[1] else None
            part = Part(self.packed, allowed, self.coarse, exact, self.scale, self.rows, self.halves)
            before = self._before["part"] = gone, part
        return before[1]

    @cached_property
    def _span(self) -> tuple[int, int]:
        return int(self.rows.min()), int(self.rows.max())


def segment_path(index: Path, number: int) -> Path:
    """Where the segment of an index with this number is."""
    return index / FOLDER / f"{number:08d}"


def write_segment(path: Path, block: Block, coding: Coding, model: str) -> str:
    """Write a block of items as a segment; it is on the disk when this returns its fingerprint."""
    packed, order = PackedCodes.build(block.codes, coding.sizes, coding.semantic)
    largest = _largest(block.embeddings)
    number = np.uint32 if int(block.rows.max()) <= np.iinfo(np.uint32).max else np.uint64
    arrays = {**packed.arrays(), "rows": block.rows[order].astype(number)}
    arrays["halves"] = block.halves[order].astype(np.float32)
    if not coding.told:
        arrays["modality"] = block.modality[order].astype(np.uint8)
    settings = {**asdict(coding), "scale": largest / 127}
    with storage.create(
        path, kind=KIND, format=FORMAT, settings=settings, made_from={"model": model}
    ) as draft:
        for name, array in arrays.items():
            np.save(draft.folder / f"{name}.npy", array)
        _write_embeddings(draft.folder, block.embeddings, order, largest / 127, coding.embeddings)
        draft.counts["items"] = len(order)
    return storage.read_manifest(path).fingerprint


def _largest(embeddings: Embeddings) -> float:
    """The largest number of all, whatever its sign, and not quite zero."""
    every = np.arange(embeddings.shape[0])
    parts = (embeddings[every[start : start + AT_ONCE]] for start in range(0, len(every), AT_ONCE))
    return max(1e-6, *(float(np.abs(part).max(initial=0)) for part in parts))


def _write_embeddings(folder: Path, embeddings: Embeddings, order: np.ndarray, scale: float, kept: Kept) -> None:
    """Write what is kept in sorted order, a part at a time: a block of them is large enough once.

    Not through a memory map: where the disk is full, that ends the process instead of raising an error.
    """
    count, width = embeddings.shape[0], 0 if kept == "none" else embeddings.shape[1]
    with contextlib.ExitStack() as stack:

        def begin(name: str, kind: type[np.generic]) -> BinaryIO:
            file = stack.enter_context((folder / name).open("wb"))
            header = {"descr": np.dtype(kind).str, "fortran_order": False, "shape": (count, width)}
            np.lib.format.write_array_header_1_0(file, header)
            return file

        exact = begin("exact.npy", np.float16)
        coarse = begin("coarse.npy", np.int8) if kept == "int8" else None
        for start in range(0, len(order) if width else 0, AT_ONCE):
            rows = embeddings[order[start : start + AT_ONCE]]
            exact.write(np.ascontiguousarray(rows, np.float16).data)
            if coarse is not None:
                coarse.write(np.rint(rows.astype(np.float32) / scale).astype(np.int8).data)


def open_segment(path: Path, coding: Coding, fingerprint: str, *, verify: bool = False) -> Segment:
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

    kept = [name for name in ("hi", "lo", "firsts", "cells") if f"{name}.npy" in artifact.manifest.files]
    packed = PackedCodes.from_arrays(
        {name: mapped(name) for name in kept}, coding.sizes, coding.semantic, count
    )
    return Segment(
        fingerprint,
        packed,
        mapped("rows"),
        mapped("exact"),
        mapped("coarse") if coding.embeddings == "int8" else None,
        mapped("halves"),
        float(settings["scale"]),
        None if coding.told else mapped("modality"),
    )


def gather(segments: Sequence[Segment], numbers: np.ndarray) -> np.ndarray:
    """Exact embeddings float32 [n, width] of items by number, through all segments one after another."""
    starts = np.cumsum([0, *map(len, segments)])
    owners = np.searchsorted(starts, numbers, side="right") - 1
    found = np.empty((len(numbers), segments[0].exact.shape[1]), np.float32)
    for owner in np.unique(owners):
        mine = owners == owner
        found[mine] = segments[owner].exact[numbers[mine] - starts[owner]]
    return found
