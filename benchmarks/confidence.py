"""Confidence: what `--at-least` keeps of answers, and how often it says that nothing matches.

    python benchmarks/confidence.py --tree TREE --model MODEL [--queries 300] [--json]
    python benchmarks/confidence.py --tree TREE --model MODEL --split test --final [--plot reliability.png]

Each data set of the tree is a collection by itself: its pool of a task, text → image (0), image → text (3)
and image → image (4). Half of the queries are the task's own, the others are about what the collection does
not hold: texts or images of the other data sets (of queries, or of items where no query has any). The rows:
of the answers that were among the first ten, how many are as sure as `likely` and `sure` ask for (kept); of
the queries without an answer, how many get nothing. Beside it the task's own queries whose answers are left
out of the collection, most of which have another item that would do; and what one threshold on the cosine
reaches, the same for all collections, chosen so that it keeps 90 % of all answers of this very split. The
second table says how often queries without an answer reach a confidence, which should be its complement. In
percent.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from figures import print_table
from options import add_sample_size, add_split, add_tree_and_model, check_split, script_parser

from genius import Hits, Index, Query
from genius.data.mbeir import Split, Tree
from genius.data.records import Modality
from genius.data.tasks import Task
from genius.display import Table
from genius.index.confidence import LEVELS
from genius.model import Model
from genius.runtime import cores

TASKS = (0, 3, 4)
TOP = 10
KEPT = 0.9
"""Of all answers, what the threshold on the cosine keeps."""
RELIABILITY = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)


def main() -> None:
    """Search and print."""
    parser = script_parser(__doc__)
    add_tree_and_model(parser)
    parser.add_argument("--workers", type=int, default=0, help="processes that encode (default: all cores)")
    add_sample_size(parser, 300)
    add_split(parser)
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the second table")
    parser.add_argument("--dataset", help="only the collections of this data set; queries of all the others")
    options = parser.parse_args()
    split, tree = check_split(parser, options), Tree(options.tree)
    most, model = options.queries or None, Model.open(options.model)
    measured = [
        measure(tree, model, split, task, most, options.workers or cores())
        for task in tree.tasks(split)
        if task.number in TASKS and options.dataset in (None, task.dataset)
    ]
    measured = [part for part in measured if part.answers and part.nothing]
    if not measured:
        parser.error("the tree has no two data sets with tasks 0, 3 or 4")
    print_rows(measured, as_json=options.json)
    rows = print_reliability(measured, as_json=options.json)
    if options.plot:
        plot_reliability(rows, options.plot)


@dataclass
class Measured:
    """What a collection's searches came to: confidence and cosine of answers among the first ten, and of the
    best hits of queries without an answer and of queries whose answers were left out."""

    task: Task
    items: int = 0
    answers: list[tuple[float, float]] = field(default_factory=list)
    nothing: list[tuple[float, float]] = field(default_factory=list)
    left_out: list[tuple[float, float]] = field(default_factory=list)


def measure(tree: Tree, model: Model, split: Split, task: Task, most: int | None, workers: int) -> Measured:
    """Index a task's pool, and search it with its own queries and with those of the other data sets."""
    queries = [bare(query) for query in islice(tree.queries(split, task), most)]
    others = foreign_queries(tree, split, task, len(queries))
    result = Measured(task)
    with tempfile.TemporaryDirectory() as folder, Index.create(Path(folder, "index"), model) as index:
        index.add(tree.pool(task, split), workers=workers)
        result.items, only = len(index), task.target
        for query, hits in zip(queries, index.search_many(queries, only=only, k=TOP), strict=True):
            result.answers += [
                (hit.confidence, hit.cosine) for hit in hits if hit.item.id in query.positives
            ][:1]
        for query in queries:
            result.left_out += best(index.search(query, only=only, k=1, exclude=query.positives))
        for hits in index.search_many(others, only=only, k=1):
            result.nothing += best(hits)
    return result


def best(hits: Hits) -> list[tuple[float, float]]:
    """Confidence and cosine of the best hit, if there is one."""
    return [(hit.confidence, hit.cosine) for hit in hits[:1]]


def bare(query: Query) -> Query:
    """Without its instruction, as a user searches."""
    return Query(query.text, query.image, positives=query.positives, id=query.id)


def foreign_queries(tree: Tree, split: Split, task: Task, count: int) -> list[Query]:
    """As many queries of the same modality about what the task's data set does not hold, of each other data
    set equally many."""
    by_dataset = {
        dataset: list(islice(_contents(tree, split, dataset, task.query), count))
        for dataset in dict.fromkeys(other.dataset for other in tree.tasks(split))
        if dataset != task.dataset
    }
    filled = [queries for queries in by_dataset.values() if queries]
    each = -(-count // max(1, len(filled)))
    return [query for queries in filled for query in queries[:each]][:count]


def _contents(tree: Tree, split: Split, dataset: str, modality: Modality) -> Iterator[Query]:
    """The texts or the images of a data set's queries, or else of its items; each once."""
    tasks = [task for task in tree.tasks(split) if task.dataset == dataset]
    seen: set[str] = set()
    records = [query for task in tasks if task.query is modality for query in tree.queries(split, task)]
    if not records and modality is Modality.IMAGE:
        records = [query for task in tasks for query in tree.queries(split, task)]
    items = (item for task in tasks for item in tree.pool(task, split)) if not records else ()
    for record in (*records, *items):
        content = Query(record.text) if modality is Modality.TEXT and record.text else None
        if modality is Modality.IMAGE and record.image is not None:
            content = Query(image=record.image)
        name = content and (content.text or (content.image.name if content.image else ""))
        if content is not None and name and name not in seen:
            seen.add(name)
            yield content


# --- printing


def share(pairs: Sequence[tuple[float, float]], least: float, *, by_cosine: bool = False) -> float:
    """The percentage that reaches a confidence, or a cosine."""
    values = np.array(pairs)[:, int(by_cosine)]
    return 100 * float((values >= least).mean())


def print_rows(measured: Sequence[Measured], *, as_json: bool) -> None:
    """What is kept, and what gets nothing."""
    cosines = np.array([cosine for part in measured for _, cosine in part.answers])
    threshold = float(np.quantile(cosines, 1 - KEPT))
    rows: list[dict[str, Any]] = []
    for part in [*measured, *_means(measured)]:
        row: dict[str, Any] = {"task": str(part.task), "items": part.items, "answers": len(part.answers)}
        for word, least in LEVELS.items():
            row |= {
                f"kept, {word}": share(part.answers, least),
                f"nothing, {word}": 100 - share(part.nothing, least),
                f"left out, {word}": 100 - share(part.left_out, least),
            }
        row["kept, cosine"] = share(part.answers, threshold, by_cosine=True)
        row["nothing, cosine"] = 100 - share(part.nothing, threshold, by_cosine=True)
        rows.append(row)
    table = Table(tuple(rows[0]))
    for row in rows:
        table.add(*(f"{value:.1f}" if isinstance(value, float) else value for value in row.values()))
    print_table(table, rows, as_json=as_json)
    print(f"\nthe threshold on the cosine: {threshold:.3f}\n")


def _means(measured: Sequence[Measured]) -> Iterator[Measured]:
    """All collections of one direction together."""
    by_number = defaultdict(list)
    for part in measured:
        by_number[part.task.number].append(part)
    for number, parts in sorted(by_number.items()):
        together = Measured(Task("all", number), items=sum(part.items for part in parts))
        for part in parts:
            together.answers += part.answers
            together.nothing += part.nothing
            together.left_out += part.left_out
        yield together


def print_reliability(measured: Sequence[Measured], *, as_json: bool) -> list[dict[str, Any]]:
    """How often a confidence is reached: by queries without an answer it should be its complement."""
    rows: list[dict[str, Any]] = [
        {
            "direction": f"{part.task.query.value} → {part.task.target.value}",
            "confidence": level,
            "promised": 100 * (1 - level),
            "without an answer": share(part.nothing, level),
            "answers": share(part.answers, level),
        }
        for part in _means(measured)
        for level in RELIABILITY
    ]
    table = Table(tuple(rows[0]))
    for row in rows:
        values = list(row.values())
        table.add(values[0], f"{values[1]:.2f}", *(f"{value:.1f}" for value in values[2:]))
    print_table(table, rows, as_json=as_json)
    return rows


def plot_reliability(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """A panel for each direction: which share of queries reaches a confidence."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    directions = list(dict.fromkeys(row["direction"] for row in rows))
    figure = Figure(figsize=(3.4 * len(directions), 3.2), layout="constrained")
    for axes, direction in zip(
        figure.subplots(1, len(directions), squeeze=False)[0], directions, strict=True
    ):
        own = [row for row in rows if row["direction"] == direction]
        confidences = [row["confidence"] for row in own]
        for name, style in (("answers", "o-"), ("without an answer", "s-"), ("promised", "--")):
            axes.plot(confidences, [row[name] for row in own], style, markersize=4, label=name)
        axes.set_title(direction, fontsize=10)
        axes.set_xlabel("confidence")
        axes.set_ylim(-3, 103)
        axes.grid(alpha=0.2)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("% of queries that reach it")
    figure.axes[0].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(0, 0.7))
    path.parent.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure).print_png(str(path), metadata={"Software": None})  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
