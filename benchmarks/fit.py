"""Models without labels: what `genius fit` keeps of exact search, and how long it takes.

    python benchmarks/fit.py --tree TREE [--encoder photo] [--out FOLDER]
    python benchmarks/fit.py --vectors 100000

With a tree, a model is fitted to its items by the encoder, without a look at its queries; then the queries
of the split are searched: hit rates @5 in the wanted modality of the union pool, and as a ratio to exact
search by the same embeddings. Beside it the overlap with exact search's ten nearest, which needs no queries,
and the same codes without refinement (greedy residual k-means). With --vectors, that many made-up vectors of
512 numbers are fitted: seconds, and the most memory.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from figures import print_table, seconds
from options import add_split, check_split, script_parser

from genius.data.mbeir import Split, Tree
from genius.data.records import Item
from genius.display import Table
from genius.doctor.unlabelled import Overlap, examine_unlabelled
from genius.encode import pipeline
from genius.evaluate.run import evaluate_model
from genius.fit import codebooks
from genius.fit.overlap import mean_overlap
from genius.fit.run import fit_model
from genius.model import Model
from genius.runtime import cores

SYSTEMS = ("dense-fair", "default", "default+rerank")
WIDTH = 512


def main() -> None:
    """Fit, search, print."""
    parser = script_parser(__doc__)
    parser.add_argument("--tree", type=Path, help="a benchmark in M-BEIR's layout")
    parser.add_argument("--encoder", default="photo", help="as genius fit takes it (default: photo)")
    parser.add_argument("--out", type=Path, help="keep the fitted models in this folder")
    parser.add_argument("--vectors", type=int, help="fit so many made-up vectors instead")
    add_split(parser)
    options = parser.parse_args()
    split = check_split(parser, options)
    if (options.tree is None) == (options.vectors is None):
        parser.error("give --tree or --vectors")
    with TemporaryDirectory() as scratch:
        out = options.out or Path(scratch)
        rows = fit_vectors(options.vectors, out) if options.vectors else fit_tree(options, split, out)
    table = Table(tuple(rows[0]))
    for row in rows:
        table.add(*row.values())
    print_table(table, rows, as_json=options.json)


def fit_tree(options: Any, split: Split, out: Path) -> list[dict[str, Any]]:
    """Rows for the tree: greedy codes, and codes as they are fitted."""
    tree, rows = Tree(options.tree), []
    for name, rounds, beams in (("greedy", 0, 1), ("refined", codebooks.ROUNDS, codebooks.BEAMS)):
        fitted = fit_model(tree, options.encoder, out / name, workers=cores(), rounds=rounds, beams=beams)
        result = evaluate_model(
            tree,
            fitted.model.path,
            split=split,
            cache=pipeline.default_cache(),
            pools=("union",),
            systems=SYSTEMS,
        )
        hits = {system: 100 * result.evaluation.value(system, "union", "mean", "hit@5") for system in SYSTEMS}
        overlap = examine_unlabelled(tree, fitted.model, cache=pipeline.default_cache(), workers=cores())
        rows.append(_row(name, fitted.model, overlap, hits))
    return rows


def _row(name: str, model: Model, overlap: Overlap, hits: dict[str, float]) -> dict[str, Any]:
    dense, plain, reranked = (hits[system] for system in SYSTEMS)
    return {
        "codes": name,
        "query length": model.settings["quantizer"]["query_scale"],
        "exact, %": dense,
        "codes alone, %": plain,
        "re-ranked, %": reranked,
        "codes/exact": plain / dense,
        "re-ranked/exact": reranked / dense,
        "overlap of codes, %": 100 * mean_overlap(overlap.codes),
        "overlap re-ranked, %": 100 * mean_overlap(overlap.reranked),
    }


def fit_vectors(count: int, out: Path) -> list[dict[str, Any]]:
    """One row: seconds and memory for made-up vectors around two thousand centres."""
    took = seconds(lambda: fit_model(made_up(count), "precomputed", out / "vectors"))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    model = Model.open(out / "vectors")
    overlap = mean_overlap(model.settings["quantizer"]["overlap"])
    return [{"vectors": count, "seconds": took, "memory, GB": memory, "overlap of codes, %": 100 * overlap}]


def made_up(count: int) -> Iterator[Item]:
    """Items of vectors alone."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(2000, WIDTH)).astype(np.float32)
    for row in range(count):
        noise = random.normal(size=WIDTH).astype(np.float32)
        yield Item(str(row), vector=centres[random.integers(2000)] + 0.7 * noise)


if __name__ == "__main__":
    main()
