"""How good a model is for photos: captions to photos and back, among those that training never saw.

    python benchmarks/photo.py --photos COCO --minibeir MINIBEIR [--emoji EMOJI] [--model photo]
    python benchmarks/photo.py --photos COCO --minibeir MINIBEIR --final      # test split; judges bars

COCO and MINIBEIR are M-BEIR trees. A caption is searched among the 1,000 photos of its split, and a photo's
captions among those of its split: COCO's, of whose other photos the model was trained, and Flickr8k's, which
no training saw. Products and emoji, in the union pool of their tree, show what photos have cost the rest;
--beside MODEL (for products) and --beside-emoji MODEL compare them with models that were trained on nothing
else. Everything is tuned on validation; --final is for the end.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from figures import verdict_line
from options import add_json, script_parser

from genius.data.mbeir import Split, Tree
from genius.display import Table
from genius.encode.pipeline import default_cache
from genius.evaluate.protocol import Evaluation, PoolName
from genius.evaluate.run import evaluate_model
from genius.model import DEFAULT, model_folder

SYSTEMS = ("dense", "default", "default+rerank")
METRICS = ("hit@1", "hit@5", "hit@10")
PHOTO_TASKS = {"coco": ("coco_task0", "coco_task3"), "flickr8k": ("flickr8k_task0", "flickr8k_task3")}
BARS = {"coco_task0": 0.62, "flickr8k_task0": 0.38}
"""Least hit rate @5 of captions for their photos, re-ranked."""
LEAST_PLAIN, LEAST_RERANKED = 0.93, 1.0
"""Least share of dense search's hits @5, from captions to photos."""
LEAST_OF_SPECIALIST = 0.9


@dataclass(frozen=True)
class Row:
    """The figures of one system for one task."""

    task: str
    system: str
    hit_rates: tuple[float, ...]


def main() -> int:
    """Print the figures; with --final the exit code says whether the bars were held."""
    options = _options()
    model = model_folder(options.model)
    split: Split = "test" if options.final else "val"
    rows: list[Row] = []
    for path, dataset in ((options.photos, "coco"), (options.minibeir, "flickr8k")):
        rows += _measure(Tree(path).only(dataset), model, split, "split", PHOTO_TASKS[dataset])
    products = Tree(options.minibeir).only("fashion", "grocery")
    verdicts = _judge_photos(rows)
    others = [(products, options.beside)]
    if options.emoji:
        others.append((Tree(options.emoji), options.beside_emoji))
    for tree, specialist in others:
        own = _measure(tree, model, split, "union", ())
        rows += own
        if specialist:
            verdicts.append(_judge_rest(own, _measure(tree, specialist, split, "union", ())))
    _print(rows, split, as_json=options.json)
    for sentence, held in verdicts:
        print(verdict_line(sentence, held), file=sys.stderr)
    return int(options.final and not all(held for _, held in verdicts))


def _options() -> argparse.Namespace:
    parser = script_parser(__doc__)
    parser.add_argument("--photos", type=Path, required=True, help="COCO in M-BEIR's layout")
    parser.add_argument("--minibeir", type=Path, required=True, help="Flickr8k, fashion and groceries")
    parser.add_argument("--emoji", type=Path, help="the demo's tree")
    parser.add_argument("--model", default=DEFAULT, help="a folder, or photo (the default)")
    parser.add_argument("--beside", type=Path, help="a model trained by recipes/minibeir.toml")
    parser.add_argument("--beside-emoji", type=Path, help="a model trained by recipes/demo.toml")
    parser.add_argument("--final", action="store_true", help="use the test split instead of validation")
    add_json(parser)
    return parser.parse_args()


def _measure(tree: Tree, model: Path, split: Split, pool: PoolName, tasks: Sequence[str]) -> list[Row]:
    """The rows of all systems for these tasks, or for all tasks and their mean."""
    cache, chosen = default_cache(), list(tasks) or None
    evaluation = evaluate_model(
        tree, model, split=split, cache=cache, pools=[pool], tasks=chosen, systems=SYSTEMS
    ).evaluation
    names = tasks or list(dict.fromkeys(row.task for row in evaluation.measurements))
    label = " and ".join(tree.datasets) or "emoji"
    return [
        Row(
            f"mean of {label}" if name == "mean" else name, system, _hit_rates(evaluation, system, pool, name)
        )
        for name in names
        for system in SYSTEMS
    ]


def _hit_rates(evaluation: Evaluation, system: str, pool: str, task: str) -> tuple[float, ...]:
    return tuple(evaluation.value(system, pool, task, metric) for metric in METRICS)


def _judge_photos(rows: Sequence[Row]) -> list[tuple[str, bool]]:
    hits = {(row.task, row.system): row.hit_rates[1] for row in rows}
    verdicts = []
    for task, bar in BARS.items():
        dense, plain, reranked = (hits[task, system] for system in SYSTEMS)
        verdicts += [
            (f"{task}, re-ranked @5: {reranked:.1%} (bar {bar:.0%})", reranked >= bar),
            (
                f"{task}, codes alone: {plain / dense:.3f} of dense (bar {LEAST_PLAIN})",
                plain >= LEAST_PLAIN * dense,
            ),
            (
                f"{task}, re-ranked: {reranked / dense:.3f} of dense (bar {LEAST_RERANKED})",
                reranked >= LEAST_RERANKED * dense,
            ),
        ]
    return verdicts


def _judge_rest(rows: Sequence[Row], specialist: Sequence[Row]) -> tuple[str, bool]:
    """Whether a model finds of products or emoji about as much as one trained on them alone."""
    own, other = rows[-1], specialist[-1]
    share = own.hit_rates[1] / other.hit_rates[1]
    sentence = f"{own.task}, re-ranked @5: {share:.3f} of the specialist's {other.hit_rates[1]:.1%}"
    return f"{sentence} (bar {LEAST_OF_SPECIALIST})", share >= LEAST_OF_SPECIALIST


def _print(rows: Sequence[Row], split: str, *, as_json: bool) -> None:
    table = Table(["task", "system", *METRICS], f"Hit rates, {split} split")
    for row in rows:
        if as_json:
            figures = dict(zip(METRICS, row.hit_rates, strict=True))
            print(json.dumps({"split": split, "task": row.task, "system": row.system, **figures}))
        table.add(row.task, row.system, *(f"{100 * rate:.1f}" for rate in row.hit_rates))
    if not as_json:
        print(table.markdown())


if __name__ == "__main__":
    sys.exit(main())
