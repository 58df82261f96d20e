"""Trains what is missing, evaluates, and prints a JSON line per figure.

    python benchmarks/quality.py --tree TREE [--recipe recipes/minibeir.toml] [--model M] [--seed 0]
    python benchmarks/quality.py --tree TREE --final      # the test split; exits 1 when a bar is missed
    python benchmarks/quality.py --tree TREE --recipe recipes/paper.toml --force [--final]

Everything is tuned on validation; only --final looks at test. For the purity of a learned modality code it
also trains the quantizer once more with one, beside the model. Bars and the table of seen and unseen targets
go to stderr. The published recipes (`paper`, `reference`) have the rows that their decoder makes; no bar and
no doctor judges them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from bars import INFERRED, UNSEEN, beside_geometry, judge_search, memorised, seen_and_unseen
from measuring import ROOT, add_recipe, recipe_of
from seeds import LEARNED

from genius.data.mbeir import Split, Tree
from genius.doctor.examine import examine
from genius.doctor.health import Health
from genius.encode.pipeline import default_cache
from genius.evaluate.protocol import Evaluation
from genius.evaluate.run import evaluate_model
from genius.model import Model
from genius.train.run import Recipe, train_model

PUBLISHED = ("paper", "reference")
SHOWN = ("dense", "dense-fair", *LEARNED)
MODES = ("auto", "fast")
"""What is measured of a published recipe."""
# name of the bar: system, pool, task, least value in percent of hit@5
BARS = {
    "dense, wanted modality": ("dense-fair", "union", "mean", 39.0),
    "dense, union pool": ("dense", "union", "mean", 37.5),
    "picture to picture, fashion": ("dense-fair", "union", "fashion_task4", 38.8),
    "picture to picture, grocery": ("dense-fair", "union", "grocery_task4", 70.4),
    "text to text": ("dense-fair", "union", "flickr8k_task1", 57.2),
}
MOST_WRONG_MODALITY = 5.0
# the quantizer, test split, union pool
LEAST_PURITY = 0.99
LEAST_USE = 0.9
LEAST_OWN_CODE = 0.99
LEAST_KEPT = 0.99
LEAST_SURVIVAL = (0.97, 0.75, 0.66)
ALL = 10**9


def main() -> int:
    """Train, evaluate, print, and with --final judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, required=True)
    add_recipe(parser)
    parser.add_argument("--final", action="store_true", help="look at the test split instead of validation")
    parser.add_argument(
        "--without-learned", action="store_true", help="leave out the learned modality code's purity"
    )
    options = parser.parse_args()
    recipe = recipe_of(options)
    model = options.model or ROOT / "out" / f"{recipe.name}-{recipe.seed}"
    train_model(recipe, Tree(options.tree), model, cache=default_cache(), force=options.force)
    split: Split = "test" if options.final else "val"
    judged = recipe.name not in PUBLISHED
    evaluation = evaluate_model(
        options.tree,
        model,
        split=split,
        cache=default_cache(),
        systems=None if judged else SHOWN,
        modes=MODES,
    ).evaluation
    for one in evaluation.measurements:
        print(json.dumps(dataclasses.asdict(one)))
    if recipe.quantizer is not None:
        show_inferred(options.tree, model, split, None if judged else LEARNED[1:])
    wrong = wrong_modality(evaluation, options.tree)
    show("dense", wrong_modality=wrong)
    health = examined(options.tree, model, split) if recipe.quantizer is not None and judged else None
    if health is not None:
        show_health("quantizer", health)
        show_unseen(evaluation, Tree(options.tree), split)
    print(seen_and_unseen(evaluation).markdown(), file=sys.stderr)
    if not options.final or not judged:
        return 0
    verdicts = judge(evaluation, wrong)
    if health is not None:
        verdicts += judge_search(evaluation, Tree(options.tree), split)
        verdicts += judge_codes(health)
        if not options.without_learned:
            learned = examined(options.tree, train_learned(recipe, options.tree, model), split)
            show_health("quantizer, first code learned", learned)
            purity = f"purity of the learned modality code: {learned.purity:.4f} >= {LEAST_PURITY}"
            verdicts.append((purity, learned.purity >= LEAST_PURITY))
    for sentence, held in verdicts:
        print(f"{'held' if held else 'MISSED':7} {sentence}", file=sys.stderr)
    return int(not all(held for _, held in verdicts))


def show(system: str, task: str = "mean", **figures: float) -> None:
    """Print figures of the union pool as JSON lines."""
    for metric, value in figures.items():
        print(json.dumps({"system": system, "pool": "union", "task": task, "metric": metric, "value": value}))


def examined(tree: Path, model: Path, split: Split) -> Health:
    """The health of a model's codes, by all queries of the split."""
    return examine(Tree(tree), Model.open(model), cache=default_cache(), split=split, queries=ALL).health


def show_inferred(tree: Path, model: Path, split: Split, systems: Sequence[str] | None) -> None:
    """Print what is found in the union pool when beams are not told the wanted modality: by some systems,
    or by all that the model has."""
    beamed = ["geometry", "default", *(["genius"] if "decoder" in Model.open(model).stages else [])]
    systems = systems or [*beamed, *(f"{name}+rerank" for name in beamed)]
    found = evaluate_model(
        tree, model, split=split, cache=default_cache(), pools=["union"], systems=systems, want=False
    ).evaluation
    for one in found.measurements:
        print(json.dumps({**dataclasses.asdict(one), "system": f"{one.system}{INFERRED}"}))


def show_unseen(evaluation: Evaluation, tree: Tree, split: Split) -> None:
    """Print what the default finds more than geometry of targets that training did not show."""
    for task, known in memorised(evaluation).items():
        if not known.all():
            apart = beside_geometry(evaluation, task, ~known, tree.judgements(split, task))
            show(UNSEEN, str(task), **dataclasses.asdict(apart))


def show_health(system: str, health: Health) -> None:
    """Print what the doctor measured."""
    show(
        system, embeddings=health.embeddings, vectors=health.vectors, codes=health.codes, purity=health.purity
    )
    show(system, own_code=health.buckets.own, cosine=health.cosine, ceiling=health.ceiling)
    levels = zip(health.levels, health.known, health.inferred, strict=True)
    for number, (level, one, other) in enumerate(levels, start=1):
        show(system, **{f"used_{number}": level.used, f"survival_{number}": one})
        show(system, **{f"survival_inferred_{number}": other})


def train_learned(recipe: Recipe, tree: Path, model: Path) -> Path:
    """The same model with a learned modality code: its stage 0 is taken over, and it needs no decoder."""
    assert recipe.quantizer is not None
    if recipe.quantizer.codebooks.modality_code == "learned":
        return model
    books = dataclasses.replace(recipe.quantizer.codebooks, modality_code="learned")
    quantizer = dataclasses.replace(recipe.quantizer, codebooks=books)
    changed = dataclasses.replace(recipe, quantizer=quantizer, decoder=None)
    out = model.with_name(f"{model.name}-learned")
    if not out.exists():
        shutil.copytree(model, out)
    train_model(changed, Tree(tree), out, cache=default_cache())
    return out


def wrong_modality(evaluation: Evaluation, tree: Path) -> float:
    """The mean over tasks of the share of dense results in the union's top five of another modality."""
    modality = {item.id: item.modality for item in Tree(tree)}
    shares = []
    for run in evaluation.runs:
        if (run.system, run.pool) == ("dense", "union"):
            tops = [item for found in run.results.values() for item, _ in found[:5]]
            shares.append(sum(modality[item] is not run.task.target for item in tops) / len(tops))
    return 100 * sum(shares) / len(shares)


def judge(evaluation: Evaluation, wrong: float) -> list[tuple[str, bool]]:
    """The bars of stage 0: a sentence each, and whether it holds."""
    verdicts = [
        (f"wrong modality in the top five: {wrong:.2f} < {MOST_WRONG_MODALITY}", wrong < MOST_WRONG_MODALITY)
    ]
    tasks = {"mean", *(one.task for one in evaluation.measurements)}
    for name, (system, pool, task, bar) in BARS.items():
        if task not in tasks:  # of another benchmark
            continue
        value = 100 * evaluation.value(system, pool, task, "hit@5")
        verdicts.append((f"{name}: {value:.2f} >= {bar}", value >= bar))
    return verdicts


def judge_codes(health: Health) -> list[tuple[str, bool]]:
    """The bars of the quantizer."""
    first = health.coding.semantic
    used = min(level.used for level in health.levels[first : first + 4])
    own, kept = health.buckets.own, health.kept
    survival = health.known[first], health.known[first + 1], health.known[-1]
    verdicts = [
        (f"codes used at the first four semantic levels: {used:.3f} >= {LEAST_USE}", used >= LEAST_USE),
        (f"distinct contents with a code of their own: {own:.4f} >= {LEAST_OWN_CODE}", own >= LEAST_OWN_CODE),
        (f"codes alone, share of fair dense: {kept:.3f} >= {LEAST_KEPT}", kept >= LEAST_KEPT),
    ]
    for name, value, bar in zip(("one", "two", "all"), survival, LEAST_SURVIVAL, strict=True):
        verdicts.append((f"survival after {name} semantic: {value:.3f} >= {bar}", value >= bar))
    return verdicts


if __name__ == "__main__":
    sys.exit(main())
