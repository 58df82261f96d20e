"""The speed of coding vectors, compared with vector-quantize-pytorch with the same codebooks.

    python benchmarks/quantize.py [--rows 100000 | --full] [--sample 4096] [--rounds 5] [--json]

Vectors of 768 dimensions, 3 + 8 × 4096 codes. First both code the same vectors in turns, on all cores of
this process; figures are medians. Then ours alone codes many vectors (--rows; --full is a million), made
block by block as a collection is read. Exits 1 if a bar is missed: 3 × the library, less than 2 GB at the
peak of the whole process, and all codes equal to those of a comparison in double precision. (The library's
are not all equal: it rounds distances to single precision, and one different code changes all codes after
it.)
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from figures import median_seconds, print_figures, seconds
from options import add_json, script_parser
from vector_quantize_pytorch import ResidualVQ

from genius.quantize.quantizer import Quantizer
from genius.runtime import cores

WIDTH = 768
GROUPS = 500
SIZES = (3, *(8 * [4096]))
SCALE = 0.3
BLOCK = 50_000
BAR_RATIO = 3.0
BAR_MEMORY = 2.0


def vectors(count: int, seed: int) -> np.ndarray:
    """Vectors [count, WIDTH] of unit length in groups, as those of a collection are."""
    centres = np.random.default_rng(0).standard_normal((GROUPS, WIDTH), np.float32)
    random = np.random.default_rng([1, seed])
    rows = random.standard_normal((count, WIDTH), np.float32)
    rows += centres[random.integers(GROUPS, size=count)]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def make_quantizers() -> tuple[Quantizer, ResidualVQ]:
    """Our quantizer and the library's, with the same codebooks: scaled residuals of vectors at each level."""
    residuals, books = vectors(max(SIZES), 0), []
    for size in SIZES:
        books.append(SCALE * residuals[:size])
        residuals -= books[-1][Quantizer(books[-1:], modality_code="none").codes(residuals)[:, 0]]
    library = ResidualVQ(dim=WIDTH, codebook_size=SIZES).eval()
    for layer, book in zip(library.layers, books, strict=True):
        layer.codebook = torch.from_numpy(book)
    return Quantizer(books, modality_code="learned"), library


def exact_codes(books: Sequence[np.ndarray], rows: np.ndarray) -> np.ndarray:
    """Codes [n, levels] of rows [n, WIDTH] in double precision; only residuals are rounded to single."""
    residuals, codes = rows.copy(), []
    for book in books:
        exact = book.astype(np.float64)
        codes.append((residuals @ exact.T - np.square(exact).sum(1) / 2).argmax(1))
        residuals -= book[codes[-1]]
    return np.stack(codes, axis=1)


def seconds_of_many(quantizer: Quantizer, count: int) -> float:
    """The time to code `count` vectors, without the time to make them."""
    spent = 0.0
    for start in range(0, count, BLOCK):
        block = vectors(min(BLOCK, count - start), 2 + start)
        spent += seconds(partial(quantizer.codes, block))
    return spent


def main() -> int:
    """Measure in turns and print; the exit code says whether the bars were held."""
    parser = script_parser(__doc__)
    parser.add_argument(
        "--rows", type=int, default=100_000, help="vectors that ours codes alone (default: 100000)"
    )
    parser.add_argument("--full", action="store_const", const=1_000_000, dest="rows", help="--rows 1000000")
    parser.add_argument("--sample", type=int, default=4096, help="vectors that both code (default: 4096)")
    parser.add_argument("--rounds", type=int, default=5)
    add_json(parser)
    options = parser.parse_args()
    torch.set_num_threads(cores())
    figures = measure(options.sample, options.rows, options.rounds)
    print_figures(figures, as_json=options.json)
    held = (
        figures["ratio_to_vector_quantize_pytorch"] >= BAR_RATIO
        and figures["peak_memory_gb"] < BAR_MEMORY
        and figures["share_of_exact_codes"] == 1
    )
    return int(not held)


def measure(sample_size: int, count: int, rounds: int) -> dict[str, float]:
    """The figures, the ratio first."""
    quantizer, library = make_quantizers()
    sample = vectors(sample_size, 1)
    rows = torch.from_numpy(sample)[None]
    with torch.no_grad():
        exact = exact_codes(quantizer.codebooks, sample)
        exact_share = float((quantizer.codes(sample) == exact).mean())
        library_exact_share = float((library(rows)[1][0].numpy() == exact).mean())
        works = {"library": lambda: library(rows), "ours": lambda: quantizer.codes(sample)}
        median = median_seconds(works, rounds)
    spent = seconds_of_many(quantizer, count)
    return {
        "ratio_to_vector_quantize_pytorch": round(median["library"] / median["ours"], 2),
        "share_of_exact_codes": exact_share,
        "library_share_of_exact_codes": round(library_exact_share, 5),
        "peak_memory_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "rows_per_second": round(sample_size / median["ours"]),
        "library_rows_per_second": round(sample_size / median["library"]),
        "rows_per_second_of_many": round(count / spent),
        "rows_of_many": count,
        "cores": cores(),
    }


if __name__ == "__main__":
    sys.exit(main())
