"""The recall of each search mode in the union pool, by torch, ONNX Runtime in 32 and 8 bits, and geometry.

    python benchmarks/modes.py --tree TREE --model MODEL [--queries 100] [--json]
    python benchmarks/modes.py --tree TREE --model MODEL --split test --final

Hit rates @5 in percent, means of the tasks, the wanted modality known, a beam of 50: plain where whole
codes are searched, and re-ranked as an index re-ranks. A column has the difference from torch's mode
`exact` in single precision, which the others should reach. Then the modes are compared query by query, in
single precision: all items below the beams of a mode should be below those of the next one. Exits 1 if the
mode `exact` by ONNX Runtime, in 32 or 8 bits, differs from torch by more than half a point, or if a mode
lacks items of the one before.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from figures import print_table, verdict_line
from options import add_sample_size, add_split, add_tree_and_model, check_split, script_parser
from union_pool import K, UnionPool, hit_percent

from genius.corpus.queries import TaskQueries
from genius.data.mbeir import Tree
from genius.decode.decoder import Decoder
from genius.display import Table
from genius.model import Model
from genius.search.beam import BEAMS, BeamResult
from genius.search.engine import Engine, Mode

MODES: tuple[Mode, ...] = ("paper", "exact", "safe", "fast", "scan")
PLAIN: tuple[Mode, ...] = ("paper", "exact")
MOST_DIFFERENCE = 0.5
"""Points by which ONNX Runtime may differ from torch in the mode `exact`."""


def main() -> int:
    """Search in all modes with all decoders and print; the exit code says whether the bars were held."""
    parser = script_parser(__doc__)
    add_tree_and_model(parser, "a trained model, with a learned decoder or without")
    add_sample_size(parser, 100)
    add_split(parser)
    options = parser.parse_args()
    split = check_split(parser, options)
    model = Model.open(options.model)
    pool = UnionPool.read(model, Tree(options.tree), split, options.queries)
    rows: list[dict[str, Any]] = []
    missing = 0
    for name, decoder in decoders(options.model, model).items():
        engine = pool.engine(decoder)
        rows += [
            {"decoder": name, "mode": mode, "split": split, **measure(pool, engine, mode)} for mode in MODES
        ]
        if name in ("torch", "geometry"):
            missing += sum(count_missing(pool, engine, task) for task in pool.tasks)
    table = Table(("decoder", "mode", "plain", "re-ranked", "beside torch, exact", "items"))
    exact = {row["decoder"]: row for row in rows if row["mode"] == "exact"}
    reference = exact.get("torch", exact["geometry"])
    for row in rows:
        row["apart"] = row["re-ranked"] - reference["re-ranked"]
        table.add(row["decoder"], row["mode"], row["plain"], row["re-ranked"], row["apart"], row["items"])
    print_table(table, rows, as_json=options.json)
    differences = [abs(row["apart"]) for row in exact.values() if row["decoder"] != "geometry"]
    worst = max(differences, default=0.0)
    sentence = f"exact, furthest from torch: {worst:.2f} <= {MOST_DIFFERENCE}"
    print(verdict_line(sentence, worst <= MOST_DIFFERENCE))
    print(verdict_line(f"items that a later mode lacks: {missing}", not missing))
    return int(worst > MOST_DIFFERENCE or missing > 0)


def decoders(path: Path, model: Model) -> dict[str, Decoder]:
    """Geometry, and the learned decoder in all its forms if the model has one."""
    learned: dict[str, Decoder] = {}
    if "decoder" in model.stages:
        learned["torch"] = Model.open(path, device="cpu").learned
        learned["fp32"], learned["int8"] = model.learned, model.learned_decoder("int8")
    return {**learned, "geometry": model.geometry}


def measure(pool: UnionPool, engine: Engine, mode: Mode) -> dict[str, float | None]:
    """The figures of a mode: means of the tasks."""
    plain: list[float] = []
    reranked: list[float] = []
    items: list[float] = []
    for task in pool.tasks:
        vectors, modality_code = pool.coded.queries[task.task], pool.modality_code(task)
        candidates = engine.find(vectors, modality_code=modality_code, k=K, beams=BEAMS, mode=mode)
        scorer = pool.scorer(engine, candidates, task)
        queries = np.arange(len(task))
        if mode in PLAIN:
            result = engine.rank(candidates, scorer, K, plain=True)
            plain.append(hit_percent(task, queries, result.item_keys))
        result = engine.rank(candidates, scorer, K, plain=False)
        reranked.append(hit_percent(task, queries, result.item_keys))
        items.append(float(result.num_candidates.mean()))
    return {
        "plain": float(np.mean(plain)) if plain else None,
        "re-ranked": float(np.mean(reranked)),
        "items": float(np.mean(items)),
    }


def count_missing(pool: UnionPool, engine: Engine, task: TaskQueries) -> int:
    """The number of items below the beams of a query in one mode that are not in the next mode."""
    vectors, modality_code = pool.coded.queries[task.task], pool.modality_code(task)
    rows = [
        rows_below(engine.find(vectors, modality_code=modality_code, beams=BEAMS, mode=mode).beams)
        for mode in MODES
    ]
    return sum(
        len(np.setdiff1d(fewer, more))
        for earlier, later in pairwise(rows)
        for fewer, more in zip(earlier, later, strict=True)
    )


def rows_below(beams: BeamResult) -> Sequence[np.ndarray]:
    """The sorted rows below the prefixes of each query, in the only segment."""
    starts, ends = beams.starts[0], beams.ends[0]
    return [
        np.concatenate([np.zeros(0, np.int64), *map(np.arange, starts[own], ends[own])])
        for own in (slice(*pair) for pair in pairwise(beams.bounds))
    ]


if __name__ == "__main__":
    sys.exit(main())
