"""Bytes per item on disk, in our index and in other forms, as in the paper's supplement."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genius.bench.rivals import HNSW_LINKS, PURPOSE, TRAINING_ROWS, product_quantizer
from genius.bench.speed import PAPER_SIZES
from genius.bench.world import BLOCK, World, make_world
from genius.display import Table
from genius.errors import require


@dataclass(frozen=True)
class StoredForm:
    """A form in which items can be stored, and the bytes of a file that an item takes in it."""

    form: str
    n: int
    bytes_per_item: float
    ratio_to_float32: float

    def fields(self) -> dict[str, Any]:
        """The figures for a line of JSON."""
        return asdict(self)


def measure_storage(count: int, *, width: int, graph_items: int) -> list[StoredForm]:
    """Write synthetic items in each form and measure the files; rivals hold at most `graph_items`."""
    with tempfile.TemporaryDirectory(prefix="genius-bench-") as scratch:
        folder = Path(scratch)
        world = make_world(folder, count, PAPER_SIZES, width=width, queries=1)
        return measure_forms(world, folder, graph_items)


def measure_forms(world: World, folder: Path, sample_items: int) -> list[StoredForm]:
    """The forms of a world's items; `folder` is for files that are measured.

    Codebooks, which all items share, don't count: neither ours nor those of product quantization.
    """
    sample = world.item_embeddings(np.arange(min(len(world), sample_items)))
    forms = {"codes, packed to the bit": _packed_size(len(sample), world.code_sizes) / len(sample)}
    forms |= {name: total / len(world) for name, total in _our_forms(world, folder).items()}
    for name, kind in (("float32", np.float32), ("float16", np.float16), ("int8", np.int8)):
        forms[f"embeddings, {name}"] = _array_size(folder / "array", sample.astype(kind)) / len(sample)
    forms |= _faiss_forms(sample, folder)
    float32 = 4 * world.width
    return [StoredForm(name, len(world), taken, float32 / taken) for name, taken in forms.items()]


def _packed_size(count: int, sizes: list[int]) -> int:
    """The bytes of `count` codes as one stream of bits, each level with as many bits as its size needs."""
    bits = count * sum((size - 1).bit_length() for size in sizes)
    return -(-bits // 8)


def _our_forms(world: World, folder: Path) -> dict[str, int]:
    """The bytes of all items as an index stores them, from codes alone to everything."""
    codes = sum(
        _array_size(folder / "array", array)
        for segment in world.segments
        for array in segment.packed.arrays().values()
    )
    norms = _array_size(folder / "array", np.zeros(len(world), np.float32))
    keys = _array_size(folder / "array", np.zeros(len(world), np.int32))
    int8, float16 = (_embeddings_size(folder / "array", world, kind) for kind in (np.int8, np.float16))
    return {
        "searchable codes (no tree needed)": codes,
        "searchable codes and norms (scan by tables)": codes + norms,
        "the same and int8 embeddings": codes + norms + int8,
        "a whole index: the same, float16 embeddings and item keys": codes + norms + int8 + float16 + keys,
    }


def _faiss_forms(sample: np.ndarray, folder: Path) -> dict[str, float]:
    faiss = require("faiss", "bench", PURPOSE)
    pieces, bits = product_quantizer(sample.shape[1], len(sample))
    forms = {}
    for name, described in (
        (f"PQ, {pieces} × {bits} bits (faiss)", f"PQ{pieces}x{bits}np"),
        ("HNSW of float32 (faiss)", f"HNSW{HNSW_LINKS},Flat"),
        ("HNSW of int8 (faiss)", f"HNSW{HNSW_LINKS},SQ8"),
    ):
        index = faiss.index_factory(sample.shape[1], described, faiss.METRIC_INNER_PRODUCT)
        index.train(sample[:TRAINING_ROWS])
        faiss.write_index(index, str(folder / "empty"))
        index.add(sample)
        faiss.write_index(index, str(folder / "index"))
        taken = (folder / "index").stat().st_size - (folder / "empty").stat().st_size
        forms[name] = taken / len(sample)
    return forms


def _embeddings_size(path: Path, world: World, kind: type[np.generic]) -> int:
    """The bytes of a file with all embeddings in a number format; they are written block by block."""
    embeddings = np.lib.format.open_memmap(path, "w+", kind, (len(world), world.width))
    for start in range(0, len(world), BLOCK):
        rows = np.arange(start, min(start + BLOCK, len(world)))
        embeddings[rows] = world.item_embeddings(rows).astype(kind)
    embeddings.flush()
    return path.stat().st_size


def _array_size(path: Path, array: np.ndarray) -> int:
    """The bytes of a file with an array."""
    with path.open("wb") as file:
        np.save(file, array)
    return path.stat().st_size


def table(forms: list[StoredForm]) -> Table:
    """Bytes per item of each form, with the ratio to float32 first."""
    title = f"{forms[0].n:,} items; codebooks, which all items share, don't count"
    rows = Table(("form", "× smaller than float32", "bytes/item"), title=title)
    for form in forms:
        rows.add(form.form, form.ratio_to_float32, form.bytes_per_item)
    return rows
