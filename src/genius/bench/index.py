"""How long it takes to make and to open an index whose items are coded already, and what that needs."""

from __future__ import annotations

import resource
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genius.bench.speed import SIZES
from genius.bench.world import BLOCK, made_up_codes
from genius.display import Table, size
from genius.index.segments import Block, Coding, open_segment, write_segment
from genius.search.codes import PackedCodes

CODING = Coding(SIZES, semantic=1, told=True)


@dataclass(frozen=True)
class Built:
    """What was measured of one number of items.

    Attributes:
        n: how many.
        pack_s: processor's seconds to sort and pack their codes.
        write_s: seconds to write all of a segment, embeddings too, to the disk.
        open_s: seconds to open it again, checked.
        bytes_per_item: of codes as they are searched.
        disk_per_item: of all files.
        peak: the most bytes of memory that this process has had.
    """

    n: int
    pack_s: float
    write_s: float
    open_s: float
    bytes_per_item: float
    disk_per_item: float
    peak: int

    def fields(self) -> dict[str, Any]:
        """For a line of JSON."""
        return {"system": "genius index", **asdict(self)}


def measure_building(count: int, *, width: int, seed: int = 0) -> Built:
    """Make a segment of items that are made up; embeddings are noise, and lie in a file."""
    random = np.random.default_rng(seed)
    codes = made_up_codes(count, SIZES, random)
    start = time.process_time()
    packed, _ = PackedCodes.build(codes, SIZES, semantic=1)
    pack_s, codes_bytes = time.process_time() - start, packed.nbytes
    del packed
    with tempfile.TemporaryDirectory(prefix="genius-bench-") as scratch:
        embeddings = np.lib.format.open_memmap(Path(scratch, "joined.npy"), "w+", np.float16, (count, width))
        for first in range(0, count, BLOCK):
            embeddings[first : first + BLOCK] = random.normal(
                size=embeddings[first : first + BLOCK].shape, scale=0.05
            )
        block = Block(codes, codes[:, 0], embeddings, np.arange(count), np.zeros(count, np.float32))
        path = Path(scratch, "segment")
        start = time.perf_counter()
        fingerprint = write_segment(path, block, CODING, "made up")
        written = time.perf_counter()
        open_segment(path, CODING, fingerprint)
        opened = time.perf_counter()
        taken = sum(file.stat().st_size for file in path.iterdir())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Built(count, pack_s, written - start, opened - written, codes_bytes / count, taken / count, peak)


def table(found: list[Built]) -> Table:
    """A row for each number of items."""
    made = Table(
        ("items", "sorted in s", "written in s", "opened in s", "bytes/item", "on disk", "peak memory")
    )
    for one in found:
        made.add(
            one.n,
            one.pack_s,
            one.write_s,
            one.open_s,
            one.bytes_per_item,
            one.disk_per_item,
            size(one.peak),
        )
    return made
