"""The speed and memory of reading M-BEIR candidates, compared with a plain `json.loads` loop.

    python benchmarks/read.py [--lines 2000000] [--rounds 3] [--json]

Writes a pool into a temporary folder and reads it on one core by both in turns; figures are medians. Exits
1 if a bar is missed: 100,000 lines/s and less than 300 MB.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from figures import median_seconds, print_figures
from options import add_json, script_parser

from genius.data.mbeir import TreePool

BAR_LINES_PER_SECOND = 100_000
BAR_MEGABYTES = 300


def write_pool(path: Path, lines: int) -> None:
    """Write a pool with M-BEIR's fields: a third images, a third texts, a third pairs."""
    with path.open("w") as file:
        for number in range(lines):
            image = f"mbeir_images/demo_images/{number % 1000:03d}/{number}.jpg" if number % 3 != 1 else None
            text = f"Candidate {number}: a small red boat on a lake at dawn." if number % 3 != 0 else None
            modality = ("image", "text", "image,text")[number % 3]
            row = {
                "did": f"9:{number}",
                "txt": text,
                "img_path": image,
                "modality": modality,
                "src_content": None,
            }
            file.write(json.dumps(row) + "\n")


def read_ours(path: Path) -> int:
    """Read items as `genius` does, parsed and checked; returns how many."""
    return sum(1 for _ in TreePool(path, root=path.parent))


def read_plainly(path: Path) -> int:
    """Read dictionaries as a short script would, unchecked; returns how many."""
    with path.open() as file:
        return sum(1 for line in file if json.loads(line))


def check_count(read: Callable[[Path], int], path: Path, lines: int) -> None:
    """Read a pool, and make sure that nothing is missing."""
    assert read(path) == lines


def peak_megabytes(path: Path) -> float:
    """The peak memory of a fresh process that reads the pool as `genius` does."""
    code = "import sys; sys.path.insert(0, sys.argv[2]); import read; read.print_peak(sys.argv[1])"
    here = str(Path(__file__).parent)
    shown = subprocess.run(
        [sys.executable, "-c", code, str(path), here], capture_output=True, text=True, check=True
    )
    return float(shown.stdout)


def print_peak(path: str) -> None:
    """Read a pool and print the peak memory of this process: `peak_megabytes` runs it."""
    read_ours(Path(path))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> int:
    """Measure and print; the exit code says whether the bars were held."""
    parser = script_parser(__doc__)
    parser.add_argument("--lines", type=int, default=2_000_000, help="of the pool (default: 2000000)")
    parser.add_argument("--rounds", type=int, default=3)
    add_json(parser)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mbeir_demo_task0_cand_pool.jsonl")
        write_pool(path, options.lines)
        readers = {"ours": read_ours, "plain": read_plainly}
        works = {name: partial(check_count, read, path, options.lines) for name, read in readers.items()}
        median = median_seconds(works, options.rounds)
        memory = peak_megabytes(path)
    figures = {
        "lines": options.lines,
        "lines_per_second": round(options.lines / median["ours"]),
        "ratio_to_json_loads": round(median["plain"] / median["ours"], 2),
        "peak_megabytes": round(memory),
    }
    print_figures(figures, as_json=options.json)
    return int(figures["lines_per_second"] < BAR_LINES_PER_SECOND or memory >= BAR_MEGABYTES)


if __name__ == "__main__":
    sys.exit(main())
