"""The items and queries that a benchmark searches: synthetic ones in files, or those of an index.

Synthetic codes are as uneven as real ones: some cells hold a thousand times as many items as others, and so
do their children. Embeddings are the vectors of the codes with noise, so items with near embeddings have near
codes. What systems find there says something about speed, and nothing about a trained model.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from genius.errors import InputError
from genius.index.index import Index
from genius.progress import bar
from genius.quantize.fusion_inputs import TEXT_QUERY
from genius.quantize.quantizer import Quantizer
from genius.search.codes import ARRAYS, PackedCodes
from genius.search.scoring import half_sq_norms
from genius.search.segment_view import SegmentView

BLOCK = 1 << 14
"""Items that are made or read at a time."""
MODALITY_SHARES = (0.4, 0.4, 0.2)
"""The share of synthetic items of each modality."""
NOISE = 0.3
"""The length of the noise beside a vector of unit length."""
CLIP = 6.0
"""int8 embeddings clip numbers beyond this many standard deviations."""


@dataclass(frozen=True, eq=False)
class World:
    """Items, and queries that are like some of them.

    Rows number the sorted items of all segments, one segment after another.

    Attributes:
        segments: the items.
        codebooks: the vectors of each level, [codes, width].
        query_vectors: what is decoded for each query, [queries, width].
        query_embeddings: what the items' embeddings are compared with, [queries, width].
        query_modality_codes: the modality code that each query wants, -1 for any, [queries].
        pack_s: seconds to sort and pack the codes; None if that was not done here.
        synthetic: whether embeddings are the codes' own vectors with noise.
        rerank_weight: the weight of embeddings in re-ranking, against that of codes.
    """

    segments: list[SegmentView]
    codebooks: list[np.ndarray]
    query_vectors: np.ndarray
    query_embeddings: np.ndarray
    query_modality_codes: np.ndarray
    pack_s: float | None
    synthetic: bool = True
    rerank_weight: float = 1.0

    def __len__(self) -> int:
        """The number of items."""
        return sum(map(len, self.segments))

    @property
    def width(self) -> int:
        """The width of embeddings."""
        return int(self.query_embeddings.shape[1])

    @property
    def code_sizes(self) -> list[int]:
        """The number of codes of each level."""
        return [len(codebook) for codebook in self.codebooks]

    def item_embeddings(self, rows: np.ndarray) -> np.ndarray:
        """The embeddings of rows, restored from int8: float32 [rows, width]."""
        embeddings = np.empty((len(rows), self.width), np.float32)
        for segment, places, own_rows in self._split(rows):
            assert segment.embeddings_int8 is not None
            embeddings[places] = segment.embeddings_int8[own_rows] * np.float32(segment.scale)
        return embeddings

    def item_codes(self, rows: np.ndarray) -> np.ndarray:
        """The codes of rows: uint16 [rows, levels]."""
        codes = np.empty((len(rows), len(self.codebooks)), np.uint16)
        for segment, places, own_rows in self._split(rows):
            codes[places] = segment.packed.codes(own_rows)
        return codes

    def _split(self, rows: np.ndarray) -> Iterator[tuple[SegmentView, np.ndarray, np.ndarray]]:
        """Each segment, the places in `rows` that belong to it, and its own numbers for these rows."""
        first = 0
        for segment in self.segments:
            places = np.flatnonzero((rows >= first) & (rows < first + len(segment)))
            yield segment, places, rows[places] - first
            first += len(segment)


def synthetic_codes(count: int, sizes: Sequence[int], random: np.random.Generator) -> np.ndarray:
    """Codes uint16 [count, levels]: cells follow Zipf's law, and some children are likelier than others.

    Raises InputError for less than one item.
    """
    if count < 1:
        raise InputError(f"a benchmark needs at least one item, not {count}")
    codes = np.empty((count, len(sizes)), np.uint16)
    codes[:, 0] = random.choice(sizes[0], count, p=_modality_shares(sizes[0]))
    weights = 1 / np.arange(1, sizes[1] + 1) ** 0.7
    ranks = random.choice(sizes[1], count, p=weights / weights.sum()).astype(np.int64)
    parents = codes[:, 0].astype(np.int64)
    for level in range(1, len(sizes)):
        if level > 1:
            ranks = (random.random(count) ** 1.5 * sizes[level]).astype(np.int64)
        # Which children are likely depends on the codes above them.
        codes[:, level] = (ranks + parents * 7919) % sizes[level]
        parents = (parents * 31 + codes[:, level]) % 1_000_003
    return codes


def make_world(
    folder: Path, count: int, sizes: Sequence[int], *, width: int, queries: int, seed: int = 0
) -> World:
    """Write `count` synthetic items to a folder, with queries that are like some of them, and open them."""
    random = np.random.default_rng(seed)
    codes = synthetic_codes(count, sizes, random)
    start = time.process_time()
    packed, _ = PackedCodes.build(codes, sizes, semantic=1)
    pack_s = time.process_time() - start
    del codes
    # The deeper the level, the shorter its vectors, as in residual quantization.
    codebooks = [
        (random.normal(size=(size, width)) * width**-0.5 * 0.6**level).astype(np.float32)
        for level, size in enumerate(sizes)
    ]
    arrays = {**packed.arrays(), "half_sq_norms": half_sq_norms(packed, codebooks)}
    arrays |= {f"codebook_{level}": codebook for level, codebook in enumerate(codebooks)}
    _write_embeddings(folder / "int8_embeddings.npy", packed, codebooks, random)
    chosen = random.integers(0, count, queries)
    noise = random.normal(size=(queries, width)).astype(np.float32)
    arrays["query_vectors"] = _vectors_near(packed, codebooks, chosen, noise)
    arrays["query_modality_codes"] = packed.codes(chosen)[:, 0].astype(np.int64)
    arrays["pack_s"] = np.array(pack_s)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return open_world(folder, sizes)


def _write_embeddings(
    path: Path, packed: PackedCodes, codebooks: Sequence[np.ndarray], random: np.random.Generator
) -> None:
    """Write an embedding near each row's code, int8 [items, width], a block at a time."""
    count, width = len(packed), codebooks[0].shape[1]
    embeddings = np.lib.format.open_memmap(path, "w+", np.int8, (count, width))
    with bar("making items up", total=count) as shown:
        for first in range(0, count, BLOCK):
            rows = np.arange(first, min(first + BLOCK, count))
            noise = random.normal(size=(len(rows), width)).astype(np.float32)
            embeddings[rows[0] : rows[-1] + 1] = _to_int8(_vectors_near(packed, codebooks, rows, noise))
            shown.advance(len(rows))
    embeddings.flush()


def open_world(folder: Path, sizes: Sequence[int]) -> World:
    """The world that `make_world` wrote to a folder, memory-mapped: any number of processes share it."""
    arrays = {path.stem: np.load(path, mmap_mode="r") for path in sorted(folder.glob("*.npy"))}
    embeddings = arrays["int8_embeddings"]
    names = [name for name in arrays if name in ARRAYS]
    packed = PackedCodes.from_arrays({name: arrays[name] for name in names}, sizes, 1, len(embeddings))
    segment = SegmentView(
        packed,
        embeddings_int8=embeddings,
        scale=_scale(embeddings.shape[1]),
        half_sq_norms=arrays["half_sq_norms"],
    )
    codebooks = [np.array(arrays[f"codebook_{level}"]) for level in range(len(sizes))]
    query_vectors = np.array(arrays["query_vectors"])
    modality_codes = np.array(arrays["query_modality_codes"])
    return World([segment], codebooks, query_vectors, query_vectors, modality_codes, float(arrays["pack_s"]))


def _modality_shares(modalities: int) -> np.ndarray:
    shares = np.array([*MODALITY_SHARES, *[0.1] * modalities][:modalities])
    return np.asarray(shares / shares.sum())


def _vectors_near(
    packed: PackedCodes, codebooks: Sequence[np.ndarray], rows: np.ndarray, noise: np.ndarray
) -> np.ndarray:
    """Vectors of unit length near the codes of rows, [rows, width]; `noise` is standard normal."""
    vectors = noise * np.float32(NOISE * noise.shape[1] ** -0.5)
    for level, codes in enumerate(packed.codes(rows).T):
        vectors += codebooks[level][codes]
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def _to_int8(vectors: np.ndarray) -> np.ndarray:
    return np.rint(np.clip(vectors / _scale(vectors.shape[1]), -127, 127)).astype(np.int8)


def _scale(width: int) -> float:
    """One unit of int8 embeddings of unit length."""
    return float(CLIP * width**-0.5 / 127)


def grown_world(world: World, quantizer: Quantizer, count: int, folder: Path, seed: int = 0) -> World:
    """The items of a world, and as many more as make `count`: copies with noise, coded anew.

    What is added is near to what it is a copy of, as in collections with many alike; queries stay.
    """
    random = np.random.default_rng(seed)
    added = count - len(world)
    copied = np.sort(random.integers(0, len(world), added))
    scale, width = world.segments[0].scale, world.width
    embeddings = np.lib.format.open_memmap(folder / "added.npy", "w+", np.int8, (added, width))
    codes = np.empty((added, len(world.codebooks)), np.uint16)
    with bar("making items up", total=added) as shown:
        for first in range(0, added, BLOCK):
            block = slice(first, min(first + BLOCK, added))
            own = world.item_codes(copied[block])
            modality = own[:, 0].astype(np.int64) if quantizer.semantic else None
            vectors = _jittered(quantizer.reconstruct(own), random)
            codes[block] = quantizer.codes(vectors, modality if quantizer.modality_code == "given" else None)
            noisy = _jittered(world.item_embeddings(copied[block]), random)
            embeddings[block] = np.rint(np.clip(noisy / scale, -127, 127)).astype(np.int8)
            shown.advance(len(own))
    packed, order = PackedCodes.build(codes, world.code_sizes, quantizer.semantic)
    ordered = np.lib.format.open_memmap(folder / "ordered.npy", "w+", np.int8, (added, width))
    for first in range(0, added, BLOCK):
        ordered[first : first + BLOCK] = embeddings[order[first : first + BLOCK]]
    segment = SegmentView(
        packed, embeddings_int8=ordered, scale=scale, half_sq_norms=half_sq_norms(packed, world.codebooks)
    )
    held = [replace(view, embeddings=None, item_keys=None) for view in world.segments]
    return replace(world, segments=[*held, segment])


def _jittered(vectors: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Vectors [n, width] with noise, of the lengths that they had."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    noise = random.normal(size=vectors.shape) * NOISE * vectors.shape[1] ** -0.5
    noisy = vectors + noise * lengths
    noisy *= lengths / np.maximum(np.linalg.norm(noisy, axis=1, keepdims=True), 1e-9)
    return np.asarray(noisy, np.float32)


def world_of_index(index: Index, queries: int, seed: int = 0) -> World:
    """The items of an index, with queries that are like some of them: embeddings and codes with noise.

    Raises InputError if items were removed, since rival systems would still hold them.
    """
    random = np.random.default_rng(seed)
    quantizer, segments = index.model.quantizer, index.searcher.engine().segments
    if any(segment.allowed is not None for segment in segments):
        raise InputError("some items were removed: purge them first with `genius compact`", path=index.path)
    no_queries = np.zeros((0, index.model.width), np.float32)
    world = World(
        segments,
        list(quantizer.codebooks),
        no_queries,
        no_queries,
        np.zeros(0, np.int64),
        None,
        synthetic=False,
        rerank_weight=float(index.model.rerank_weights(np.array([TEXT_QUERY]))[0]),
    )
    chosen = random.integers(0, len(world), queries)
    codes = world.item_codes(chosen)
    noisy = [
        vectors + random.normal(size=vectors.shape) * NOISE * vectors.shape[1] ** -0.5
        for vectors in (quantizer.reconstruct(codes), world.item_embeddings(chosen))
    ]
    units = [
        (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32) for vectors in noisy
    ]
    return replace(
        world,
        query_vectors=units[0],
        query_embeddings=units[1],
        query_modality_codes=codes[:, 0].astype(np.int64) if quantizer.semantic else np.full(queries, -1),
    )
