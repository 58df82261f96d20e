"""Time and memory to build and to open a segment of an index, from items that are coded already."""

from __future__ import annotations

import resource
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genius.bench.speed import PAPER_SIZES
from genius.bench.world import BLOCK, synthetic_codes
from genius.display import Table, size
from genius.index.segments import Block, SegmentFormat, open_segment, write_segment
from genius.search.codes import PackedCodes

FORMAT = SegmentFormat(PAPER_SIZES, semantic=1, modality_given=True)


@dataclass(frozen=True)
class SegmentBuild:
    """The cost of building one segment.

    Attributes:
        n: the number of items.
        pack_s: processor seconds to sort and pack the codes.
        write_s: seconds to write the whole segment, embeddings included.
        open_s: seconds to open it again and check it.
        bytes_per_item: bytes of the searchable codes.
        disk_per_item: bytes of all files.
        peak: the largest memory that this process has used so far, in bytes.
    """

    n: int
    pack_s: float
    write_s: float
    open_s: float
    bytes_per_item: float
    disk_per_item: float
    peak: int

    def fields(self) -> dict[str, Any]:
        """The figures for a line of JSON."""
        return {"system": "genius index", **asdict(self)}


def measure_build(count: int, *, width: int, seed: int = 0) -> SegmentBuild:
    """Build a segment of synthetic codes; embeddings are noise in a memory-mapped file."""
    random = np.random.default_rng(seed)
    codes = synthetic_codes(count, PAPER_SIZES, random)
    start = time.process_time()
    packed, _ = PackedCodes.build(codes, PAPER_SIZES, semantic=1)
    pack_s, codes_bytes = time.process_time() - start, packed.nbytes
    del packed
    with tempfile.TemporaryDirectory(prefix="genius-bench-") as scratch:
        embeddings = _noise(Path(scratch, "embeddings.npy"), count, width, random)
        block = Block(codes, codes[:, 0], embeddings, np.arange(count), np.zeros(count, np.float32))
        path = Path(scratch, "segment")
        start = time.perf_counter()
        fingerprint = write_segment(path, block, FORMAT, "made up")
        written = time.perf_counter()
        open_segment(path, FORMAT, fingerprint)
        opened = time.perf_counter()
        file_bytes = sum(file.stat().st_size for file in path.iterdir())
    return SegmentBuild(
        n=count,
        pack_s=pack_s,
        write_s=written - start,
        open_s=opened - written,
        bytes_per_item=codes_bytes / count,
        disk_per_item=file_bytes / count,
        peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def _noise(path: Path, count: int, width: int, random: np.random.Generator) -> np.ndarray:
    """Random embeddings in a file, float16 [count, width], written block by block."""
    embeddings = np.lib.format.open_memmap(path, "w+", np.float16, (count, width))
    for start in range(0, count, BLOCK):
        block = embeddings[start : start + BLOCK]
        block[:] = random.normal(size=block.shape, scale=0.05)
    return embeddings


def table(builds: list[SegmentBuild]) -> Table:
    """A row for each number of items."""
    rows = Table(
        ("items", "sorted in s", "written in s", "opened in s", "bytes/item", "on disk", "peak memory")
    )
    for build in builds:
        rows.add(
            build.n,
            build.pack_s,
            build.write_s,
            build.open_s,
            build.bytes_per_item,
            build.disk_per_item,
            size(build.peak),
        )
    return rows
