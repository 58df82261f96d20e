"""The cost of changes and filters on a real index, which is copied first.

    python benchmarks/live.py INDEX [--adds 100] [--rounds 20] [--json]

Adds texts one at a time, and measures how long a call takes and how long until another reader finds the
item. Then it searches with filters that pass from one in ten thousand to all items, in turns with searches
without a filter. Exits 1 if an added item takes a second or more to be found.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from figures import seconds
from options import add_json, script_parser

from genius import Index, Item
from genius.display import Table
from genius.index.inspect import describe

BAR_SECONDS = 1.0
SHARES = (0.0001, 0.001, 0.01, 0.1, 0.5, 1.0)


def measure_adds(index: Index, reader: Index, count: int) -> dict[str, float]:
    """Add texts one at a time, and search for each by another reader."""
    adds, finds = [], []
    for warm in (index, reader):
        warm.search("what is loaded and compiled first")
    for number in range(count):
        id, text = f"added {number}", f"A sentence about the number {number}."
        start = time.perf_counter()
        index.add([Item(id, text)])
        adds.append(time.perf_counter() - start)
        reader.search(near=id, k=1)  # an error if the reader does not have the item
        finds.append(time.perf_counter() - start)
    return {
        "items": len(index),
        "added": count,
        "add_ms": 1000 * statistics.median(adds),
        "slowest_add_ms": 1000 * max(adds),
        "found_ms": 1000 * statistics.median(finds),
        "slowest_found_ms": 1000 * max(finds),
        "segments": describe(index.path)["segments"],
    }


def measure_filters(index: Index, rounds: int) -> list[dict[str, Any]]:
    """Search with a filter of each share, once and then again, in turns with searches without a filter."""
    numbers = random.Random(0)
    index.update([{"id": item.id, "metadata": {"share": numbers.random()}} for item in index])
    near = next(iter(index)).id
    rows: list[dict[str, Any]] = []
    for share in SHARES:
        filter = {"share": {"$lt": share}}
        filtered, unfiltered = (partial(index.search, near=near, filter=each) for each in (filter, None))
        first = seconds(filtered)
        turns = [(seconds(filtered), seconds(unfiltered)) for _ in range(rounds)]
        again, without = (statistics.median(times) for times in zip(*turns, strict=True))
        rows.append(
            {
                "share": share,
                "first_ms": 1000 * first,
                "again_ms": 1000 * again,
                "ratio": again / without,
                "mode": index.search(near=near, filter=filter).mode,
            }
        )
    return rows


def main() -> int:
    """Measure both and print; the exit code says whether the bar was held."""
    parser = script_parser(__doc__)
    parser.add_argument("index", type=Path)
    parser.add_argument("--adds", type=int, default=100, help="items that are added (default: 100)")
    parser.add_argument("--rounds", type=int, default=20, help="of searches with each filter (default: 20)")
    add_json(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="genius-bench-") as scratch:
        copy = shutil.copytree(options.index, Path(scratch, "index"))
        with Index.open(copy) as index, Index.open(copy) as reader:
            adds = measure_adds(index, reader, options.adds)
            filters = measure_filters(index, options.rounds)
    if options.json:
        print(json.dumps({"adds": adds, "filters": filters}))
    else:
        for title, rows in (("one item at a time", [adds]), ("filters", filters)):
            table = Table(tuple(rows[0]), title=title)
            for row in rows:
                table.add(*(f"{value:.4g}" if isinstance(value, float) else value for value in row.values()))
            table.print()
    return int(adds["slowest_found_ms"] >= 1000 * BAR_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
