"""The items of one version of an index as arrays, in the order of their codes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from genius.errors import InputError
from genius.index.segments import Segment
from genius.index.snapshot import Snapshot
from genius.jit import frozen
from genius.search.segment_view import int8_scale, to_int8

BLOCK = 16384
"""How many embeddings are converted at a time."""


@dataclass(frozen=True, eq=False)
class Members:
    """Items in the order of their codes, so that those under one prefix are one run of rows.

    Attributes:
        item_keys: of the catalogue, int64 [n].
        modality: the number of each one's modality, uint8 [n].
        codes: uint16 [n, levels].
        semantic: the first level that codes meaning.
        embeddings: in int8, each row in a unit of its own [n, width].
    """

    item_keys: np.ndarray
    modality: np.ndarray
    codes: np.ndarray
    semantic: int
    embeddings: np.ndarray

    def __len__(self) -> int:
        return len(self.item_keys)

    @classmethod
    def of(cls, snapshot: Snapshot) -> Members:
        """All items of a version. Without embeddings their quantized vectors stand for them.

        Raises InputError if the index keeps neither.
        """
        segments = list(snapshot.segments.values())
        live = [~np.isin(segment.item_keys, snapshot.tombstones) for segment in segments]
        whole = len(segments) == 1 and bool(live[0].all())
        levels = len(snapshot.model.code_space.sizes)
        keys = _live_rows([segment.item_keys for segment in segments], live, np.zeros(0, np.int64))
        codes = _live_rows([segment.codes for segment in segments], live, np.zeros((0, levels), np.uint16))
        modality = _live_rows([segment.modality for segment in segments], live, np.zeros(0, np.uint8))
        embeddings = [_int8_embeddings(segment, snapshot) for segment in segments]
        stored = embeddings[0] if whole else _live_rows(embeddings, live, np.zeros((0, 1), np.int8))
        if len(segments) > 1:
            order = np.lexsort((keys, *codes.T[::-1]))  # as in one segment, however many there are
            keys, codes, modality, stored = keys[order], codes[order], modality[order], stored[order]
        semantic = snapshot.model.code_space.semantic
        return cls(keys.astype(np.int64), modality.astype(np.uint8), codes, semantic, frozen(stored))

    @cached_property
    def inverse_norms(self) -> np.ndarray:
        """One over the length of each embedding, float32 [n]; 0 for an empty one."""
        lengths = np.empty(len(self), np.float32)
        for start in range(0, len(self), BLOCK):
            rows = self.embeddings[start : start + BLOCK].astype(np.float32)
            lengths[start : start + BLOCK] = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        return np.asarray(np.where(lengths > 0, 1 / np.maximum(lengths, 1), 0), np.float32)

    def vectors(self, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Embeddings of unit length, float32 [rows, width]."""
        return np.asarray(self.embeddings[rows].astype(np.float32) * self.inverse_norms[rows][:, None])

    def in_order_of_meaning(self) -> Members:
        """The same items in the order of their semantic codes, whatever their modality."""
        if not self.semantic:
            return self
        return self.selected(np.lexsort(self.codes.T[: self.semantic - 1 : -1]))

    def selected(self, rows: np.ndarray) -> Members:
        """Only the items of these rows, in this order."""
        return Members(
            self.item_keys[rows],
            self.modality[rows],
            self.codes[rows],
            self.semantic,
            frozen(self.embeddings[rows]),
        )

    def cells(self, most: int, first_level: int) -> np.ndarray:
        """Where cells of at most `most` items begin, and behind them n: int64 [cells + 1].

        A cell is a prefix from `first_level` on, as short as possible; where more than `most` items have one
        whole code, they are cut into pieces. Rows must be in the order of the codes from that level on.
        """
        starts = np.zeros(1 if len(self) else 0, np.int64)
        depth = min(max(self.semantic, first_level) + 1, self.codes.shape[1])
        changed = _first_change(self.codes[:, first_level:]) + first_level
        for level in range(depth, self.codes.shape[1] + 1):
            ends = np.append(starts[1:], len(self))
            large = ends - starts > most if level > depth else np.ones(len(starts), bool)
            inside = np.flatnonzero(changed < level)
            split = inside[np.repeat(large, ends - starts)[inside]]
            starts = np.union1d(starts, split)
        ends = np.append(starts[1:], len(self))
        pieces = [np.arange(start, end, most) for start, end in zip(starts, ends, strict=True)]
        return np.concatenate([*pieces, [len(self)]]).astype(np.int64)


def _first_change(codes: np.ndarray) -> np.ndarray:
    """The first level at which each row differs from the one before [n]; the number of levels if nowhere."""
    changed = np.full(len(codes), codes.shape[1], np.int64)
    if len(codes) > 1:
        differs = codes[1:] != codes[:-1]
        changed[1:] = np.where(differs.any(1), differs.argmax(1), codes.shape[1])
    return changed


def _live_rows(arrays: list[np.ndarray], live: list[np.ndarray], empty: np.ndarray) -> np.ndarray:
    """The live rows of all segments, one after another."""
    rows = [array if keep.all() else array[keep] for array, keep in zip(arrays, live, strict=True)]
    return np.concatenate(rows) if rows else empty


def _int8_embeddings(segment: Segment, snapshot: Snapshot) -> np.ndarray:
    """The embeddings of a segment in int8, or its quantized vectors if it has no embeddings."""
    if segment.embeddings_int8 is not None:
        return segment.embeddings_int8
    model, width = snapshot.model, segment.embeddings.shape[1]
    if not width and not model.has_code_vectors:
        raise InputError(
            "the index keeps no embeddings, and its identifiers have no vectors that could stand for them: "
            "make it again with embeddings"
        )
    rows = np.zeros((len(segment), width or model.vector_width), np.int8)
    for start in range(0, len(segment), BLOCK):
        block = slice(start, start + BLOCK)
        kept = segment.embeddings[block] if width else model.quantizer.reconstruct(segment.codes[block])
        largest = np.abs(kept).max(1, initial=0).astype(np.float32)[:, None]
        rows[block] = to_int8(kept / np.maximum(largest, 1e-6), int8_scale(1.0))
    return rows
