"""What is searched in a benchmark: codes and embeddings of many items, made up or from an index, and queries.

Made-up codes are as uneven as real ones: some cells hold a thousand times as many items as others, and so do
their children. Embeddings are the vectors of the codes with noise, so near items have near codes; what is
found by them says something of speed, and nothing of a trained model. All arrays lie in files.
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
from genius.search.asked import halves
from genius.search.codes import PackedCodes
from genius.search.segment_view import Part

BLOCK = 1 << 14
SHARES = (0.4, 0.4, 0.2)
"""Of the modalities."""
NOISE = 0.3
LARGEST = 6.0  # of an embedding's numbers, how many times the usual one is kept in bytes


@dataclass(frozen=True, eq=False)
class World:
    """Items and queries.

    Attributes:
        parts: the items.
        codebooks: the vectors of each level, [codes, width].
        vectors: what queries are decoded from, [queries, width].
        joined: what items' embeddings are compared with, [queries, width].
        first: the modality's code that each query wants.
        pack_s: how many seconds it took to sort and pack the codes; None if that was not done here.
        made_up: whether embeddings are the codes' own vectors with noise.
        weight: how much embeddings count in re-ranking, beside codes.
    """

    parts: list[Part]
    codebooks: list[np.ndarray]
    vectors: np.ndarray
    query_embeddings: np.ndarray
    first: np.ndarray
    pack_s: float | None
    made_up: bool = True
    weight: float = 1.0

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def width(self) -> int:
        """Of embeddings."""
        return int(self.query_embeddings.shape[1])

    def embeddings(self, rows: np.ndarray) -> np.ndarray:
        """Those of rows, those of all parts numbered one after another: float32 [n, width]."""
        found = np.empty((len(rows), self.width), np.float32)
        for part, mine, places in self._split(rows):
            assert part.coarse is not None
            found[mine] = part.coarse[places] * np.float32(part.scale)
        return found

    def codes(self, rows: np.ndarray) -> np.ndarray:
        """The codes of rows, uint16 [n, levels]."""
        found = np.empty((len(rows), len(self.codebooks)), np.uint16)
        for part, mine, places in self._split(rows):
            found[mine] = part.packed.codes(places)
        return found

    def _split(self, rows: np.ndarray) -> Iterator[tuple[Part, np.ndarray, np.ndarray]]:
        """Each part, which of the rows are its own, and where they are in it."""
        first = 0
        for part in self.parts:
            mine = np.flatnonzero((rows >= first) & (rows < first + len(part)))
            yield part, mine, rows[mine] - first
            first += len(part)


def made_up_codes(count: int, sizes: Sequence[int], random: np.random.Generator) -> np.ndarray:
    """Codes uint16 [count, levels]: Zipf's law for cells, and some of their children likelier than others."""
    if count < 1:
        raise InputError(f"a benchmark needs at least one item, not {count}")
    codes = np.empty((count, len(sizes)), np.uint16)
    codes[:, 0] = random.choice(sizes[0], count, p=_shares(sizes[0]))
    weights = 1 / np.arange(1, sizes[1] + 1) ** 0.7
    ranks = random.choice(sizes[1], count, p=weights / weights.sum()).astype(np.int64)
    parents = codes[:, 0].astype(np.int64)
    for level in range(1, len(sizes)):
        if level > 1:
            ranks = (random.random(count) ** 1.5 * sizes[level]).astype(np.int64)
        # Which children are likely depends on what is above them.
        codes[:, level] = (ranks + parents * 7919) % sizes[level]
        parents = (parents * 31 + codes[:, level]) % 1_000_003
    return codes


def make_world(
    folder: Path, count: int, sizes: Sequence[int], *, width: int, queries: int, seed: int = 0
) -> World:
    """Make up `count` items in a folder, and queries that are like some of them."""
    random = np.random.default_rng(seed)
    codes = made_up_codes(count, sizes, random)
    start = time.process_time()
    packed, _ = PackedCodes.build(codes, sizes, semantic=1)
    pack_s = time.process_time() - start
    del codes
    # The deeper, the shorter: as residual codebooks have it.
    codebooks = [
        (random.normal(size=(size, width)) * width**-0.5 * 0.6**level).astype(np.float32)
        for level, size in enumerate(sizes)
    ]
    arrays = {**packed.arrays(), "halves": halves(packed, codebooks)}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    for level, book in enumerate(codebooks):
        np.save(folder / f"book_{level}.npy", book)
    coarse = np.lib.format.open_memmap(folder / "coarse.npy", "w+", np.int8, (count, width))
    with bar("making items up", total=count) as shown:
        for first in range(0, count, BLOCK):
            rows = np.arange(first, min(first + BLOCK, count))
            noise = random.normal(size=(len(rows), width)).astype(np.float32)
            coarse[rows[0] : rows[-1] + 1] = _bytes(_like(packed, codebooks, rows, noise))
            shown.advance(len(rows))
    coarse.flush()
    chosen = random.integers(0, count, queries)
    asked = _like(packed, codebooks, chosen, random.normal(size=(queries, width)).astype(np.float32))
    wanted = packed.codes(chosen)[:, 0].astype(np.int64)
    for name, array in (("asked", asked), ("wanted", wanted), ("pack_s", np.array(pack_s))):
        np.save(folder / f"{name}.npy", array)
    return open_world(folder, sizes)


def open_world(folder: Path, sizes: Sequence[int]) -> World:
    """The world that was made up in a folder, mapped from its files: any number of processes share it."""
    mapped = {path.stem: np.load(path, mmap_mode="r") for path in sorted(folder.glob("*.npy"))}
    count = len(mapped["coarse"])
    names = [name for name in mapped if name in ("hi", "lo", "firsts", "cells")]
    kept = {name: mapped[name] for name in names}
    packed = PackedCodes.from_arrays(kept, sizes, 1, count)
    part = Part(
        packed, coarse=mapped["coarse"], scale=_scale(mapped["coarse"].shape[1]), halves=mapped["halves"]
    )
    books = [np.array(mapped[f"book_{level}"]) for level in range(len(sizes))]
    asked = np.array(mapped["asked"])
    return World([part], books, asked, asked, np.array(mapped["wanted"]), float(mapped["pack_s"]))


def _shares(modalities: int) -> np.ndarray:
    shares = np.array([*SHARES, *[0.1] * modalities][:modalities])
    return np.asarray(shares / shares.sum())


def _like(
    packed: PackedCodes, codebooks: Sequence[np.ndarray], rows: np.ndarray, noise: np.ndarray
) -> np.ndarray:
    """Vectors of unit length near those of some rows' codes."""
    vectors = noise * np.float32(NOISE * noise.shape[1] ** -0.5)
    for level, codes in enumerate(packed.codes(rows).T):
        vectors += codebooks[level][codes]
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def _bytes(vectors: np.ndarray) -> np.ndarray:
    return np.rint(np.clip(vectors / _scale(vectors.shape[1]), -127, 127)).astype(np.int8)


def _scale(width: int) -> float:
    return float(LARGEST * width**-0.5 / 127)


def real_world(index: Index, queries: int, seed: int = 0) -> World:
    """The items of an index, and queries that are like some of them: embeddings and codes with noise.

    Raises InputError if items were removed: others would hold them still.
    """
    random = np.random.default_rng(seed)
    quantizer, parts = index.model.quantizer, index.searcher.engine().parts
    if any(part.allowed is not None for part in parts):
        raise InputError("some items were removed: let go of them first with genius compact", path=index.path)
    nothing = np.zeros((0, index.model.width), np.float32)
    world = World(
        parts,
        list(quantizer.codebooks),
        nothing,
        nothing,
        np.zeros(0, np.int64),
        None,
        made_up=False,
        weight=index.model.rerank_weight,
    )
    chosen = random.integers(0, len(world), queries)
    query_embeddings, codes = world.embeddings(chosen), world.codes(chosen)
    vectors = quantizer.reconstruct(codes)
    noisy = [
        rows + random.normal(size=rows.shape) * NOISE * rows.shape[1] ** -0.5 for rows in (vectors, query_embeddings)
    ]
    units = [(rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32) for rows in noisy]
    first = codes[:, 0].astype(np.int64) if quantizer.semantic else np.full(queries, -1)
    return replace(world, vectors=units[0], query_embeddings=units[1], first=first)
