"""Composed queries: weighted and negative parts beside the plain query.

    python benchmarks/composed.py --emoji [--index INDEX] [--json]
    python benchmarks/composed.py --tree TREE --model MODEL [--queries 500] [--json]
    python benchmarks/composed.py --tree TREE --model MODEL --split test --final

With --emoji, the fifty queries of composed_queries.toml, over the pictures of `genius demo` (fetched by it)
and the model that ships: what is added and taken away as parts of their own, beside the same in one sentence
("heart, not red"), and beside the first part alone. `found` is the mean share of the expected emoji among the
first ten (of at most ten), `first` the mean reciprocal rank of the first of them. INDEX is where the index is
made, or is already (default: out/demo/index, as `genius demo` makes it).

With --tree, the tasks 7 and 8 (a picture and a change): the plain joint query, and mixtures of it with its
text or its picture alone, as the slider of the page makes them. Hit rates @10 in percent.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from figures import print_table
from options import ROOT, add_sample_size, add_split, check_split, script_parser

from genius import Index, Query
from genius.data.mbeir import Split, Tree
from genius.data.records import ImageSource
from genius.data.tasks import Task
from genius.demo.corpus import demo_tree
from genius.demo.index import open_index
from genius.demo.showcase import showcase_items
from genius.display import Table
from genius.model import Model
from genius.runtime import cores

LIST = Path(__file__).with_name("composed_queries.toml")
TOP = 10
TASKS = (7, 8)
LEANS = (-0.4, -0.2, 0.0, 0.2, 0.4)
"""From the picture alone (-1) over the joint query (0) to the words alone (1)."""


def main() -> None:
    """Search and print."""
    parser = script_parser(__doc__)
    parser.add_argument("--emoji", action="store_true", help="the list of fifty, over the demo's emoji")
    parser.add_argument("--index", type=Path, default=ROOT / "out" / "demo" / "index")
    parser.add_argument("--tree", type=Path, help="a benchmark in M-BEIR's layout")
    parser.add_argument("--model", type=Path, help="a trained model")
    parser.add_argument("--workers", type=int, default=0, help="processes that encode (default: all cores)")
    add_sample_size(parser, 500)
    add_split(parser)
    options = parser.parse_args()
    split = check_split(parser, options)
    if options.emoji == (options.tree is not None):
        parser.error("give --emoji, or --tree and --model")
    if options.emoji:
        print_emoji(options)
    elif options.model is None:
        parser.error("--tree needs --model")
    else:
        print_tasks(options, split)


# --- the list of fifty


@dataclass(frozen=True)
class ComposedQuery:
    """A query of the list: a text or the name of an emoji, parts, and the names of what answers it."""

    text: str | None
    image: str | None
    plus: tuple[str, ...]
    minus: tuple[str, ...]
    expected: frozenset[str]

    @classmethod
    def read(cls, fields: dict[str, Any]) -> ComposedQuery:
        """From the file."""
        plus, minus = tuple(fields.get("plus", ())), tuple(fields.get("minus", ()))
        return cls(fields.get("text"), fields.get("image"), plus, minus, frozenset(fields["expected"]))

    def composed(self, images: dict[str, ImageSource], minus: float) -> Query:
        """The query with its parts; what is taken away counts `minus`."""
        query = self.alone(images)
        for text in self.plus:
            query = query.plus(text)
        for text in self.minus:
            query = query.minus(text, minus)
        return query

    def alone(self, images: dict[str, ImageSource]) -> Query:
        """Its first part."""
        return Query(self.text, None if self.image is None else images[self.image])

    def sentence(self, images: dict[str, ImageSource]) -> Query:
        """All of it in one sentence."""
        words = ", ".join(
            [*([self.text] if self.text else []), *self.plus, *(f"not {m}" for m in self.minus)]
        )
        return replace(self.alone(images), text=words)


def read_list(path: Path = LIST) -> list[ComposedQuery]:
    """The queries of the list."""
    return [ComposedQuery.read(fields) for fields in tomllib.loads(path.read_text("utf-8"))["query"]]


def print_emoji(options: argparse.Namespace) -> None:
    """Score the list in each way to ask."""
    tree, model = Tree(demo_tree()), Model.open()
    model.prepare()
    queries = read_list()
    with open_index(options.index, model) as index:
        items = showcase_items(tree)
        index.add(items, workers=options.workers or cores())
        images = {str(item.metadata["name"]): item.image for item in items if item.image is not None}
        ways = {
            "first part alone": [query.alone(images) for query in queries],
            "one sentence": [query.sentence(images) for query in queries],
            **{
                f"parts, minus {weight:g}": [query.composed(images, weight) for query in queries]
                for weight in (0.3, 0.5, 1.0)
            },
        }
        rows = [{"query": name, **score(index, queries, searches)} for name, searches in ways.items()]
    table = Table(("query", "found", "first"))
    for row in rows:
        table.add(row["query"], f"{row['found']:.1f}", f"{row['first']:.3f}")
    print_table(table, rows, as_json=options.json)


def score(index: Index, queries: Sequence[ComposedQuery], searches: Sequence[Query]) -> dict[str, Any]:
    """How well searches find what queries expect."""
    shares, first = [], []
    for query, search in zip(queries, searches, strict=True):
        # the picture that one asks by is no answer
        hits = [hit for hit in index.search(search, k=TOP + 1) if hit.item.metadata["name"] != query.image]
        right = [hit.item.metadata["name"] in query.expected for hit in hits[:TOP]]
        shares.append(sum(right) / min(TOP, len(query.expected)))
        first.append(1 / (1 + right.index(True)) if any(right) else 0.0)
    count = len(shares)
    return {"found": 100 * sum(shares) / count, "first": sum(first) / count, "queries": count}


# --- the tasks with a picture and a change


def print_tasks(options: argparse.Namespace, split: Split) -> None:
    """Hit rates of the joint query and of its mixtures with one of its parts."""
    tree, model = Tree(options.tree), Model.open(options.model)
    tasks = [task for task in tree.tasks(split) if task.number in TASKS]
    rows: list[dict[str, Any]] = []
    for task in tasks:
        queries = list(tree.queries(split, task))
        queries = queries[: options.queries] if options.queries else queries
        with tempfile.TemporaryDirectory() as folder, Index.create(f"{folder}/index", model) as index:
            index.add(tree.pool(task, split), workers=options.workers or cores())
            rows += [
                {"task": str(task), "lean": lean, **hit_rate(index, task, queries, lean)} for lean in LEANS
            ]
    table = Table(("task", *(f"{lean:+g}" if lean else "joint" for lean in LEANS)))
    for name in dict.fromkeys(row["task"] for row in rows):
        table.add(name, *(f"{row['hit@10']:.1f}" for row in rows if row["task"] == name))
    print_table(table, rows, as_json=options.json)
    if not tasks:
        print(f"the tree has no tasks {' or '.join(map(str, TASKS))}", file=sys.stderr)


def mixed(query: Query, lean: float) -> Query:
    """The joint query, with its text (lean > 0) or its picture (lean < 0) once more by itself."""
    if not lean:
        return query
    joint = replace(query, weight=1 - abs(lean))
    return joint.plus(query.text, lean) if lean > 0 else joint.plus(image=query.image, weight=-lean)


def hit_rate(index: Index, task: Task, queries: Sequence[Query], lean: float) -> dict[str, Any]:
    """The percentage of queries with an answer among the first ten."""
    results = index.search_many([mixed(query, lean) for query in queries], only=task.target, k=TOP)
    right = [
        any(hit.item.id in query.positives for hit in hits)
        for query, hits in zip(queries, results, strict=True)
    ]
    return {"hit@10": 100 * sum(right) / max(1, len(right)), "queries": len(right)}


if __name__ == "__main__":
    main()
