"""How fast M-BEIR candidates are read, beside a plain `json.loads` loop, and in how much memory.

    python benchmarks/read.py [--lines 2000000] [--rounds 3] [--json]

Writes a pool of its own into a temporary folder, reads it on one core with both, taking turns, and exits 1
if the bar is missed: 100,000 lines/s and less than 300 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from genius.data.mbeir import TreePool

BAR_LINES_PER_SECOND = 100_000
BAR_MEGABYTES = 300


def write_pool(path: Path, lines: int) -> None:
    """A pool with M-BEIR's fields, a third of it pictures, texts and pairs each."""
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
    """Read as `genius` does: parsed, checked, as items, ids unique."""
    return sum(1 for _ in TreePool(path, root=path.parent))


def read_plainly(path: Path) -> int:
    """Read as a script would: parsed, unchecked, as dictionaries."""
    with path.open() as file:
        return sum(1 for line in file if json.loads(line))


def seconds(read: Callable[[Path], int], path: Path, lines: int) -> float:
    """The time of one pass."""
    start = time.perf_counter()
    assert read(path) == lines
    return time.perf_counter() - start


def peak_megabytes(path: Path) -> float:
    """The most memory that a fresh process holds while it reads the pool with ours."""
    code = "import sys; sys.path.insert(0, sys.argv[2]); import read; read.print_peak(sys.argv[1])"
    here = str(Path(__file__).parent)
    shown = subprocess.run(
        [sys.executable, "-c", code, str(path), here], capture_output=True, text=True, check=True
    )
    return float(shown.stdout)


def print_peak(path: str) -> None:
    """What `peak_megabytes` runs in its process."""
    read_ours(Path(path))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> int:
    """Measure, print, and say by the exit code whether the bar holds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mbeir_demo_task0_cand_pool.jsonl")
        write_pool(path, options.lines)
        times: dict[str, list[float]] = {"ours": [], "plain": []}
        for _ in range(options.rounds):
            times["ours"].append(seconds(read_ours, path, options.lines))
            times["plain"].append(seconds(read_plainly, path, options.lines))
        memory = peak_megabytes(path)
    ours, plain = (statistics.median(times[name]) for name in ("ours", "plain"))
    result = {
        "lines": options.lines,
        "lines_per_second": round(options.lines / ours),
        "ratio_to_json_loads": round(plain / ours, 2),
        "peak_megabytes": round(memory),
    }
    print(
        json.dumps(result)
        if options.json
        else "\n".join(f"{key:22} {value:,}" for key, value in result.items())
    )
    return int(result["lines_per_second"] < BAR_LINES_PER_SECOND or memory >= BAR_MEGABYTES)


if __name__ == "__main__":
    sys.exit(main())
