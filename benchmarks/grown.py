"""An index of which a fifth was added live, compared with one that was made in one call: recall and speed.

    python benchmarks/grown.py --tree TREE --model MODEL [--queries 100] [--calls 20] [--json]
    python benchmarks/grown.py --tree TREE --model MODEL --split test --final

One index gets all items of a tree in one call. The other one gets a random fifth of them later, in --calls
calls, and some items are removed and added again in between. Then both are searched by queries whose
answers are all in that fifth: hit rate @5 in percent, and the time of the second over that of the first,
medians of runs in turns. Both are searched again after `compact`, when they should return the same. Exits 1
if the hit rate of the grown index is lower by more than half a point, if it takes more than 1.2 times as
long, or if it differs after `compact`.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from figures import print_table, seconds
from options import add_split, add_tree_and_model, check_split, script_parser

from genius import Index, Item, Query
from genius.data.mbeir import Split, Tree
from genius.display import Table
from genius.encode.pipeline import default_cache
from genius.model import Model

SHARE = 0.2
MOST_LOST, MOST_TIME = 0.5, 1.2
K = 5
TIMED_QUERIES = 50


def main() -> int:
    """Make both indexes, search them, compact the grown one, and search again."""
    parser = script_parser(__doc__)
    add_tree_and_model(parser)
    parser.add_argument("--queries", type=int, default=100, help="of each task, at most (default: 100)")
    parser.add_argument("--calls", type=int, default=20, help="in which the fifth is added (default: 20)")
    parser.add_argument("--rounds", type=int, default=5, help="of timed searches (default: 5)")
    add_split(parser)
    options = parser.parse_args()
    split = check_split(parser, options)
    tree, model = Tree(options.tree), Model.open(options.model)
    generator = random.Random(0)
    later = {item.id for item in tree if generator.random() < SHARE}
    queries = queries_for(tree, split, later, options.queries)
    with (
        tempfile.TemporaryDirectory(prefix="genius-bench-") as scratch,
        Index.create(Path(scratch, "made"), model) as made,
        Index.create(Path(scratch, "grown"), model) as grown,
    ):
        made.add(tree, cache=default_cache())
        grow(grown, tree, later, options.calls)
        rows = [{"index": "grown", **compare(made, grown, queries, options.rounds)}]
        grown.compact()
        rows.append({"index": "compacted", **compare(made, grown, queries, options.rounds)})
    table = Table(tuple(rows[0]))
    for row in rows:
        table.add(*row.values())
    print_table(table, rows, as_json=options.json)
    first, last = rows
    held = first["made, hit@5"] - first["hit@5"] <= MOST_LOST and first["time"] <= MOST_TIME
    return int(not (held and last["same hits, %"] == 100))


def queries_for(tree: Tree, split: Split, later: set[str], limit: int) -> list[Query]:
    """Queries all of whose answers are added later: at most `limit` of each task."""
    queries: list[Query] = []
    for task in tree.tasks(split):
        answered = [
            query for query in tree.queries(split, task) if query.positives and set(query.positives) <= later
        ]
        queries += answered[:limit]
    return queries


def grow(index: Index, tree: Tree, later: set[str], calls: int) -> None:
    """Add four fifths of the items at once, the rest in calls; three of each call are removed and added again."""
    index.add([item for item in tree if item.id not in later], cache=default_cache())
    rest: list[Item] = [item for item in tree if item.id in later]
    for call in range(calls):
        items = rest[call::calls]
        index.add(items, cache=default_cache())
        index.remove([item.id for item in items[:3]])
        index.add(items[:3], cache=default_cache())


def compare(made: Index, grown: Index, queries: Sequence[Query], rounds: int) -> dict[str, Any]:
    """The hit rates of both, how often their scores are equal, and the time of the second over the first."""
    results = [index.search_many(queries, k=K) for index in (made, grown)]
    rates = [
        100
        * statistics.mean(
            any(hit.item.id in query.positives for hit in hits)
            for query, hits in zip(queries, all_hits, strict=True)
        )
        for all_hits in results
    ]
    # Of equal items the one that was added first comes first, so scores are compared instead of ids.
    scores = [[[hit.score for hit in hits] for hits in all_hits] for all_hits in results]
    same = 100 * statistics.mean(alike(first, second) for first, second in zip(*scores, strict=True))
    ratios = []
    for _ in range(rounds):
        times = [seconds(partial(search_each, index, queries)) for index in (made, grown)]
        ratios.append(times[1] / times[0])
    return {
        "queries": len(queries),
        "made, hit@5": rates[0],
        "hit@5": rates[1],
        "same hits, %": same,
        "time": statistics.median(ratios),
    }


def alike(scores: Sequence[float], others: Sequence[float]) -> bool:
    """Whether two lists of scores are equal except for rounding."""
    return len(scores) == len(others) and all(abs(a - b) < 1e-3 for a, b in zip(scores, others, strict=True))


def search_each(index: Index, queries: Sequence[Query]) -> None:
    """Search queries one after another, embedding included."""
    for query in queries[:TIMED_QUERIES]:
        index.search(query, k=K, mode="fast")


if __name__ == "__main__":
    sys.exit(main())
