"""What an item takes on the disk, in our index and in other people's forms, as in the paper's supplement."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genius.bench.rivals import LINKS, PURPOSE, TRAINING
from genius.bench.speed import SIZES
from genius.bench.world import BLOCK, World, make_world
from genius.display import Table
from genius.errors import require

PQ_BYTES = 32


@dataclass(frozen=True)
class Stored:
    """A form in which items can be kept, and how many bytes of a file an item takes in it."""

    form: str
    n: int
    bytes_per_item: float
    ratio_to_float32: float

    def fields(self) -> dict[str, Any]:
        """For a line of JSON."""
        return asdict(self)


def measure_storage(count: int, *, width: int, graph_items: int) -> list[Stored]:
    """Write items that are made up in each form, and look at the files."""
    with tempfile.TemporaryDirectory(prefix="genius-bench-") as scratch:
        folder = Path(scratch)
        world = make_world(folder, count, SIZES, width=width, queries=1)
        return stored(world, folder, graph_items)


def stored(world: World, folder: Path, graph_items: int) -> list[Stored]:
    """The forms of a world's items; `folder` is for files that are looked at.

    Codebooks, which all items share, don't count: neither ours nor those of product quantization.
    """
    count, width = len(world), world.width
    some = np.arange(min(count, graph_items))
    codes = sum(
        _written(folder / "codes", array) for part in world.parts for array in part.packed.arrays().values()
    )
    lengths = _written(folder / "lengths", np.zeros(count, np.float32))
    names = _written(folder / "names", np.zeros(count, np.int32))
    short, long = (_embeddings(folder / "rows", world, kind) for kind in (np.int8, np.float16))
    ours = {
        "codes to be searched (no tree beside them)": codes,
        "the same with lengths (scan by tables)": codes + lengths,
        "the same with embeddings in bytes": codes + lengths + short,
        "an index: with those in 16 bits and row numbers": codes + lengths + short + long + names,
    }
    bits = sum((len(book) - 1).bit_length() for book in world.codebooks)
    forms = {"codes, packed to the bit": bits / 8}
    forms |= {name: taken / count for name, taken in ours.items()}
    sample = world.embeddings(some)
    for name, kind in (("float32", np.float32), ("float16", np.float16), ("int8", np.int8)):
        forms[f"embeddings, {name}"] = _written(folder / "rows", sample.astype(kind)) / len(sample)
    forms |= _faiss_forms(sample, folder)
    return [Stored(form, count, taken, 4 * width / taken) for form, taken in forms.items()]


def _faiss_forms(sample: np.ndarray, folder: Path) -> dict[str, float]:
    faiss = require("faiss", "bench", PURPOSE)
    width = sample.shape[1]
    pieces = next(pieces for pieces in (PQ_BYTES, 16, 8, 4, 2, 1) if width % pieces == 0)
    bits = 8 if len(sample) >= 39 * 256 else 4
    forms = {}
    for name, described in (
        (f"PQ, {pieces} × {bits} bits (faiss)", f"PQ{pieces}x{bits}"),
        ("HNSW of float32 (faiss)", f"HNSW{LINKS},Flat"),
        ("HNSW of bytes (faiss)", f"HNSW{LINKS},SQ8"),
    ):
        index = faiss.index_factory(width, described, faiss.METRIC_INNER_PRODUCT)
        index.train(sample[:TRAINING])
        faiss.write_index(index, str(folder / "empty"))
        index.add(sample)
        faiss.write_index(index, str(folder / "index"))
        taken = (folder / "index").stat().st_size - (folder / "empty").stat().st_size
        forms[name] = taken / len(sample)
    return forms


def _embeddings(path: Path, world: World, kind: type[np.generic]) -> int:
    """How many bytes of a file all embeddings take; they are written a block at a time."""
    rows = np.lib.format.open_memmap(path, "w+", kind, (len(world), world.width))
    for start in range(0, len(world), BLOCK):
        some = np.arange(start, min(start + BLOCK, len(world)))
        rows[some] = world.embeddings(some).astype(kind)
    rows.flush()
    return path.stat().st_size


def _written(path: Path, array: np.ndarray) -> int:
    """How many bytes of a file an array takes."""
    with path.open("wb") as file:
        np.save(file, array)
    return path.stat().st_size


def table(found: list[Stored]) -> Table:
    """Bytes an item, with the ratio to float32 first."""
    title = f"{found[0].n:,} items; codebooks, which all items share, don't count"
    made = Table(("form", "× smaller than float32", "bytes/item"), title=title)
    for one in found:
        made.add(one.form, one.ratio_to_float32, one.bytes_per_item)
    return made
