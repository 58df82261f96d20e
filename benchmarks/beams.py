"""How many beams a search needs: hit rate @5 for beams of 1 to 50, by geometry and by the learned decoder.

    python benchmarks/beams.py --tree TREE --model MODEL [--queries 500] [--beams 1 5 10 20 30 50] [--json]
    python benchmarks/beams.py --tree TREE --model MODEL --split test --final

Mean of the tasks in the union pool, the wanted modality known: plain, and with everything below the beams
re-ranked when the search stops after the first semantic code, after the second, and at the end; below each
how many items were below the beams. Then, for each, the smallest beam that reaches 0.99 of the dense baseline
on the same queries. Everything is embedded once; what is measured is kept in --work and not measured again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from measuring import Field, Kept, add_split, check_split, hit, read_splits, show

from genius.corpus.coded import code_corpus
from genius.corpus.items import union_members
from genius.data.mbeir import Tree
from genius.decode.decoder import Decoder
from genius.display import Table
from genius.model import Model

BEAMS = (1, 5, 10, 20, 30, 50)
SHARE = 0.99


def main() -> None:
    """Measure what is not measured yet, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--beams", type=int, nargs="+", default=list(BEAMS))
    parser.add_argument("--queries", type=int, default=500, help="of each task, at most; 0 is all")
    parser.add_argument("--work", type=Path, default=Path("out/beams"))
    add_split(parser)
    options = parser.parse_args()
    split = check_split(parser, options)
    tree, model = Tree(options.tree), Model.open(options.model)
    kept = Kept(options.work / f"{model.fingerprint[:12]}-{split}-{options.queries}.jsonl")
    searches = {(name, beams): one for name, one in decoders(model).items() for beams in options.beams}
    missing = [search for search in searches if key(*search) not in kept]
    if missing or "fair" not in kept:
        coded = code_corpus(model, read_splits(model, tree, (split, options.queries))[0])
        field = Field(model, coded, union_members(tree, coded.embedded.pool, split))
        kept["fair"] = {"hit": field.dense_baseline}
        for search in missing:
            kept[key(*search)] = measure(field, searches[search], search[1])
    dense_baseline = kept["fair"]["hit"]
    rows = [
        {"decoder": name, "beams": beams, "ranking": ranking, "split": split, **figures}
        for name, beams in searches
        for ranking, figures in kept[key(name, beams)].items()
    ]
    table = Table(("decoder", "ranking", "figure", *(f"B = {beams}" for beams in options.beams)))
    least = Table(("decoder", "ranking", f"smallest beam with {SHARE} of fair dense ({dense_baseline:.2f})"))
    for name, ranking in dict.fromkeys((row["decoder"], row["ranking"]) for row in rows):
        mine = [row for row in rows if (row["decoder"], row["ranking"]) == (name, ranking)]
        table.add(name, ranking, "hit@5", *(row["hit"] for row in mine))
        table.add(name, ranking, "items", *(row["items"] for row in mine))
        reached = [row["beams"] for row in mine if row["hit"] >= SHARE * dense_baseline]
        least.add(name, ranking, min(reached, default=None))
    show(
        table, [{"decoder": "dense-fair", "split": split, "hit": dense_baseline}, *rows], as_json=options.json
    )
    show(least, [], as_json=False)


def key(decoder: str, beams: int) -> str:
    """Under what the figures of a search are kept."""
    return f"{decoder} {beams}"


def decoders(model: Model) -> dict[str, Decoder]:
    """Geometry, and the learned decoder if there is one."""
    found: dict[str, Decoder] = {"geometry": model.geometry}
    if "decoder" in model.stages:
        found["genius"] = model.learned
    return found


def measure(field: Field, decoder: Decoder, beams: int) -> dict[str, dict[str, float]]:
    """Hit rates and items below the beams, by ranking; one search of each query serves all of them."""
    first, last = field.model.quantizer.semantic + 1, len(field.model.quantizer.sizes)
    depths = {f"stop at level {depth}": depth for depth in (first, first + 1) if depth < last}
    depths["to the end"] = last
    hits: dict[str, list[float]] = {}
    items: dict[str, list[float]] = {}

    def add(ranking: str, hit_rate: float, candidates: float) -> None:
        hits.setdefault(ranking, []).append(hit_rate)
        items.setdefault(ranking, []).append(candidates)

    for task in field.tasks:
        queries, searched = np.arange(len(task)), field.search(decoder, task, beams)
        add("plain", hit(task, queries, searched.plain()), searched.num_candidates)
        for name, depth in depths.items():
            early = searched.stopped(depth)
            add(f"re-ranked, {name}", hit(task, queries, early.reranked()), early.num_candidates)
    return {
        name: {"hit": float(np.mean(values)), "items": float(np.mean(items[name]))}
        for name, values in hits.items()
    }


if __name__ == "__main__":
    main()
