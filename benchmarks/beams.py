"""How many beams a search needs: hit rate @5 for beams of 1 to 50, by geometry and by the learned decoder.

    python benchmarks/beams.py --tree TREE --model MODEL [--queries 500] [--beams 1 5 10 20 30 50] [--json]
    python benchmarks/beams.py --tree TREE --model MODEL --split test --final

Means of the tasks in the union pool, the wanted modality known. Results are ranked plainly, by the
log-probability of their codes, and with all items below the beams re-ranked: for a search that stops after
the first semantic code, after the second, and at the end. Under each hit rate stands the number of items
below the beams. A second table has, for each ranking, the smallest beam that reaches 0.99 of the dense
baseline on the same queries. Figures are kept in --work and not measured again. Any model serves, one with
identifiers of a rival too, whose learned decoder is then the only one; systems.py has its models in
out/systems/models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from figures import FigureFile, print_table
from options import add_sample_size, add_split, add_tree_and_model, check_split, script_parser
from union_pool import UnionPool, hit_percent

from genius.data.mbeir import Split, Tree
from genius.decode.decoder import Decoder
from genius.display import Table
from genius.identifiers.scheme import row_name
from genius.model import Model

BEAMS = (1, 5, 10, 20, 30, 50)
SHARE = 0.99
DENSE_BASELINE = "dense-fair"


def main() -> None:
    """Measure what is not kept yet, and print."""
    parser = script_parser(__doc__)
    add_tree_and_model(parser)
    parser.add_argument("--beams", type=int, nargs="+", default=list(BEAMS))
    add_sample_size(parser, 500)
    parser.add_argument("--work", type=Path, default=Path("out/beams"), help="where figures are kept")
    add_split(parser)
    options = parser.parse_args()
    split = check_split(parser, options)
    model = Model.open(options.model)
    kept = FigureFile(options.work / f"{model.fingerprint[:12]}-{split}-{options.queries}.jsonl")
    measure_missing(kept, model, Tree(options.tree), split, options.queries, options.beams)
    dense_baseline = kept[DENSE_BASELINE]["hit"]
    rows = [
        {"decoder": name, "beams": beams, "ranking": ranking, "split": split, **figures}
        for name in decoders(model)
        for beams in options.beams
        for ranking, figures in kept[key(name, beams)].items()
    ]
    table, least = tables(rows, options.beams, dense_baseline)
    dense_row = {"decoder": DENSE_BASELINE, "split": split, "hit": dense_baseline}
    print_table(table, [dense_row, *rows], as_json=options.json)
    print_table(least, [], as_json=False)


def measure_missing(
    kept: FigureFile, model: Model, tree: Tree, split: Split, queries: int, beams: list[int]
) -> None:
    """Measure the dense baseline and every search that is not kept."""
    searches = [
        (name, decoder, count)
        for name, decoder in decoders(model).items()
        for count in beams
        if key(name, count) not in kept
    ]
    if not searches and DENSE_BASELINE in kept:
        return
    pool = UnionPool.read(model, tree, split, queries)
    kept[DENSE_BASELINE] = {"hit": pool.dense_baseline}
    for name, decoder, count in searches:
        kept[key(name, count)] = measure(pool, decoder, count)


def key(decoder: str, beams: int) -> str:
    """The name under which the figures of a search are kept."""
    return f"{decoder} {beams}"


def decoders(model: Model) -> dict[str, Decoder]:
    """Geometry where codes have vectors, and the learned decoder if the model has one."""
    geometry: dict[str, Decoder] = {"geometry": model.geometry} if model.has_code_vectors else {}
    if "decoder" not in model.stages:
        return geometry
    name = model.identifier_name
    return {**geometry, "genius" if name == "codes" else row_name(name): model.learned}


def measure(pool: UnionPool, decoder: Decoder, beams: int) -> dict[str, dict[str, float]]:
    """Hit rates and items below the beams, by ranking; each query is searched once for all of them."""
    first, last = pool.model.code_space.semantic + 1, len(pool.model.code_space.sizes)
    depths = {f"stop at level {depth}": depth for depth in (first, first + 1) if depth < last}
    depths["to the end"] = last
    hits: dict[str, list[float]] = {}
    items: dict[str, list[float]] = {}

    def add(ranking: str, hit: float, candidates: float) -> None:
        hits.setdefault(ranking, []).append(hit)
        items.setdefault(ranking, []).append(candidates)

    for task in pool.tasks:
        queries, trace = np.arange(len(task)), pool.search(decoder, task, beams)
        add("plain", hit_percent(task, queries, trace.plain()), trace.num_candidates)
        for name, depth in depths.items():
            stopped = trace.stopped(depth)
            hit = hit_percent(task, queries, stopped.reranked())
            add(f"re-ranked, {name}", hit, stopped.num_candidates)
    return {
        name: {"hit": float(np.mean(values)), "items": float(np.mean(items[name]))}
        for name, values in hits.items()
    }


def tables(rows: list[dict[str, Any]], beams: list[int], dense_baseline: float) -> tuple[Table, Table]:
    """All figures, and the smallest sufficient beam of each decoder and ranking."""
    table = Table(("decoder", "ranking", "figure", *(f"B = {count}" for count in beams)))
    least = Table(
        ("decoder", "ranking", f"smallest beam with {SHARE} of the dense baseline ({dense_baseline:.2f})")
    )
    for name, ranking in dict.fromkeys((row["decoder"], row["ranking"]) for row in rows):
        same = [row for row in rows if (row["decoder"], row["ranking"]) == (name, ranking)]
        table.add(name, ranking, "hit@5", *(row["hit"] for row in same))
        table.add(name, ranking, "items", *(row["items"] for row in same))
        enough = [row["beams"] for row in same if row["hit"] >= SHARE * dense_baseline]
        least.add(name, ranking, min(enough, default=None))
    return table, least


if __name__ == "__main__":
    main()
