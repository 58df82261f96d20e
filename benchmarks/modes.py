"""What each mode finds in a benchmark's union pool: by torch, by ONNX Runtime in 32 and 8 bits, by geometry.

    python benchmarks/modes.py --tree TREE --model MODEL [--queries 100] [--json]
    python benchmarks/modes.py --tree TREE --model MODEL --split test --final

Hit rates @5 in percent, means of the tasks, the wanted modality known, a beam of 50: plainly where whole
codes are searched, and re-ranked as an index re-ranks; beside them how far that is from torch's mode `exact`
in single precision, which is what the others should find. Then the modes are checked query by query, in
single precision: what a mode has below its beams, the next one has too. Exits 1 if 8 bits or ONNX Runtime
are more than half a point away, or if something is missing from a later mode.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Field, K, add_split, check_split, hit, read_splits, show

from genius.corpus.coded import code_corpus
from genius.corpus.items import union_members
from genius.corpus.queries import TaskQueries
from genius.data.mbeir import Tree
from genius.decode.decoder import Decoder
from genius.display import Table
from genius.model import Model
from genius.search.beam import BEAMS, BeamResult
from genius.search.engine import Engine, Mode

MODES: tuple[Mode, ...] = ("paper", "exact", "safe", "fast", "scan")
PLAIN: tuple[Mode, ...] = ("paper", "exact")
MOST = 0.5
"""How many points a mode in 8 bits may be from the same mode by torch."""


def main() -> int:
    """Search in all modes with all decoders, print, and judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="with a learned decoder, or without")
    parser.add_argument("--queries", type=int, default=100, help="of each task, at most; 0 is all")
    add_split(parser)
    options = parser.parse_args()
    split = check_split(parser, options)
    tree, model = Tree(options.tree), Model.open(options.model)
    coded = code_corpus(model, read_splits(model, tree, (split, options.queries))[0])
    field = Field(model, coded, union_members(tree, coded.embedded.pool, split))
    rows: list[dict[str, Any]] = []
    missing = 0
    for name, decoder in decoders(options.model, model).items():
        engine = field.engine(decoder)
        rows += [
            {"decoder": name, "mode": mode, "split": split, **measure(field, engine, mode)} for mode in MODES
        ]
        if name in ("torch", "geometry"):
            missing += sum(left_out(field, engine, task) for task in field.tasks)
    table = Table(("decoder", "mode", "plain", "re-ranked", "beside torch, exact", "items"))
    exact = {row["decoder"]: row for row in rows if row["mode"] == "exact"}
    beside = exact.get("torch", exact["geometry"])
    for row in rows:
        row["apart"] = row["re-ranked"] - beside["re-ranked"]
        table.add(row["decoder"], row["mode"], row["plain"], row["re-ranked"], row["apart"], row["items"])
    show(table, rows, as_json=options.json)
    far = [row for row in rows if row["mode"] == "exact" and row["decoder"] != "geometry"]
    worst = max((abs(row["apart"]) for row in far), default=0.0)
    print(f"{'held' if worst <= MOST else 'MISSED':7} exact, furthest from torch: {worst:.2f} <= {MOST}")
    print(f"{'held' if not missing else 'MISSED':7} items that a later mode lacks: {missing}")
    return int(worst > MOST or missing > 0)


def decoders(path: Path, model: Model) -> dict[str, Decoder]:
    """By name; the learned one in all ways if there is one."""
    found: dict[str, Decoder] = {}
    if "decoder" in model.stages:
        found["torch"] = Model.open(path, device="cpu").learned
        found["fp32"], found["int8"] = model.learned, model.learned_decoder("int8")
    return {**found, "geometry": model.geometry}


def measure(field: Field, engine: Engine, mode: Mode) -> dict[str, float | None]:
    """The figures of a mode: means of the tasks."""
    plain: list[float] = []
    reranked: list[float] = []
    items: list[float] = []
    for task in field.tasks:
        vectors, modality_code = field.coded.queries[task.task], field.modality_code(task)
        candidates = engine.find(vectors, modality_code=modality_code, k=K, beams=BEAMS, mode=mode)
        scorer = engine.scorer(candidates, field.coded.embedded.queries[task.task].embeddings)
        queries = np.arange(len(task))
        if mode in PLAIN:
            result = engine.rank(candidates, scorer, K, plain=True)
            plain.append(hit(task, queries, result.item_keys))
        result = engine.rank(candidates, scorer, K, plain=False)
        reranked.append(hit(task, queries, result.item_keys))
        items.append(float(result.num_candidates.mean()))
    return {
        "plain": float(np.mean(plain)) if plain else None,
        "re-ranked": float(np.mean(reranked)),
        "items": float(np.mean(items)),
    }


def left_out(field: Field, engine: Engine, task: TaskQueries) -> int:
    """How many items a mode has below the beams of a query that the next mode lacks."""
    vectors, modality_code = field.coded.queries[task.task], field.modality_code(task)
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
    """The sorted rows below each query's prefixes, in one segment."""
    starts, ends = beams.starts[0], beams.ends[0]
    return [
        np.concatenate([np.zeros(0, np.int64), *map(np.arange, starts[own], ends[own])])
        for own in (slice(*pair) for pair in pairwise(beams.bounds))
    ]


if __name__ == "__main__":
    sys.exit(main())
