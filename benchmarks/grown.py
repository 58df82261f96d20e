"""An index of which a fifth was added live, beside one that was made at once: what it finds, and how fast.

    python benchmarks/grown.py --tree TREE --model MODEL [--queries 100] [--calls 20] [--json]
    python benchmarks/grown.py --tree TREE --model MODEL --split test --final

All items of a tree are put into one index at a stroke. In another one a fifth of them, drawn at random, is
added afterwards in --calls calls, and some are removed and added again in between. Then queries whose answers
are all among the fifth are searched in both: hit rate @5 in percent, and the time of the second over that of
the first, in turns, medians. Both once more after `compact`, when the two should be the same. Exits 1 if the
grown index finds less by more than half a point or takes more than 1.2 times as long, or if it differs after
`compact`.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measuring import add_split, check_split, show

from genius import Index, Item, Query
from genius.data.mbeir import Split, Tree
from genius.display import Table
from genius.encode.pipeline import default_cache
from genius.model import Model

SHARE = 0.2
MOST_LOST, MOST_TIME = 0.5, 1.2
K = 5


def main() -> int:
    """Make both indexes, search them, compact, search again."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--queries", type=int, default=100, help="of each task, at most")
    parser.add_argument("--calls", type=int, default=20, help="in which the fifth is added")
    parser.add_argument("--rounds", type=int, default=5, help="of searching all queries in turns")
    add_split(parser)
    options = parser.parse_args()
    split = check_split(parser, options)
    tree, model = Tree(options.tree), Model.open(options.model)
    chance = random.Random(0)
    later = {item.id for item in tree if chance.random() < SHARE}
    asked = questions(tree, split, later, options.queries)
    with (
        tempfile.TemporaryDirectory(prefix="genius-bench-") as scratch,
        Index.create(Path(scratch, "made"), model) as made,
        Index.create(Path(scratch, "grown"), model) as grown,
    ):
        made.add(tree, cache=default_cache())
        grow(grown, tree, later, options.calls)
        rows = [{"index": "grown", **compare(made, grown, asked, options.rounds)}]
        grown.compact()
        rows.append({"index": "compacted", **compare(made, grown, asked, options.rounds)})
    table = Table(tuple(rows[0]))
    for row in rows:
        table.add(*row.values())
    show(table, rows, as_json=options.json)
    first, last = rows
    held = first["made, hit@5"] - first["hit@5"] <= MOST_LOST and first["time"] <= MOST_TIME
    return int(not (held and last["same hits, %"] == 100))


def questions(tree: Tree, split: Split, later: set[str], most: int) -> list[tuple[Query, set[str]]]:
    """Queries all of whose answers are added later, with these; of each task up to so many."""
    found: list[tuple[Query, set[str]]] = []
    for task in tree.tasks(split):
        mine = [
            (query, set(query.positives))
            for query in tree.queries(split, task)
            if query.positives and set(query.positives) <= later
        ]
        found += mine[:most]
    return found


def grow(index: Index, tree: Tree, later: set[str], calls: int) -> None:
    """Add what is there at first, then the rest in calls; some items go and come back in between."""
    index.add([item for item in tree if item.id not in later], cache=default_cache())
    rest: list[Item] = [item for item in tree if item.id in later]
    for call in range(calls):
        some = rest[call::calls]
        index.add(some, cache=default_cache())
        index.remove([item.id for item in some[:3]])
        index.add(some[:3], cache=default_cache())


def compare(
    made: Index, grown: Index, asked: Sequence[tuple[Query, set[str]]], rounds: int
) -> dict[str, Any]:
    """What both find, how often it is the same, and how long the second takes over the first."""
    queries = [query for query, _ in asked]
    found = [index.search_many(queries, k=K) for index in (made, grown)]
    ids = [[[hit.item.id for hit in hits] for hits in some] for some in found]
    answers = [known for _, known in asked]
    rates = [
        100 * statistics.mean(bool(known & set(hits)) for known, hits in zip(answers, each, strict=True))
        for each in ids
    ]
    # Of equal items the one that was added first comes first: so what has to be the same are the scores.
    scores = [[[hit.score for hit in hits] for hits in some] for some in found]
    same = 100 * statistics.mean(alike(one, other) for one, other in zip(*scores, strict=True))
    ratios = []
    for _ in range(rounds):
        times = [seconds(index, queries) for index in (made, grown)]
        ratios.append(times[1] / times[0])
    return {
        "queries": len(queries),
        "made, hit@5": rates[0],
        "hit@5": rates[1],
        "same hits, %": same,
        "time": statistics.median(ratios),
    }


def alike(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two lists of scores are the same but for rounding."""
    return len(one) == len(other) and all(abs(a - b) < 1e-3 for a, b in zip(one, other, strict=True))


def seconds(index: Index, queries: Sequence[Query]) -> float:
    """Of searching, embedding included, one query after another."""
    start = time.perf_counter()
    for query in queries[:50]:
        index.search(query, k=K, mode="fast")
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
