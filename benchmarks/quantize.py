"""How fast vectors are coded, beside vector-quantize-pytorch's own encoding with the same codebooks.

    python benchmarks/quantize.py [--rows 100000 | --full] [--sample 4096] [--rounds 5] [--json]

Vectors of 768 dimensions, 3 + 8 × 4096 codes. First both code the same vectors by turns, in one run, on all
cores of this process: medians. Then ours alone codes many (--rows; --full is a million), made block by block
as a collection is read. Exits 1 if a bar is missed: 3 × the library, less than 2 GB at the peak of the whole
process, and all codes those of a comparison in double precision. (The library's are not quite: its distances
are rounded to single precision, and one other code changes all behind it.)
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from vector_quantize_pytorch import ResidualVQ

from genius.quantize.quantizer import Quantizer
from genius.runtime import cores

WIDTH = 768
GROUPS = 500
SIZES = (3, *(8 * [4096]))
SHARE = 0.3
BLOCK = 50_000
BAR_RATIO = 3.0
BAR_MEMORY = 2.0


def vectors(count: int, seed: int) -> np.ndarray:
    """Vectors of unit length in groups, as those of a collection are."""
    centres = np.random.default_rng(0).standard_normal((GROUPS, WIDTH), np.float32)
    random = np.random.default_rng([1, seed])
    rows = random.standard_normal((count, WIDTH), np.float32)
    rows += centres[random.integers(GROUPS, size=count)]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def both() -> tuple[Quantizer, ResidualVQ]:
    """Codebooks in ours and in the library's hands: of each level, a share of what some vectors have left."""
    rest, books = vectors(max(SIZES), 0), []
    for size in SIZES:
        books.append(SHARE * rest[:size])
        rest -= books[-1][Quantizer(books[-1:], modality_code="none").codes(rest)[:, 0]]
    library = ResidualVQ(dim=WIDTH, codebook_size=SIZES).eval()
    for layer, book in zip(library.layers, books, strict=True):
        layer.codebook = torch.from_numpy(book)
    return Quantizer(books, modality_code="learned"), library


def exactly(books: Sequence[np.ndarray], rows: np.ndarray) -> np.ndarray:
    """Codes [n, levels] in double precision but for what is left over, which everybody keeps in single."""
    rest, codes = rows.copy(), []
    for book in books:
        exact = book.astype(np.float64)
        codes.append((rest @ exact.T - np.square(exact).sum(1) / 2).argmax(1))
        rest -= book[codes[-1]]
    return np.stack(codes, axis=1)


def seconds(work: Callable[[], Any]) -> float:
    """The time of one run."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def many(quantizer: Quantizer, rows: int) -> float:
    """The time to code so many vectors, not counting that to make them."""
    spent = 0.0
    for start in range(0, rows, BLOCK):
        block = vectors(min(BLOCK, rows - start), 2 + start)
        spent += seconds(lambda block=block: quantizer.codes(block))  # type: ignore[misc]
    return spent


def main() -> int:
    """Measure by turns, print ratios first, and say by the exit code whether the bars hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--full", action="store_const", const=1_000_000, dest="rows")
    parser.add_argument("--sample", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(cores())
    quantizer, library = both()
    sample = vectors(options.sample, 1)
    rows = torch.from_numpy(sample)[None]
    with torch.no_grad():
        exact = exactly(quantizer.codebooks, sample)
        same = float((quantizer.codes(sample) == exact).mean())
        library_same = float((library(rows)[1][0].numpy() == exact).mean())
        times: dict[str, list[float]] = {"ours": [], "library": []}
        for _ in range(options.rounds):
            times["library"].append(seconds(lambda: library(rows)))
            times["ours"].append(seconds(lambda: quantizer.codes(sample)))
    median = {name: statistics.median(values) for name, values in times.items()}
    alone = many(quantizer, options.rows)
    result = {
        "ratio_to_vector_quantize_pytorch": round(median["library"] / median["ours"], 2),
        "share_of_exact_codes": same,
        "library_share_of_exact_codes": round(library_same, 5),
        "peak_memory_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "rows_per_second": round(options.sample / median["ours"]),
        "library_rows_per_second": round(options.sample / median["library"]),
        "rows_per_second_of_many": round(options.rows / alone),
        "rows_of_many": options.rows,
        "cores": cores(),
    }
    print(
        json.dumps(result)
        if options.json
        else "\n".join(f"{key:34} {value}" for key, value in result.items())
    )
    held = (
        result["ratio_to_vector_quantize_pytorch"] >= BAR_RATIO
        and result["peak_memory_gb"] < BAR_MEMORY
        and result["share_of_exact_codes"] == 1
    )
    return int(not held)


if __name__ == "__main__":
    sys.exit(main())
